use std::time::Duration;

use podloom_api::RelayConnection::{Connected, Disconnected, Unknown};
use podloom_engine::outbound::{
    BlockedAddress, Policy, Range, RequestErrorKind, RequestPhase, TlsProblem,
};

use super::super::super::answer::Trouble;
use super::super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn timeout() -> Answer {
    let kind = RequestErrorKind::TimedOut {
        phase: RequestPhase::Head,
        after: Duration::from_secs(5),
    };
    Answer::Unusable(Trouble::of(&kind).unwrap())
}

fn blocked() -> Answer {
    let kind = RequestErrorKind::Blocked(BlockedAddress {
        address: [10, 0, 0, 1].into(),
        range: Range::Private,
        policy: Policy::PublicOnly,
        flag: "--flag",
        denied: None,
    });
    Answer::Unusable(Trouble::of(&kind).unwrap())
}

/// What a status shows: status, the second of connectedAt, the code of lastError.
type Shown = (RelayConnection, Option<i64>, &'static str);

fn shown(link: &Link) -> (RelayConnection, Option<i64>, String) {
    let code = link.last_error.as_deref().unwrap_or_default();
    let code = code.split(':').next().unwrap_or_default();
    let since = link.connected_at.map(Timestamp::as_second);
    (link.status, since, code.to_owned())
}

/// Checks what a link shows after each of these answers, which come in the seconds 1, 2, 3, ...
#[track_caller]
fn check(start: Link, steps: &[(Answer, Shown)]) {
    let mut link = start;
    for (second, (answer, expected)) in (1..).zip(steps) {
        link = link.after(answer, at(second));
        let (status, since, code) = shown(&link);
        assert_eq!(
            (status, since, code.as_str()),
            *expected,
            "after answer {second}, {answer}"
        );
    }
}

fn connected() -> Link {
    Link::stored(Connected, Some(at(0)), None)
}

#[test]
fn a_lease_connects() {
    check(
        Link::default(),
        &[(Answer::Ready, (Connected, Some(1), ""))],
    );
}

#[test]
fn a_connection_keeps_its_start() {
    let steps: Vec<_> = (0..10)
        .map(|_| (Answer::Ready, (Connected, Some(1), "")))
        .collect();
    check(Link::default(), &steps);
}

#[test]
fn the_start_of_a_connection_has_no_fraction() {
    let now = Timestamp::new(7, 999_999_999).unwrap();
    let link = Link::default().after(&Answer::Ready, now);
    assert_eq!(link.connected_at, Some(at(7)));
}

#[test]
fn two_bad_results_do_not_end_a_connection() {
    check(
        connected(),
        &[
            (timeout(), (Connected, Some(0), "Timeout")),
            (Answer::NoLease, (Connected, Some(0), "NoLease")),
            (Answer::Ready, (Connected, Some(0), "")),
            (Answer::LeaseNotReady, (Connected, Some(0), "LeaseNotReady")),
            (timeout(), (Connected, Some(0), "Timeout")),
            (Answer::Ready, (Connected, Some(0), "")),
        ],
    );
}

#[test]
fn the_third_bad_result_in_a_row_ends_a_connection() {
    for (last, code) in [(timeout(), "Timeout"), (Answer::NoLease, "NoLease")] {
        check(
            connected(),
            &[
                (Answer::NoLease, (Connected, Some(0), "NoLease")),
                (timeout(), (Connected, Some(0), "Timeout")),
                (last, (Disconnected, None, code)),
                (timeout(), (Disconnected, None, "Timeout")),
                (Answer::Ready, (Connected, Some(5), "")),
            ],
        );
    }
}

#[test]
fn without_a_connection_a_missing_lease_disconnects_at_once() {
    for (answer, code) in [
        (Answer::NoLease, "NoLease"),
        (Answer::LeaseNotReady, "LeaseNotReady"),
    ] {
        check(Link::default(), &[(answer, (Disconnected, None, code))]);
    }
}

#[test]
fn a_relay_that_does_not_answer_is_unknown_twice() {
    check(
        Link::default(),
        &[
            (timeout(), (Unknown, None, "Timeout")),
            (timeout(), (Unknown, None, "Timeout")),
            (timeout(), (Disconnected, None, "Timeout")),
            (timeout(), (Disconnected, None, "Timeout")),
        ],
    );
}

#[test]
fn a_blocked_relay_is_never_disconnected() {
    let unknown = || (blocked(), (Unknown, None, "Blocked"));
    check(
        Link::default(),
        &[unknown(), unknown(), unknown(), unknown()],
    );
    let still = || (blocked(), (Connected, Some(0), "Blocked"));
    check(connected(), &[still(), still(), unknown(), unknown()]);
}

#[test]
fn a_tunnel_without_pods_is_disconnected() {
    let link = Link::without_pod();
    assert_eq!(shown(&link), (Disconnected, None, "NoReadyPod".to_owned()));
    let link = link.with_pod();
    assert_eq!(link, Link::default(), "what was before says nothing");
    check(link, &[(timeout(), (Unknown, None, "Timeout"))]);
}

#[test]
fn a_ready_pod_changes_nothing_else() {
    for link in [
        connected(),
        Link::stored(Disconnected, None, Some("NoLease: none".to_owned())),
        Link::default().after(&timeout(), at(1)),
    ] {
        assert_eq!(link.clone().with_pod(), link);
    }
}

#[test]
fn a_relay_that_was_gone_before_a_restart_stays_gone() {
    check(
        Link::stored(Disconnected, None, Some("Timeout: none".to_owned())),
        &[(timeout(), (Disconnected, None, "Timeout"))],
    );
}

#[test]
fn a_stored_connection_without_a_start_gets_one() {
    let link = Link::stored(Connected, None, None);
    check(link, &[(Answer::Ready, (Connected, Some(1), ""))]);
}

#[test]
fn a_start_without_a_connection_is_not_kept() {
    let link = Link::stored(Disconnected, Some(at(0)), None);
    check(link, &[(Answer::Ready, (Connected, Some(1), ""))]);
    let link = Link::stored(Unknown, Some(at(0)), None);
    check(link, &[(timeout(), (Unknown, None, "Timeout"))]);
}

#[test]
fn errors_are_codes_with_a_sentence_of_ours() {
    let tls = RequestErrorKind::Tls(TlsProblem::Expired);
    let tls = Answer::Unusable(Trouble::of(&tls).unwrap());
    for (answer, code) in [
        (tls, "TLSError"),
        (timeout(), "Timeout"),
        (blocked(), "Blocked"),
    ] {
        let link = Link::default().after(&answer, at(1));
        let error = link.last_error.unwrap();
        let (found, sentence) = error.split_once(": ").unwrap();
        assert_eq!(found, code);
        assert!(
            !sentence.is_empty() && sentence.chars().count() <= 200,
            "{error}"
        );
    }
}
