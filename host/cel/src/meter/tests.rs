use std::time::Duration;

use super::*;

fn far() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(3600))
}

#[test]
fn steps_are_counted_to_the_last() {
    let (result, usage) = run(10, far(), || charge(4).and_then(|()| charge(6)));
    assert_eq!(result, Ok(()));
    let expected = Usage {
        steps: 10,
        stop: None,
    };
    assert_eq!(usage, expected);
}

#[test]
fn a_spent_budget_stays_spent() {
    let (late, usage) = run(10, far(), || {
        let _ = charge(11);
        charge(0)
    });
    assert!(late.is_err());
    assert_eq!(usage.stop, Some(Stop::Steps));
    assert_eq!(usage.steps, 10);
}

#[test]
fn a_deadline_ends_an_endless_loop() {
    let deadline = Some(Instant::now() + Duration::from_millis(20));
    let (rounds, usage) = run(u64::MAX, deadline, || {
        let mut rounds = 0_u64;
        while charge(1).is_ok() {
            rounds += 1;
        }
        rounds
    });
    assert!(rounds > 0);
    assert_eq!(usage.stop, Some(Stop::Time));
}

#[test]
fn a_large_charge_reads_the_clock_at_once() {
    let (result, usage) = run(u64::MAX, Some(Instant::now()), || charge(LARGE));
    assert!(result.is_err());
    assert_eq!(usage.stop, Some(Stop::Time));
}

#[test]
fn a_panic_leaves_no_meter_behind() {
    let panicked = std::panic::catch_unwind(|| {
        run(1, far(), || -> () {
            let _ = charge(2);
            panic!("in the middle");
        })
    });
    assert!(panicked.is_err());
    assert_eq!(charge(1_000_000), Ok(()));
}
