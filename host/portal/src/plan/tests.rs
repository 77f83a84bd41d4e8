mod setting;
mod simulated;

use podloom_scripted::{difference, in_lines};
use serde_json::Value;

use self::setting::{Case, settings};
use self::simulated::pass;
use super::super::world::Action;
use super::super::world::{Turn, World};
use super::{Plan, Then, plan};

fn planned(case: &Case) -> Plan<Action> {
    plan(&case.world, &settings(case.chain_policy), case.now)
}

/// What is planned, and of a status what differs from the one that the PortalExpose has.
fn shown(case: &Case) -> Value {
    let mut shown = serde_json::to_value(planned(case)).unwrap();
    if let Some(status) = shown.pointer_mut("/action/WriteStatus") {
        let before = serde_json::to_value(case.world.status()).unwrap();
        *status = difference(&in_lines(before), &in_lines(status.take()));
    }
    shown
}

/// Calls a check with each case.
fn each_case(check: impl Fn(Case)) {
    insta::glob!("cases/*.yaml", |path| {
        check(Case::read(&std::fs::read_to_string(path).unwrap()));
    });
}

#[test]
fn planned_as_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let case = Case::read(&std::fs::read_to_string(path).unwrap());
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("plan", shown(&case));
        });
    });
}

/// A difference hides the order.
#[test]
fn conditions_stay_in_their_order() {
    const ORDER: [&str; 12] = [
        "Available",
        "Progressing",
        "TunnelDeploymentReady",
        "RelayConnected",
        "ServiceExists",
        "TunnelClassExists",
        "SpecValid",
        "HostnameUnique",
        "MutatorsApplied",
        "Ready",
        "Reconciling",
        "Stalled",
    ];
    each_case(|case| {
        if let Some(Action::WriteStatus(status)) = planned(&case).action {
            let conditions = status.conditions.unwrap();
            let types: Vec<_> = conditions.iter().map(|it| it.type_.as_str()).collect();
            assert_eq!(types, ORDER);
        }
    });
}

#[test]
fn the_same_world_has_the_same_plan() {
    each_case(|case| {
        let (first, second) = (planned(&case), planned(&case));
        assert_eq!(first, second);
    });
}

/// Every plan either acts or says what to wait for.
#[test]
fn a_plan_without_action_does_not_go_on() {
    each_case(|case| {
        let plan = planned(&case);
        if plan.action.is_none() {
            assert_ne!(plan.then, Then::GoOn);
        }
    });
}

/// Whatever a pass writes, the pass after it has nothing to do.
#[track_caller]
fn check_settles(case: Case, turn: Turn) {
    let Case {
        world,
        now,
        chain_policy,
    } = case;
    let settings = settings(chain_policy);
    let Some(world) = pass(world, &settings, now, turn) else {
        return;
    };
    let plan = plan(&world, &settings, now);
    assert_eq!(plan.action, None);
    assert_eq!(plan.notices, []);
}

#[test]
fn the_pass_after_a_pass_is_empty() {
    for turn in [Turn::Now, Turn::Later] {
        each_case(|case| check_settles(case, turn));
    }
}

/// A hundred passes later, nothing was written and nothing said.
#[test]
fn a_tunnel_that_does_not_change_is_left_alone() {
    let Case { world, now, .. } = Case::read("{}");
    let settings = settings(super::super::world::ChainPolicy::Roll);
    for minutes in 1..100 {
        let now = now + jiff::SignedDuration::from_mins(minutes);
        let plan = plan(&world, &settings, now);
        assert_eq!((plan.action, plan.notices), (None, Vec::new()), "{now}");
    }
}

/// Returns the phases that a pass writes, in turn.
fn phases(case: Case) -> Vec<&'static str> {
    let mut phases = Vec::new();
    let settings = settings(case.chain_policy);
    let mut note = |action: &Action| {
        if let Action::WriteStatus(status) = action {
            phases.extend(status.phase.map(podloom_api::PortalPhase::as_str));
        }
    };
    simulated::run(case.world, &settings, case.now, (Turn::Now, &mut note));
    phases
}

#[test]
fn failed_is_left_for_pending_and_in_the_same_pass_for_ready() {
    let failed = Case::read("expose: { status: { phase: Failed } }");
    assert_eq!(phases(failed), ["Pending", "Ready"]);
}

/// When the object is looked at again after a pass over a case.
#[track_caller]
fn check_wait(case: &str, expected: &str) {
    let Case {
        world,
        now,
        chain_policy,
    } = Case::read(case);
    let settings = settings(chain_policy);
    let Some(world) = pass(world, &settings, now, Turn::Later) else {
        unreachable!("it is not deleted")
    };
    let then = plan(&world, &settings, now).then;
    assert_eq!(then, Then::At(expected.parse().unwrap()));
}

#[test]
fn what_is_ready_is_looked_at_every_five_minutes() {
    check_wait("{}", "2026-01-01T00:35:00Z");
}

#[test]
fn what_is_not_ready_is_looked_at_every_half_minute() {
    check_wait("links: [disconnected]", "2026-01-01T00:30:30Z");
    check_wait("service: null", "2026-01-01T00:30:30Z");
}

#[test]
fn the_end_of_the_time_of_relays_is_not_missed() {
    let starting = "{ now: 2026-01-01T00:00:50Z, links: [unknown] }";
    check_wait(starting, "2026-01-01T00:01:00Z");
}

#[test]
fn a_queued_tunnel_asks_again_after_five_seconds() {
    check_wait("chain: chain-2", "2026-01-01T00:30:05Z");
}

#[test]
fn what_failed_is_tried_again_in_time() {
    let failed = "
        chain: chain-2
        refused: { problem: { broken: trap }, next: 2026-01-01T00:30:02Z }";
    check_wait(failed, "2026-01-01T00:30:02Z");
}

/// Returns the reasons of the Events of a plan.
fn notices(case: &str) -> Vec<&'static str> {
    let plan = planned(&Case::read(case));
    plan.notices.iter().map(|notice| notice.reason).collect()
}

#[test]
fn a_tunnel_that_stays_degraded_is_said_at_the_end_of_its_time() {
    let starting = "
        now: 2026-01-01T00:00:50Z
        links: [unknown]";
    let Case { world, now, .. } = Case::read(starting);
    let settings = settings(super::super::world::ChainPolicy::Roll);
    let Some(world) = pass(world, &settings, now, Turn::Now) else {
        unreachable!("it is not deleted")
    };
    assert_eq!(notices(starting), [""; 0]);
    let over = plan(&world, &settings, "2026-01-01T00:01:00Z".parse().unwrap());
    let said: Vec<_> = over.notices.iter().map(|notice| notice.reason).collect();
    assert_eq!(said, ["Degraded"]);
}

/// Whether the condition of that type has the same time in two statuses.
fn keeps_its_time(one: &World, other: &World, type_: &str) -> bool {
    let time = |world: &World| {
        let seen = super::super::view::seen(world.status(), type_);
        seen.map(|condition| condition.last_transition_time.0)
    };
    time(one).is_some() && time(one) == time(other)
}

#[test]
fn only_what_flips_gets_a_new_time() {
    let before = Case::read("{}");
    let lost = Case::read("links: [disconnected]\nnow: 2026-01-01T01:00:00Z");
    let settings = settings(lost.chain_policy);
    let Some(after) = pass(lost.world, &settings, lost.now, Turn::Now) else {
        unreachable!("it is not deleted")
    };
    assert!(keeps_its_time(&before.world, &after, "ServiceExists"));
    assert!(keeps_its_time(
        &before.world,
        &after,
        "TunnelDeploymentReady"
    ));
    assert!(!keeps_its_time(&before.world, &after, "RelayConnected"));
    assert!(!keeps_its_time(&before.world, &after, "Available"));
}
