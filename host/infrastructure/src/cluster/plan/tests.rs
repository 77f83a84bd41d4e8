mod repair;

use std::time::Duration;

use podloom_api::ClusterState;
use podloom_scripted::difference;
use serde_json::{Map, Value};

use self::setting::Case;
use super::{Plan, Then, plan};
use crate::cluster::action::Action;
use crate::cluster::world::Settings;

pub(in crate::cluster) mod setting;

const SETTINGS: Settings = Settings {
    settle: Duration::from_mins(1),
    probe: true,
};

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
