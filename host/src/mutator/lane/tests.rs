use std::sync::atomic::Ordering;
use std::thread::sleep;

use super::{CAREFUL, FastLane, SLOW};

fn slow(lane: &FastLane) {
    // Slow is measured on the clock, so the call has to take that long.
    lane.run(|| sleep(SLOW + SLOW / 2)).unwrap();
}

#[test]
fn no_more_calls_than_places_run_on_the_callers_threads() {
    let lane = FastLane::of(2);
    let (first, second) = (lane.enter(), lane.enter());
    assert!(first.is_some() && second.is_some());
    assert!(lane.enter().is_none());
    drop(second);
    assert!(lane.enter().is_some());
    assert!(FastLane::of(0).enter().is_none());
}

#[test]
fn after_a_slow_call_the_next_ones_run_elsewhere_until_enough_were_fast() {
    let lane = FastLane::of(1);
    assert_eq!(lane.run(|| 1), Ok(1));
    assert!(lane.enter().is_some());
    slow(&lane);
    for _ in 0..CAREFUL {
        assert!(lane.enter().is_none());
        // A machine that stalls may make one of them slow, then it begins again.
        lane.run(|| ()).unwrap();
    }
    for _ in 0..CAREFUL * 100 {
        if lane.enter().is_some() {
            return;
        }
        lane.run(|| ()).unwrap();
    }
    panic!("calls never come back to the fast lane");
}

#[test]
fn a_panic_is_a_message_and_gives_its_place_back() {
    let lane = FastLane::of(1);
    let panicked = lane
        .enter()
        .map(|_place| lane.run(|| panic!("a {}", "bug")));
    assert_eq!(panicked, Some(Err::<(), _>("a bug".to_owned())));
    // Not by entering: printing the panic may have been slow.
    assert_eq!(lane.free.load(Ordering::Relaxed), 1);
}
