use std::time::Duration;

use crate::cluster::memory::wait;

#[track_caller]
fn check(poll: u64, failures: u32, expected: u64) {
    let wait = wait(Duration::from_secs(poll), failures, "a");
    let expected = Duration::from_secs(expected);
    assert!(wait >= expected * 9 / 10, "{wait:?}");
    assert!(wait <= expected * 11 / 10, "{wait:?}");
}

#[test]
fn each_wait_is_twice_as_long_up_to_ten_minutes() {
    check(30, 0, 30);
    check(30, 1, 30);
    check(30, 2, 60);
    check(30, 5, 480);
    check(30, 6, 600);
    check(30, u32::MAX, 600);
}

#[test]
fn a_wait_is_never_shorter_than_the_poll_interval() {
    check(3600, 4, 3600);
}

#[test]
fn clusters_do_not_come_back_together() {
    let waits = ["a", "b", "c", "d"].map(|uid| wait(Duration::from_mins(5), 2, uid));
    assert!(waits.iter().any(|it| *it != waits[0]));
}
