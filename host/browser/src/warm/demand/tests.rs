use std::fmt::Write as _;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

#[test]
fn what_began_within_ten_seconds_counts() {
    let mut demand = Demand::default();
    for second in [0, 1, 4, 5, 9, 30] {
        demand.began(at(second));
    }
    assert_eq!(demand.busiest(at(31)), 5);
}

#[test]
fn nothing_counts_for_longer_than_five_minutes() {
    let mut demand = Demand::default();
    demand.began(at(0));
    assert_eq!(demand.busiest(at(299)), 1);
    assert_eq!(demand.busiest(at(300)), 0);
}

#[test]
fn a_clock_that_is_set_back_loses_nothing() {
    let mut demand = Demand::default();
    demand.began(at(20));
    demand.began(at(3));
    assert_eq!(demand.busiest(at(20)), 2);
}

/// How sessions come.
struct Load {
    name: &'static str,
    /// How many begin in a second.
    of: fn(i64) -> u32,
}

/// What ten minutes of a load came to.
struct Outcome {
    warm: u32,
    cold: u32,
    /// The most pods that waited at the same time, and how many do five minutes later.
    most: usize,
    rest: usize,
}

/// Plays a load second by second: each session takes a pod or is cold, and new pods are ready after some seconds.
fn simulated(load: &Load, ready_after: i64, max: usize) -> Outcome {
    let mut demand = Demand::default();
    let (mut ready, mut starting) = (0_usize, VecDeque::new());
    let mut outcome = Outcome {
        warm: 0,
        cold: 0,
        most: 0,
        rest: 0,
    };
    for second in 0..910 {
        while starting.front().is_some_and(|at| *at <= second) {
            starting.pop_front();
            ready += 1;
        }
        let begin = if second < 600 { (load.of)(second) } else { 0 };
        for _ in 0..begin {
            demand.began(at(second));
            match ready.checked_sub(1) {
                Some(left) => (ready, outcome.warm) = (left, outcome.warm + 1),
                None => outcome.cold += 1,
            }
        }
        let wanted = demand.busiest(at(second)).min(max);
        ready = ready.min(wanted);
        for _ in ready + starting.len()..wanted {
            starting.push_back(second + ready_after);
        }
        outcome.most = outcome.most.max(ready + starting.len());
    }
    outcome.rest = ready + starting.len();
    outcome
}

/// Ten minutes of each load, then five without any; pods are ready after three seconds, and after ten.
#[test]
fn the_rule_in_numbers() {
    let loads = [
        Load {
            name: "1 a second",
            of: |_| 1,
        },
        Load {
            name: "10 a second",
            of: |_| 10,
        },
        Load {
            name: "1 in 20 seconds",
            of: |second| u32::from(second % 20 == 0),
        },
        Load {
            name: "20 at once each minute",
            of: |second| 20 * u32::from(second % 60 == 0),
        },
        Load {
            name: "1 in 10 minutes",
            of: |second| u32::from(second == 0),
        },
    ];
    let mut table =
        String::from("load, pods ready after, at most: warm, cold, most pods, pods at rest\n");
    for load in &loads {
        for (ready_after, max) in [(3, 100), (10, 100), (3, 5)] {
            let Outcome {
                warm,
                cold,
                most,
                rest,
            } = simulated(load, ready_after, max);
            let name = load.name;
            let _ = writeln!(
                table,
                "{name}, {ready_after} s, {max}: {warm}, {cold}, {most}, {rest}"
            );
        }
    }
    insta::assert_snapshot!(table);
}
