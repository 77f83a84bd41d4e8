use std::time::{Duration, Instant};

use super::super::{KEYS, Passage, Rate};

const PERIOD: Duration = Duration::from_secs(10);

#[test]
fn what_is_too_much_for_one_key_is_counted_and_others_pass() {
    let (rate, now) = (Rate::new(2, PERIOD), Instant::now());
    let third = now + PERIOD / 4;
    assert_eq!(rate.pass(&1, now), Passage::Passed);
    assert_eq!(rate.pass(&1, now), Passage::Passed);
    assert_eq!(rate.pass(&1, third), Passage::FirstLeftOut(PERIOD * 3 / 4));
    assert_eq!(rate.pass(&1, third), Passage::LeftOut);
    assert_eq!(rate.pass(&2, third), Passage::Passed);
    let end = now + PERIOD;
    assert_eq!([1, 2, 3].map(|key| rate.left_out(&key, end)), [2, 0, 0]);
    assert_eq!(rate.pass(&1, end), Passage::Passed, "another period began");
}

#[test]
fn a_period_ends_by_itself_too() {
    let (rate, now) = (Rate::new(1, PERIOD), Instant::now());
    for at in [now, now + PERIOD, now + PERIOD * 3] {
        assert_eq!(rate.pass(&1, at), Passage::Passed);
        assert_eq!(rate.pass(&1, at), Passage::FirstLeftOut(PERIOD));
    }
    let in_the_last = now + PERIOD * 7 / 2;
    assert_eq!(rate.left_out(&1, in_the_last), 2, "of those before");
    assert_eq!(rate.pass(&1, in_the_last), Passage::LeftOut, "it goes on");
    assert_eq!(rate.left_out(&1, now + PERIOD * 4), 2);
}

#[test]
fn many_keys_take_bounded_memory() {
    let (rate, now) = (Rate::new(1, PERIOD), Instant::now());
    for key in 0..KEYS {
        assert_eq!(rate.pass(&key, now), Passage::Passed);
    }
    assert_eq!(rate.pass(&KEYS, now), Passage::NoRoom);
    assert_eq!(rate.pass(&KEYS, now + PERIOD), Passage::Passed);
    assert_eq!(rate.keys.lock().expect("nobody panics").len(), 1);
}
