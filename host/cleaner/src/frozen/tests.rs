mod guards;
mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{DeletionPhase, DeletionProgress, PlannedObject};
use serde_json::json;

use super::{fold, plan};
use crate::fixtures::{list, one, pod};
use crate::world::Fate;

#[test]
fn objects_come_in_the_order_of_the_spec_and_each_once() {
    let targets = [
        list("all", &[pod("b", "2"), pod("a", "1")], true),
        one("kept", pod("c", "3"), false),
        one("again", pod("a", "1"), true),
        one("last", pod("d", "4"), true),
    ];
    let doomed = plan(&targets, "own").unwrap();
    let names: Vec<_> = doomed
        .iter()
        .map(|it| (it.planned.target.as_str(), it.planned.name.as_str()))
        .collect();
    assert_eq!(names, [("all", "b"), ("all", "a"), ("last", "d")]);
    let first = &doomed[0].planned;
    assert_eq!(
        json!(first),
        json!({ "target": "all", "group": "", "version": "v1", "kind": "Pod", "resource": "pods", "namespace": "demo", "name": "b",
            "uid": "2" })
    );
}

#[test]
fn the_cleaner_itself_is_never_in_it() {
    let targets = [list("all", &[pod("a", "own"), pod("b", "2")], true)];
    let doomed = plan(&targets, "own").unwrap();
    assert_eq!(doomed.len(), 1);
    assert_eq!(doomed[0].planned.uid, "2");
}

#[test]
fn an_object_without_a_uid_is_refused() {
    let targets = [one("a", json!({ "metadata": { "name": "a" } }), true)];
    let problem = plan(&targets, "own").unwrap_err();
    assert_eq!(
        problem.to_string(),
        "target a: an object without a UID cannot be deleted safely; remove this target"
    );
}

fn fates(count: usize, message: &str) -> DeletionProgress {
    let object = PlannedObject::default();
    let mut progress = DeletionProgress {
        phase: DeletionPhase::Targets,
        phase_started_at: MicroTime(jiff::Timestamp::UNIX_EPOCH),
        objects: vec![object; count],
        helm: None,
        event: None,
    };
    let fate = Fate::Failed(message.to_owned());
    fold(
        &mut progress,
        (0..count).map(|place| (place, fate.clone())).collect(),
    );
    progress
}

#[test]
fn messages_about_thousands_of_objects_fit_into_a_status() {
    let message = "no".repeat(200);
    let progress = fates(2000, &message);
    let messages: Vec<&String> = progress
        .objects
        .iter()
        .filter_map(|it| it.message.as_ref())
        .collect();
    assert_eq!(messages.len(), 2000);
    assert_eq!(messages[0].len(), 256);
    assert_eq!(messages[1999], "as the first ones");
    let all: usize = messages.iter().map(|it| it.len()).sum();
    assert!(all < 110_000, "{all}");
}
