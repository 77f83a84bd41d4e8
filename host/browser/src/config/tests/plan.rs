use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::{BrowserConfigObject, BrowserConfigStatus};
use podloom_engine::readable::Readable;
use serde_json::{Value, json};

use crate::warm::pools::Pools;

use super::super::plan;
use super::super::{Action, World, work};

fn config(name: &str, day: u8, image: &str) -> BrowserConfigObject {
    let object = json!({
        "metadata": {
            "name": name, "namespace": "team-a", "uid": name, "generation": 1,
            "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
        },
        "spec": { "browsers": { "chrome": { "139.0": { "image": image } } } },
    });
    serde_json::from_value(object).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn status(
    config: &BrowserConfigObject,
    all: &[BrowserConfigObject],
    now: &str,
) -> Option<BrowserConfigStatus> {
    let all: Vec<_> = all
        .iter()
        .map(|config| Arc::new(Readable(Ok(config.clone()))))
        .collect();
    let config = config.clone();
    match plan(
        &World {
            config,
            all,
            pools: Pools::default(),
        },
        at(now),
    )
    .action
    {
        Some(Action::WriteStatus(status)) => Some(*status),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn condition(status: &BrowserConfigStatus) -> (String, String, String) {
    let accepted = &status.conditions.as_ref().unwrap()[0];
    (
        accepted.status.clone(),
        accepted.reason.clone(),
        accepted.message.clone(),
    )
}

#[test]
fn a_good_config_is_valid_and_says_which_it_is() {
    let config = config("a", 1, "example/chrome");
    let status = status(&config, &[], "2026-01-02T00:00:00Z").unwrap();
    let expected = ("True", "Valid", "serves 1 version");
    assert_eq!(
        condition(&status),
        (expected.0.into(), expected.1.into(), expected.2.into())
    );
    assert_eq!(status.version.as_ref().unwrap().len(), 16);
    assert_eq!(status.last_updated.unwrap().0, at("2026-01-02T00:00:00Z"));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn of_two_the_younger_names_the_older() {
    let (old, young) = (config("z", 1, "one"), config("a", 2, "two"));
    let all = [old.clone(), young.clone()];
    let now = "2026-01-03T00:00:00Z";
    assert_eq!(condition(&status(&old, &all, now).unwrap()).1, "Valid");
    let (accepted, reason, message) = condition(&status(&young, &all, now).unwrap());
    assert_eq!(
        (accepted.as_str(), reason.as_str()),
        ("False", "DuplicateBrowser")
    );
    assert!(message.contains("BrowserConfig z"), "{message}");
}

#[test]
fn a_config_that_is_not_accepted_is_reported_once() {
    let (old, mut young) = (config("z", 1, "one"), config("a", 2, "two"));
    let all: Vec<_> = [&old, &young]
        .map(|config| Arc::new(Readable(Ok(config.clone()))))
        .into();
    let notices = |config: &BrowserConfigObject, now| {
        let world = World {
            config: config.clone(),
            all: all.clone(),
            pools: Pools::default(),
        };
        plan(&world, at(now)).notices
    };
    let now = "2026-01-03T00:00:00Z";
    assert_eq!(notices(&old, now), []);
    let warned = notices(&young, now);
    assert_eq!(warned[0].reason, "DuplicateBrowser");
    assert!(warned[0].note.contains("BrowserConfig z"), "{warned:?}");
    young.status = status(&young, &[old.clone(), young.clone()], now);
    young.metadata.generation = Some(2);
    assert_eq!(notices(&young, now), []);
}

#[test]
fn one_that_is_being_deleted_stands_in_nobodys_way() {
    let (mut old, young) = (config("z", 1, "one"), config("a", 2, "two"));
    old.metadata.deletion_timestamp = old.metadata.creation_timestamp.clone();
    let all = [old, young.clone()];
    assert_eq!(
        condition(&status(&young, &all, "2026-01-03T00:00:00Z").unwrap()).1,
        "Valid"
    );
}

#[test]
fn nothing_is_written_until_something_changes() {
    let mut config = config("a", 1, "one");
    config.status = status(&config, &[], "2026-01-02T00:00:00Z");
    assert_eq!(status(&config, &[], "2026-01-03T00:00:00Z"), None);

    let version = |image: &str, config: &BrowserConfigObject| {
        let mut edited = config.clone();
        edited
            .spec
            .browsers
            .get_mut("chrome")
            .unwrap()
            .get_mut("139.0")
            .unwrap()
            .image = image.to_owned();
        edited
    };
    let edited = version("two", &config);
    let after = status(&edited, &[], "2026-01-03T00:00:00Z").unwrap();
    assert_ne!(after.version, config.status.as_ref().unwrap().version);
    assert_eq!(after.last_updated.unwrap().0, at("2026-01-03T00:00:00Z"));
}

#[test]
fn the_old_finalizer_is_taken_off_when_it_is_in_the_way() {
    let mut config = config("a", 1, "one");
    config.metadata.deletion_timestamp = config.metadata.creation_timestamp.clone();
    let finalizers = |names: &Value| serde_json::from_value(names.clone()).unwrap();
    config.metadata.finalizers = finalizers(&json!([
        "browserconfig.selenosis.io/finalizer",
        "example.com/billing"
    ]));
    let now = at("2026-01-02T00:00:00Z");
    let planned = |config: &BrowserConfigObject| {
        let world = World {
            config: config.clone(),
            all: Vec::new(),
            pools: Pools::default(),
        };
        plan(&world, now).action
    };
    let Some(Action::Release(patch)) = planned(&config) else {
        panic!("no patch");
    };
    assert_eq!(patch.finalizers.unwrap(), ["example.com/billing"]);
    config.metadata.finalizers = finalizers(&json!(["example.com/billing"]));
    assert_eq!(planned(&config), None);
}

#[test]
fn versions_of_the_neighbours_are_work() {
    let config = config("a", 1, "example/chrome");
    let mut large = config.clone();
    let versions = large.spec.browsers.get_mut("chrome").unwrap();
    for number in 0..5000 {
        versions.insert(number.to_string(), versions["139.0"].clone());
    }
    let work_beside = |other| {
        work(&World {
            config: config.clone(),
            all: vec![Arc::new(Readable(Ok(other)))],
            pools: Pools::default(),
        })
    };
    assert!(work_beside(config.clone()) < 1024);
    assert!(work_beside(large) > 128 << 10);
}
