use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::SelenosisApi;
use serde::Deserialize;
use serde_json::Value;

use super::super::failure::disrupted;
use super::super::world::{Learned, World};
use super::{Plan, Then, plan};
use crate::act::Action;
use crate::mutator::Refusal;
use crate::readable::Readable;
use crate::run::Timeouts;

/// What a case says besides the objects of its world.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setting {
    now: Timestamp,
    first_seen: Option<Timestamp>,
    #[serde(default)]
    learned: Lessons,
    #[serde(default)]
    timeouts: Overrides,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Lessons {
    created: Option<String>,
    refusal: Option<Refused>,
    metadata_refused: Option<String>,
    late_until: Option<Timestamp>,
    #[serde(default)]
    pod_deleted: bool,
    disruption: Option<Disruption>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Disruption {
    reason: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Refused {
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

/// A world in YAML: how things stand, then its objects.
fn read(text: &str) -> (World, Timeouts, Timestamp) {
    let mut documents = serde_saphyr::from_multiple::<Value>(text)
        .unwrap()
        .into_iter();
    let setting: Setting = serde_json::from_value(documents.next().unwrap()).unwrap();
    let (mut browser, mut pod, mut configs) = (None, None, Vec::new());
    for document in documents {
        match document["kind"].as_str().unwrap() {
            "Browser" => browser = Some(Arc::new(serde_json::from_value(document).unwrap())),
            "Pod" => pod = Some(Arc::new(serde_json::from_value(document).unwrap())),
            "BrowserConfig" => configs
                .push(Arc::new(Readable(Ok(
                    serde_json::from_value(document).unwrap()
                )))),
            kind => panic!("a document has kind {kind}"),
        }
    }
    let world = World {
        api: SelenosisApi::Seed,
        browser: browser.unwrap(),
        configs,
        pod,
        first_seen: setting.first_seen,
        learned: Learned {
            created: setting.learned.created,
            refusal: setting.learned.refusal.map(|refused| match refused {
                Refused::Denied(message) => Refusal::Denied(message),
                Refused::Broken(message) => Refusal::Broken(message),
                Refused::Invalid(message) => Refusal::Invalid(message),
                Refused::Forbidden(message) => Refusal::Forbidden(message),
            }),
            metadata_refused: setting.learned.metadata_refused,
            late_until: setting.learned.late_until,
            pod_deleted: setting.learned.pod_deleted,
            disruption: setting
                .learned
                .disruption
                .map(|seen| disrupted(&seen.reason, &seen.message)),
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
        let plan = plan(&world, &timeouts, now);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("plan", plan);
        });
    });
}

/// Whoever writes what a plan says and asks again gets no second write of the same.
#[test]
fn a_status_is_written_once() {
    insta::glob!("cases/*.yaml", |path| {
        let (mut world, timeouts, now) = read(&std::fs::read_to_string(path).unwrap());
        let Plan {
            action: Some(Action::WriteStatus(status)),
            ..
        } = plan(&world, &timeouts, now)
        else {
            return;
        };
        Arc::make_mut(&mut world.browser).status = Some(*status);
        let next = plan(&world, &timeouts, now);
        assert!(
            !matches!(next.action, Some(Action::WriteStatus(_))),
            "{next:?}"
        );
    });
}

/// Every plan either does something or knows what to wait for.
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
