mod link;

use std::time::Duration;

use http::StatusCode;
use podloom_engine::outbound::{
    BadResponse, BlockedAddress, ConcurrencyLimit, Part, Policy, Range, RequestPhase, TlsProblem,
};

use super::*;

/// A text that only the relay can have written.
const THEIRS: &str = "evil.example";

fn blocked(denied: Option<&str>) -> BlockedAddress {
    BlockedAddress {
        address: [10, 0, 0, 1].into(),
        range: Range::Private,
        policy: Policy::PublicOnly,
        flag: "--flag",
        denied: denied.map(|cidr| cidr.parse().unwrap()),
    }
}

#[test]
fn no_word_of_the_relay_is_in_a_trouble() {
    let blocked = blocked(None);
    let kinds = [
        (RequestErrorKind::Blocked(blocked), "Blocked"),
        (RequestErrorKind::Resolve(THEIRS.to_owned()), "Unreachable"),
        (
            RequestErrorKind::Connect {
                address: ([192, 0, 2, 1], 443).into(),
                reason: THEIRS.to_owned(),
            },
            "Unreachable",
        ),
        (
            TlsProblem::WrongHost(vec![THEIRS.to_owned()]).into(),
            "TLSError",
        ),
        (TlsProblem::Other(THEIRS.to_owned()).into(), "TLSError"),
        (
            RequestErrorKind::TimedOut {
                phase: RequestPhase::Body,
                after: Duration::from_secs(5),
            },
            "Timeout",
        ),
        (
            RequestErrorKind::TooLarge {
                part: Part::ResponseBody,
                limit: 4 * 1024 * 1024,
            },
            "BadResponse",
        ),
        (
            RequestErrorKind::Redirected {
                status: StatusCode::FOUND,
                to: Some(THEIRS.to_owned()),
            },
            "BadResponse",
        ),
        (
            BadResponse::Connection(THEIRS.to_owned()).into(),
            "BadResponse",
        ),
    ];
    for (kind, code) in kinds {
        let trouble = Trouble::of(&kind).expect("an answer").to_string();
        let (found, sentence) = trouble.split_once(": ").expect("a code");
        assert_eq!(found, code, "{trouble}");
        assert!(!trouble.contains(THEIRS), "{trouble}");
        assert!(!trouble.contains("192.0.2.1"), "{trouble}");
        assert!(sentence.len() <= 200, "{trouble}");
    }
}

#[test]
fn a_request_that_was_not_sent_for_lack_of_room_is_no_answer() {
    let busy = RequestErrorKind::Busy {
        limit: ConcurrencyLimit::Client,
        max: 8,
        waited: Duration::from_secs(30),
    };
    assert_eq!(Trouble::of(&busy), None);
}

#[test]
fn who_is_blocked_learns_which_flag_decides() {
    let of = |denied| RequestErrorKind::Blocked(blocked(denied));
    let trouble = |denied| Trouble::of(&of(denied)).expect("an answer");
    for (trouble, flag) in [
        (Trouble::in_cluster(), "--portal-relay-allow-cidr"),
        (trouble(None), "--portal-relay-allow-cidr"),
        (trouble(Some("10.0.0.0/8")), "--portal-relay-deny-cidr"),
    ] {
        let text = trouble.to_string();
        assert!(text.starts_with("Blocked: ") && text.len() <= 209, "{text}");
        assert!(text.contains(flag) && !text.contains("10.0.0."), "{text}");
    }
}

#[test]
fn answers_are_codes_with_a_sentence() {
    for answer in [Answer::NoLease, Answer::LeaseNotReady] {
        let text = answer.to_string();
        let (code, sentence) = text.split_once(": ").expect("a code");
        assert_eq!(code, format!("{answer:?}"));
        assert!(sentence.len() <= 200, "{text}");
    }
}
