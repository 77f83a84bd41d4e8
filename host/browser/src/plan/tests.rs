use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::SelenosisApi;
use podloom_engine::readable::Readable;
use podloom_mutation::PodRejection;
use podloom_scripted::{difference, in_lines};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::world::{Learned, World};
use super::{Plan, Then, plan};
use crate::cause::Disruption;
use crate::world::Timeouts;
use crate::world::{Action, PodDeletion};

/// The world that cases are about.
#[derive(Deserialize)]
struct Base {
    browser: Value,
    config: Value,
    pod: Value,
    /// What is different once the session runs.
    running: Running,
}

#[derive(Deserialize)]
struct Running {
    browser: Value,
    pod: Value,
}

/// A case: objects as merge-patches (RFC 7396) of those of the base world.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setting {
    now: Timestamp,
    /// Before the patch, the status says that the session runs.
    #[serde(default)]
    ran: bool,
    #[serde(default = "nothing")]
    browser: Value,
    /// The one of the base world by default.
    configs: Option<Vec<Value>>,
    /// None by default.
    pod: Option<Value>,
    /// Warm pods that it has taken besides; none by default.
    #[serde(default)]
    own_pods: Vec<Value>,
    /// Before the patch, the pod runs.
    #[serde(default)]
    pod_runs: bool,
    /// The cache does not show the pod.
    #[serde(default)]
    unwatched: bool,
    first_seen: Option<Timestamp>,
    lacks_config_since: Option<Timestamp>,
    #[serde(default)]
    learned: Lessons,
    #[serde(default)]
    timeouts: Overrides,
}

fn nothing() -> Value {
    json!({})
}

/// An object of the base world with a difference.
fn typed<T: DeserializeOwned>(base: &Value, difference: &Value) -> T {
    let mut object = base.clone();
    json_patch::merge(&mut object, difference);
    serde_json::from_value(object).unwrap()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Lessons {
    /// Nothing was read from the API server in this pass; few cases are about that.
    #[serde(default)]
    unconfirmed: bool,
    created: Option<String>,
    cold: Option<String>,
    rejection: Option<Rejected>,
    metadata_rejected: Option<String>,
    late_until: Option<Timestamp>,
    pod_deleted: Option<PodDeletion>,
    disruption: Option<DrivenOut>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrivenOut {
    reason: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Rejected {
    Denied(String),
    Broken(String),
    Invalid(String),
    Forbidden(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Overrides {
    failed_retention: Option<u64>,
}

/// Reads a case.
fn read(text: &str) -> (World, Timeouts, Timestamp) {
    let mut base: Base = serde_saphyr::from_str(include_str!("base.yaml")).unwrap();
    let setting: Setting = serde_saphyr::from_str(text).unwrap();
    if setting.ran {
        json_patch::merge(&mut base.browser, &base.running.browser);
    }
    if setting.pod_runs {
        json_patch::merge(&mut base.pod, &base.running.pod);
    }
    let config = |difference| Arc::new(Readable(Ok(typed(&base.config, difference))));
    let configs = setting.configs.unwrap_or_else(|| vec![json!({})]);
    let world = World {
        api: SelenosisApi::Seed,
        browser: Arc::new(typed(&base.browser, &setting.browser)),
        configs: configs.iter().map(config).collect(),
        pod: setting
            .pod
            .map(|difference| Arc::new(typed(&base.pod, &difference))),
        own_pods: setting
            .own_pods
            .iter()
            .map(|difference| Arc::new(typed(&base.pod, difference)))
            .collect(),
        pod_is_watched: !setting.unwatched,
        first_seen: setting.first_seen,
        lacks_config_since: setting.lacks_config_since,
        learned: Learned {
            browser_confirmed: !setting.learned.unconfirmed,
            end_confirmed: !setting.learned.unconfirmed,
            pod_unknown: false,
            created: setting.learned.created,
            cold: setting.learned.cold,
            policy_applied: false,
            rejection: setting.learned.rejection.map(|rejected| match rejected {
                Rejected::Denied(message) => PodRejection::Denied(message),
                Rejected::Broken(message) => PodRejection::Broken(message),
                Rejected::Invalid(message) => PodRejection::Invalid(message),
                Rejected::Forbidden(message) => PodRejection::Forbidden(message),
            }),
            metadata_rejected: setting.learned.metadata_rejected,
            late_until: setting.learned.late_until,
            pod_deleted: setting.learned.pod_deleted,
            disruption: setting
                .learned
                .disruption
                .map(|DrivenOut { reason, message }| Disruption { reason, message }),
        },
    };
    let defaults = Timeouts::default();
    let timeouts = Timeouts {
        failed_retention: setting
            .timeouts
            .failed_retention
            .map_or(defaults.failed_retention, Duration::from_secs),
        ..defaults
    };
    (world, timeouts, setting.now)
}

#[test]
fn planned_as_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let (world, timeouts, now) = read(&std::fs::read_to_string(path).unwrap());
        let mut plan = serde_json::to_value(plan(&world, &timeouts, now)).unwrap();
        if let Some(status) = plan.pointer_mut("/action/WriteStatus") {
            let before = serde_json::to_value(world.status()).unwrap();
            *status = difference(&in_lines(before), &in_lines(status.take()));
        }
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("plan", plan);
        });
    });
}

const ORDER: [&str; 4] = ["ConfigResolved", "PodCreated", "Ready", "DisruptionTarget"];

/// A plan made after a status was written does not write it again.
#[test]
fn a_status_is_written_once() {
    insta::glob!("cases/*.yaml", |path| {
        let (mut world, timeouts, now) = read(&std::fs::read_to_string(path).unwrap());
        let Plan {
            action: Some(Action::WriteStatus { status, .. }),
            ..
        } = plan(&world, &timeouts, now)
        else {
            return;
        };
        // Snapshots hide the order.
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let types: Vec<_> = conditions.iter().map(|it| it.type_.as_str()).collect();
        assert_eq!(types, ORDER[..types.len().max(3)]);
        Arc::make_mut(&mut world.browser).status = Some(*status);
        let next = plan(&world, &timeouts, now);
        assert!(
            !matches!(next.action, Some(Action::WriteStatus { .. })),
            "{next:?}"
        );
    });
}

/// Every plan either acts or says what to wait for.
#[test]
fn a_plan_without_action_does_not_go_on() {
    insta::glob!("cases/*.yaml", |path| {
        let (world, timeouts, now) = read(&std::fs::read_to_string(path).unwrap());
        let plan = plan(&world, &timeouts, now);
        if plan.action.is_none() {
            assert_ne!(plan.then, Then::GoOn);
        }
    });
}
