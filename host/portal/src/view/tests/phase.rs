use podloom_api::PortalPhase;
use podloom_api::PortalPhase::{Degraded, Failed, Pending, Ready};
use proptest::prelude::*;

use super::super::phase;
use super::super::{Blocked, Facts};

/// A PortalExpose that was just created, and has (ready, desired, connected, targets).
fn fresh((ready, desired, connected, targets): (i32, i32, usize, usize)) -> Facts {
    Facts {
        desired,
        ready,
        is_settled: true,
        is_overdue: false,
        targets,
        connected,
        disconnected: 0,
        blocked: Blocked::No,
        is_open: true,
        previous: None,
    }
}

/// One that had its time to start. The relays that are not connected are disconnected.
fn late((ready, desired, connected, targets): (i32, i32, usize, usize)) -> Facts {
    Facts {
        is_open: false,
        previous: Some(Degraded),
        disconnected: targets - connected,
        ..fresh((ready, desired, connected, targets))
    }
}

#[track_caller]
fn check(facts: Facts, expected: PortalPhase) {
    assert_eq!(phase(&facts), expected, "{facts:?}");
}

#[test]
fn a_fresh_tunnel() {
    check(fresh((1, 1, 1, 1)), Ready);
    check(fresh((0, 1, 0, 1)), Pending);
    check(fresh((1, 1, 0, 1)), Degraded);
    check(fresh((0, 1, 1, 1)), Degraded);
    check(fresh((0, 0, 0, 0)), Failed);
}

#[test]
fn a_tunnel_that_had_its_time() {
    check(late((1, 1, 0, 1)), Failed);
    check(late((2, 3, 2, 2)), Degraded);
    check(late((1, 1, 1, 1)), Ready);
    check(late((1, 1, 1, 2)), Degraded);
    check(late((0, 1, 1, 1)), Failed);
}

#[test]
fn relays_of_which_nobody_knows_are_not_disconnected() {
    let unknown = Facts {
        disconnected: 0,
        ..late((1, 1, 0, 1))
    };
    check(unknown, Degraded);
}

#[test]
fn a_missing_service_fails_whatever_runs() {
    let blocked = Blocked::ByService;
    check(
        Facts {
            blocked,
            ..fresh((1, 1, 1, 1))
        },
        Failed,
    );
}

#[test]
fn other_blockers_degrade_what_runs() {
    let blocked = Blocked::Otherwise;
    check(
        Facts {
            blocked,
            ..late((1, 1, 1, 1))
        },
        Degraded,
    );
    check(
        Facts {
            blocked,
            ..late((0, 1, 0, 1))
        },
        Failed,
    );
}

#[test]
fn a_rollout_degrades_even_if_no_pod_is_ready_for_a_moment() {
    let rolls = Facts {
        is_settled: false,
        previous: Some(Ready),
        ..fresh((0, 1, 0, 1))
    };
    check(rolls, Degraded);
}

#[test]
fn all_pods_of_an_old_template_are_not_ready() {
    let unsettled = Facts {
        is_settled: false,
        ..fresh((1, 1, 1, 1))
    };
    check(unsettled, Degraded);
}

#[test]
fn a_rollout_that_is_overdue_is_not_ready() {
    let overdue = Facts {
        is_overdue: true,
        ..late((1, 1, 1, 1))
    };
    check(overdue, Degraded);
}

#[test]
fn failed_is_left_for_pending_only() {
    let was_failed = |facts| Facts {
        previous: Some(Failed),
        ..facts
    };
    check(was_failed(late((1, 1, 1, 1))), Pending);
    check(was_failed(late((1, 1, 1, 2))), Pending);
    check(was_failed(fresh((0, 1, 0, 1))), Pending);
    check(was_failed(late((0, 1, 0, 1))), Failed);
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let counts = (0..4_i32, 0..4_i32, 0..4_usize, 0..4_usize, 0..4_usize);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let blocked = prop_oneof![
        Just(Blocked::No),
        Just(Blocked::ByService),
        Just(Blocked::Otherwise)
    ];
    let previous = prop::option::of(prop::sample::select(PortalPhase::ALL.to_vec()));
    (counts, flags, blocked, previous).prop_map(|(counts, flags, blocked, previous)| {
        let (desired, ready, targets, connected, disconnected) = counts;
        let connected = connected.min(targets);
        Facts {
            desired,
            ready: ready.min(desired),
            is_settled: flags.0,
            is_overdue: flags.1,
            targets,
            connected,
            disconnected: disconnected.min(targets - connected),
            blocked,
            is_open: flags.2,
            previous,
        }
    })
}

proptest! {
    /// Each pass writes the phase that the last one came to, until it stays.
    #[test]
    fn only_the_allowed_transitions_happen(facts in any_facts()) {
        let next = phase(&facts);
        let allowed: &[PortalPhase] = match facts.previous {
            None | Some(Pending) => &PortalPhase::ALL,
            Some(Ready | Degraded) => &[Ready, Degraded, Failed],
            Some(Failed) => &[Failed, Pending],
        };
        prop_assert!(allowed.contains(&next), "{facts:?} -> {next}");
    }

    #[test]
    fn it_settles_after_two_writes(facts in any_facts()) {
        let after = |previous| phase(&Facts { previous: Some(previous), ..facts });
        let third = after(after(phase(&facts)));
        prop_assert_eq!(after(third), third, "{:?}", facts);
    }
}
