use podloom_api::names::rollout::reason;
use podloom_api::{PassedPods, RolloutCounts, RolloutLimits};

use super::{Evidence, judge};
use crate::tally::{Life, Lives};

fn passed(pods: i64, denied: i64, failed: i64, mean: i64) -> PassedPods {
    PassedPods {
        pods,
        denied,
        failed,
        microseconds: pods * mean,
    }
}

const fn life(ready: i64, unready: i64, restarted: i64) -> Life {
    Life {
        ready,
        unready,
        restarted,
        pods: ready + unready,
    }
}

/// What the defaults decide about the serving chain, the candidate, and pods that both were tried on.
#[track_caller]
fn check(reviews: [PassedPods; 3], lives: [Life; 2], expected: Option<&str>) {
    let ([serving, candidate, tried], [old, new]) = (reviews, lives);
    let evidence = Evidence {
        counts: RolloutCounts {
            serving,
            candidate,
            tried,
        },
        lives: Lives {
            serving: old,
            candidate: new,
            is_blind: false,
        },
    };
    let verdict = judge(&RolloutLimits::default(), &evidence);
    let reason = verdict.as_ref().map(|it| it.reason);
    assert_eq!(reason, expected, "{evidence:#?} {verdict:?}");
}

const GOOD: PassedPods = PassedPods {
    pods: 100,
    denied: 0,
    failed: 0,
    microseconds: 30_000,
};
const NONE: PassedPods = PassedPods {
    pods: 0,
    microseconds: 0,
    ..GOOD
};
const FINE: [Life; 2] = [life(100, 0, 0), life(100, 0, 0)];

#[test]
fn denials_and_failures_take_it_back() {
    let denied = Some(reason::DENIED);
    for (reviews, expected) in [
        ([GOOD, GOOD, GOOD], None),
        // One unlucky pod decides nothing, and neither do two of a few.
        ([GOOD, passed(2, 2, 0, 300), NONE], None),
        ([GOOD, passed(3, 3, 0, 300), NONE], denied),
        // One that the serving chain accepts counts twice.
        ([GOOD, passed(10, 2, 0, 300), passed(10, 2, 0, 300)], denied),
        // The serving chain denies about as many.
        (
            [passed(100, 10, 0, 300), passed(100, 11, 0, 300), NONE],
            None,
        ),
        (
            [passed(100, 10, 0, 300), passed(100, 12, 0, 300), NONE],
            denied,
        ),
        // Three of very many are less than one percent.
        ([GOOD, passed(1000, 3, 0, 300), NONE], None),
        ([GOOD, passed(100, 0, 3, 300), NONE], Some(reason::FAILED)),
        ([GOOD, GOOD, passed(100, 0, 3, 300)], Some(reason::FAILED)),
    ] {
        check(reviews, FINE, expected);
    }
}

#[test]
fn pods_that_live_badly_take_it_back() {
    let (unready, restarted) = (Some(reason::UNREADY), Some(reason::RESTARTED));
    for (old, new, expected) in [
        (life(100, 0, 0), life(20, 2, 0), None),
        (life(100, 0, 0), life(20, 3, 0), unready),
        (life(80, 20, 0), life(80, 20, 0), None),
        (life(100, 0, 0), life(20, 0, 3), restarted),
        (life(80, 0, 20), life(80, 0, 20), None),
        // Nothing is known of the other chain.
        (Life::default(), life(20, 3, 0), unready),
    ] {
        check([GOOD, GOOD, NONE], [old, new], expected);
    }
}

#[test]
fn time_takes_it_back() {
    for (old, new, expected) in [
        // Three times as long, but less than 20 ms longer.
        (GOOD, passed(100, 0, 0, 900), None),
        (GOOD, passed(100, 0, 0, 20_301), Some(reason::SLOW)),
        (GOOD, passed(19, 0, 0, 90_000), None),
        // 20 ms longer, but not twice as long.
        (passed(100, 0, 0, 50_000), passed(100, 0, 0, 90_000), None),
        (NONE, passed(100, 0, 0, 90_000), None),
    ] {
        check([old, new, NONE], FINE, expected);
    }
}

#[test]
fn a_verdict_says_its_numbers() {
    let evidence = Evidence {
        counts: RolloutCounts {
            serving: passed(50, 1, 0, 300),
            candidate: passed(40, 4, 0, 300),
            tried: NONE,
        },
        lives: Lives::default(),
    };
    let verdict = judge(&RolloutLimits::default(), &evidence).unwrap();
    assert_eq!(
        verdict.message,
        "of 40 pods with the candidate, 4 were denied; of 50 with the serving chain, 1; the limit is 3, and 1 percent more"
    );
}
