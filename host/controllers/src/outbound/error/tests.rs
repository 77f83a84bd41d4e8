use std::time::Duration;

use http::StatusCode;

use super::super::policy::{Policy, Refusal};
use super::super::range::Range;
use super::super::tls::TlsProblem;
use super::super::url::Url;
use super::{Broken, Failure, Part, Phase, RequestError, Scope};

/// Every failure, in the order of [`WORDS`].
fn failures() -> Vec<Failure> {
    let after = Duration::from_millis(2500);
    let busy = |scope| Failure::Busy {
        scope,
        limit: 8,
        waited: after,
    };
    let refusal = Refusal {
        address: [10, 0, 0, 1].into(),
        range: Range::Private,
        policy: Policy::PublicOnly,
        flag: "--allow-cidr",
        denied: None,
    };
    let connect = Failure::Connect {
        address: ([192, 0, 2, 1], 443).into(),
        reason: "Connection refused (os error 111)".to_owned(),
    };
    let phases = [
        Phase::Resolve,
        Phase::Connect,
        Phase::Tls,
        Phase::Answer,
        Phase::Body,
    ];
    let parts = [Part::Request, Part::Head, Part::Answer, Part::Travel];
    let redirects = [Some("b.example".to_owned()), None];
    let broken = [
        Broken::NotHttp,
        Broken::EndedEarly,
        Broken::Connection("reset".to_owned()),
        Broken::Encoded,
        Broken::Switched,
    ];
    let mut failures = vec![busy(Scope::All), busy(Scope::Host), refusal.into()];
    failures.push(Failure::Resolve("it has no address".to_owned()));
    failures.push(connect);
    failures.push(TlsProblem::Expired.into());
    failures.extend(phases.map(|phase| Failure::TimedOut { phase, after }));
    failures.extend(parts.map(|part| Failure::TooLarge { part, limit: 4096 }));
    failures.extend(redirects.map(|to| Failure::Redirected {
        status: StatusCode::FOUND,
        to,
    }));
    failures.extend(broken.map(Failure::Broken));
    failures
}

/// What each failure says, after whether it is certain that nothing was sent.
const WORDS: &str = "
unsent 8 requests of this client are under way, and none ended within 2500 ms
unsent 8 requests to this host are under way, and none ended within 2500 ms
unsent 10.0.0.1 is a private address, and only public addresses are allowed; to allow it, add 10.0.0.1/32 to --allow-cidr
unsent its name could not be resolved: it has no address
unsent could not connect to 192.0.2.1:443: Connection refused (os error 111)
unsent its certificate has expired
unsent its name was not resolved within 2500 ms
unsent no connection was made within 2500 ms
unsent TLS was not set up within 2500 ms
maybe no answer came within 2500 ms
maybe the answer did not end within 2500 ms
unsent the body of the request is larger than 4096 bytes
maybe the head of the answer is larger than 4096 bytes, or has more than 100 headers
maybe the body of the answer is larger than 4096 bytes
maybe what came back without an end of the answer is larger than 4096 bytes
maybe it answered 302 and points to b.example; redirects are not followed, so use the final URL
maybe it answered 302 and points to no other host; redirects are not followed, so use the final URL
maybe what came back is not HTTP
maybe the connection was closed before the answer had ended
maybe the connection broke before the answer had ended: reset
maybe the answer is encoded, which was not asked for
maybe the answer switches to another protocol, which was not asked for
";

#[test]
fn a_failure_says_what_went_wrong_and_whether_anything_was_sent() {
    let words = failures().into_iter().map(|failure| {
        let sent = if failure.is_unsent() {
            "unsent"
        } else {
            "maybe"
        };
        format!("{sent} {failure}")
    });
    assert_eq!(words.collect::<Vec<_>>().join("\n"), WORDS.trim());
}

#[test]
fn an_error_begins_with_the_host() {
    let url: Url = "https://a.example:8443/path?secret".parse().unwrap();
    let error = RequestError {
        origin: url.origin().clone(),
        failure: Failure::Tls(TlsProblem::NotTls),
    };
    assert_eq!(
        error.to_string(),
        "https://a.example:8443: it does not speak TLS on this port"
    );
}

#[test]
fn each_failure_has_a_code_and_a_text_of_our_own() {
    let codes = failures().into_iter().map(|failure| {
        let summary = failure.summary();
        assert!(summary.len() <= 200, "{summary}");
        for chosen in [
            "10.0.0.1",
            "192.0.2.1",
            "it has no address",
            "b.example",
            "reset",
        ] {
            assert!(!summary.contains(chosen), "{summary}");
        }
        failure.code()
    });
    let mut codes: Vec<_> = codes.collect();
    codes.dedup();
    assert_eq!(
        codes,
        [
            "Busy",
            "Blocked",
            "Unreachable",
            "TLSError",
            "Timeout",
            "RequestTooLarge",
            "BadResponse"
        ]
    );
    let names = Failure::Tls(TlsProblem::WrongHost(vec!["b.example".to_owned()]));
    assert_eq!(names.summary(), "its certificate is not for this host");
}

#[test]
fn whoever_answered_in_http_answered() {
    let answers = failures().into_iter().filter(Failure::is_answer);
    let answers: Vec<_> = answers.map(|failure| failure.summary()).collect();
    assert_eq!(
        answers,
        [
            "the answer did not end within 2500 ms",
            "the body of the answer is larger than 4096 bytes",
            "it answered 302; redirects are not followed",
            "it answered 302; redirects are not followed",
            "the answer is encoded, which was not asked for",
            "the answer switches to another protocol, which was not asked for",
        ]
    );
}
