use std::time::Duration;

use http::StatusCode;

use super::super::policy::Range;
use super::super::policy::{BlockedAddress, Policy};
use super::super::tls::TlsProblem;
use super::super::url::Url;
use super::{BadResponse, ConcurrencyLimit, Part, RequestError, RequestErrorKind, RequestPhase};

/// Every kind, in the order of [`TEXTS`].
fn kinds() -> Vec<RequestErrorKind> {
    let after = Duration::from_millis(2500);
    let busy = |limit| RequestErrorKind::Busy {
        limit,
        max: 8,
        waited: after,
    };
    let blocked = BlockedAddress {
        address: [10, 0, 0, 1].into(),
        range: Range::Private,
        policy: Policy::PublicOnly,
        flag: "--allow-cidr",
        denied: None,
    };
    let connect = RequestErrorKind::Connect {
        address: ([192, 0, 2, 1], 443).into(),
        reason: "Connection refused (os error 111)".to_owned(),
    };
    let phases = [
        RequestPhase::Resolve,
        RequestPhase::Connect,
        RequestPhase::Tls,
        RequestPhase::Head,
        RequestPhase::Body,
    ];
    let parts = [
        Part::RequestBody,
        Part::ResponseHead,
        Part::ResponseBody,
        Part::Received,
    ];
    let redirects = [Some("b.example".to_owned()), None];
    let broken = [
        BadResponse::NotHttp,
        BadResponse::Truncated,
        BadResponse::Connection("reset".to_owned()),
        BadResponse::Encoded,
        BadResponse::Switched,
    ];
    let mut kinds = vec![
        busy(ConcurrencyLimit::Client),
        busy(ConcurrencyLimit::Host),
        blocked.into(),
    ];
    kinds.push(RequestErrorKind::Resolve("it has no address".to_owned()));
    kinds.push(connect);
    kinds.push(TlsProblem::Expired.into());
    kinds.extend(phases.map(|phase| RequestErrorKind::TimedOut { phase, after }));
    kinds.extend(parts.map(|part| RequestErrorKind::TooLarge { part, limit: 4096 }));
    kinds.extend(redirects.map(|to| RequestErrorKind::Redirected {
        status: StatusCode::FOUND,
        to,
    }));
    kinds.extend(broken.map(RequestErrorKind::BadResponse));
    kinds
}

/// The text of each kind, after whether certainly nothing was sent.
const TEXTS: &str = "
unsent 8 requests of this client are running, and none ended within 2500 ms
unsent 8 requests to this host are running, and none ended within 2500 ms
unsent 10.0.0.1 is a private address, and only public addresses are allowed; to allow it, add 10.0.0.1/32 to --allow-cidr
unsent its name could not be resolved: it has no address
unsent could not connect to 192.0.2.1:443: Connection refused (os error 111)
unsent its certificate has expired
unsent its name was not resolved within 2500 ms
unsent no connection was made within 2500 ms
unsent TLS was not set up within 2500 ms
maybe no response came within 2500 ms
maybe the response was not complete within 2500 ms
unsent the body of the request is larger than 4096 bytes
maybe the head of the response is larger than 4096 bytes, or has more than 100 headers
maybe the body of the response is larger than 4096 bytes
maybe what was received before the response was complete is larger than 4096 bytes
maybe it answered 302 with a redirect to b.example; redirects are not followed, so use the final URL
maybe it answered 302 with a redirect to no other host; redirects are not followed, so use the final URL
maybe the response is not HTTP
maybe the connection was closed before the response was complete
maybe the connection broke before the response was complete: reset
maybe the response is compressed or encoded, which the request does not accept
maybe the response switches to another protocol, which was not requested
";

#[test]
fn an_error_shows_what_went_wrong_and_whether_anything_was_sent() {
    let words = kinds().into_iter().map(|kind| {
        let sent = if kind.is_unsent() { "unsent" } else { "maybe" };
        format!("{sent} {kind}")
    });
    assert_eq!(words.collect::<Vec<_>>().join("\n"), TEXTS.trim());
}

#[test]
fn an_error_begins_with_the_host() {
    let url: Url = "https://a.example:8443/path?secret".parse().unwrap();
    let error = RequestError {
        origin: url.origin().clone(),
        kind: RequestErrorKind::Tls(TlsProblem::NotTls),
    };
    assert_eq!(
        error.to_string(),
        "https://a.example:8443: it does not speak TLS on this port"
    );
}

#[test]
fn each_error_has_a_code_and_a_summary_of_our_own() {
    let codes = kinds().into_iter().map(|kind| {
        let summary = kind.summary();
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
        kind.code()
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
    let names = RequestErrorKind::Tls(TlsProblem::WrongHost(vec!["b.example".to_owned()]));
    assert_eq!(names.summary(), "its certificate is not for this host");
}

#[test]
fn a_server_that_answers_in_http_has_responded() {
    let answers = kinds().into_iter().filter(RequestErrorKind::has_response);
    let answers: Vec<_> = answers.map(|kind| kind.summary()).collect();
    assert_eq!(
        answers,
        [
            "the response was not complete within 2500 ms",
            "the body of the response is larger than 4096 bytes",
            "it answered 302; redirects are not followed",
            "it answered 302; redirects are not followed",
            "the response is compressed or encoded, which the request does not accept",
            "the response switches to another protocol, which was not requested",
        ]
    );
}
