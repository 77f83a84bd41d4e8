mod manager;
mod random;
mod repair;

use podloom_api::ClusterState;
use podloom_scripted::difference;
use serde_json::{Map, Value};

use self::setting::Case;
use self::simulated::{SETTINGS, Simulation};
use super::{Plan, Then, plan};
use crate::cluster::action::Action;

pub(in crate::cluster) mod setting;
mod simulated;

/// How many histories are simulated.
const SEEDS: u64 = 50;

/// Calls a check with each case.
fn each_case(check: impl Fn(Case)) {
    insta::glob!("cases/*.yaml", |path| {
        check(Case::read(&std::fs::read_to_string(path).unwrap()));
    });
}

fn planned(case: &Case) -> Plan<Action> {
    plan(&case.world, &SETTINGS, case.now)
}

/// What is planned, and of a status what differs from the one that the Cluster has.
fn shown(case: &Case) -> Value {
    let mut shown = serde_json::to_value(planned(case)).unwrap();
    let before = by_type(serde_json::to_value(case.world.status()).unwrap());
    for status in ["/action/WriteStatus", "/action/Record/status"] {
        if let Some(status) = shown.pointer_mut(status) {
            *status = difference(&before, &by_type(status.take()));
        }
    }
    shown
}

/// A status with its conditions by type: of a list, nothing or all is different.
fn by_type(mut status: Value) -> Value {
    if let Some(Value::Array(conditions)) = status.get_mut("conditions").map(Value::take) {
        let listed = conditions.len();
        let conditions = conditions.into_iter().map(|mut it| {
            let type_ = it["type"].take().as_str().unwrap().to_owned();
            it.as_object_mut().unwrap().remove("type");
            (type_, it)
        });
        let conditions: Map<_, _> = conditions.collect();
        assert_eq!(conditions.len(), listed, "a condition is there twice");
        status["conditions"] = conditions.into();
    }
    status
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

#[test]
fn a_plan_without_action_does_not_go_on() {
    each_case(|case| {
        let plan = planned(&case);
        if plan.action.is_none() {
            assert_ne!(plan.then, Then::GoOn);
        }
    });
}

/// FAILED and Stalled say the same, except of what is being deleted.
#[test]
fn failed_is_stalled() {
    each_case(|case| {
        let plan = planned(&case);
        let Some(Action::WriteStatus(status)) = plan.action else {
            return;
        };
        let conditions = status.conditions.unwrap_or_default();
        let stalled = conditions.iter().find(|it| it.type_ == "Stalled");
        let is_stalled = stalled.is_some_and(|it| it.status == "True");
        if status.state != Some(ClusterState::Deleting) {
            assert_eq!(is_stalled, status.state == Some(ClusterState::Failed));
        }
    });
}

/// A history with whatever can go wrong, of so many passes.
fn troubled(seed: u64, passes: usize) -> Simulation {
    let mut simulation = Simulation::new(seed);
    for pass in 0..passes {
        simulation.step();
        if pass % 7 == 6 {
            simulation.mishap();
        }
    }
    simulation
}

#[test]
fn nothing_goes_wrong_and_the_cluster_is_online() {
    let mut simulation = Simulation::new(1);
    simulation.calm();
    for _ in 0..40 {
        simulation.step();
    }
    let expected = [
        ClusterState::Pending,
        ClusterState::Creating,
        ClusterState::Connecting,
        ClusterState::Online,
    ];
    assert_eq!(simulation.states, expected);
    assert_eq!((simulation.im.created, simulation.im.changed), (1, 1));
}

/// Six intervals later, nothing was sent that changes anything, and nothing was written.
#[test]
fn a_cluster_that_does_not_change_is_left_alone() {
    let mut simulation = Simulation::new(1);
    simulation.calm();
    for _ in 0..40 {
        simulation.step();
    }
    let before = simulation.cluster.clone();
    for _ in 0..40 {
        simulation.step();
    }
    let version = |it: Option<podloom_api::ClusterObject>| it.unwrap().metadata.resource_version;
    assert_eq!(version(simulation.cluster), version(before));
    assert_eq!(simulation.im.changed, 1);
}

/// A restart in every state ends the same, with one create request.
#[test]
fn a_restart_at_any_time_changes_nothing() {
    for restart in 0..30 {
        let mut simulation = Simulation::new(1);
        simulation.calm();
        for step in 0..60 {
            if step == restart {
                simulation.restart();
            }
            simulation.step();
        }
        assert_eq!(simulation.state(), Some(ClusterState::Online));
        assert_eq!((simulation.im.created, simulation.im.changed), (1, 1));
    }
}

#[test]
fn whatever_goes_wrong_it_is_online_when_that_is_over() {
    for seed in 0..SEEDS {
        let mut simulation = troubled(seed, 120);
        simulation.calm();
        for _ in 0..600 {
            simulation.step();
        }
        let state = simulation.state();
        simulation.check(
            state == Some(ClusterState::Online),
            &format!("seed {seed}: it is {state:?}"),
        );
        simulation.check(
            simulation.infrastructures() == 1,
            "there is not exactly one",
        );
        let machines = simulation.im.all.values().next().map(|it| it.machines);
        let wanted = simulation.cluster.as_ref();
        let wanted = wanted.and_then(|it| it.spec.tosca.as_ref());
        let wanted = wanted.map(manager::machines);
        simulation.check(
            machines == wanted,
            &format!("seed {seed}: it has another number of machines"),
        );
    }
}

#[test]
fn whatever_goes_wrong_nothing_is_left_after_a_deletion() {
    for seed in 0..SEEDS {
        let mut simulation = troubled(seed, usize::try_from(seed % 60).unwrap());
        simulation.delete();
        for _ in 0..60 {
            simulation.step();
        }
        simulation.calm();
        for _ in 0..600 {
            simulation.step();
        }
        simulation.check(
            simulation.cluster.is_none(),
            &format!("seed {seed}: it is still there"),
        );
        simulation.check(simulation.im.is_quiet(), "requests are still on their way");
        simulation.check(
            simulation.infrastructures() == 0,
            &format!("seed {seed}: an infrastructure is left"),
        );
    }
}
