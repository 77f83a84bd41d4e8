use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::memory::Shortage;

const POLL: Duration = Duration::from_secs(30);

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

#[track_caller]
fn check(before: Shortage, total: usize, expected: Shortage) {
    assert_eq!(before.after((total, 3), at(100), POLL), expected);
}

#[test]
fn only_what_is_missing_for_an_interval_is_found() {
    check(Shortage::None, 2, Shortage::Seen(at(100)));
    check(Shortage::Seen(at(71)), 2, Shortage::Seen(at(71)));
    check(Shortage::Seen(at(70)), 2, Shortage::Found);
    check(Shortage::Found, 1, Shortage::Found);
}

#[test]
fn nothing_is_missing_once_all_are_there() {
    for before in [
        Shortage::None,
        Shortage::Seen(at(1)),
        Shortage::Found,
        Shortage::Sent,
        Shortage::Accepted(2),
    ] {
        check(before, 3, Shortage::None);
        check(before, 4, Shortage::None);
    }
}

/// An IM that counts in another way is asked once.
#[test]
fn what_im_does_not_add_is_not_asked_for_again() {
    check(Shortage::Sent, 2, Shortage::Accepted(2));
    check(Shortage::Accepted(2), 2, Shortage::Accepted(2));
    // But fewer than that are missing again.
    check(Shortage::Accepted(2), 1, Shortage::Seen(at(100)));
}
