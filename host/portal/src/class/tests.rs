mod class_kind;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use podloom_api::{TunnelClassObject, TunnelClassSpec, TunnelClient};
use podloom_engine::conditions::{ConditionStatus, NewCondition};
use podloom_engine::readable::Readable;
use serde_json::json;

use super::{Class, choose, class_conditions};
use crate::settings::ClientVersion;
use crate::settings::TunnelSettings;

const KEY: &str = "portal.gosuda.org/is-default-class";

fn class(name: &str, created: i64) -> TunnelClassObject {
    TunnelClassObject {
        types: None,
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            creation_timestamp: Some(Time(Timestamp::from_second(created).unwrap())),
            ..ObjectMeta::default()
        },
        spec: TunnelClassSpec {
            replicas: 1,
            ..TunnelClassSpec::default()
        },
        status: None,
    }
}

fn annotated(mut class: TunnelClassObject, value: &str) -> TunnelClassObject {
    class.metadata.annotations = Some(BTreeMap::from([(KEY.to_owned(), value.to_owned())]));
    class
}

fn with_client(mut class: TunnelClassObject, image: &str, version: &str) -> TunnelClassObject {
    let (image, version) = (image.to_owned(), version.to_owned());
    class.spec.client = Some(TunnelClient { image, version });
    class
}

/// The chosen class, or the reason and the sentence.
fn chosen(wanted: Option<&str>, classes: &[TunnelClassObject]) -> Result<Class, String> {
    choose(wanted, classes, &TunnelSettings::default())
        .map_err(|problem| format!("{}: {}", problem.reason, problem.message))
}

#[track_caller]
fn check(wanted: Option<&str>, classes: &[TunnelClassObject], expected: &str) {
    let chosen = chosen(wanted, classes).map(|class| match class.rivals.is_empty() {
        true => class.name,
        false => format!("{} of {}", class.name, class.rivals.join(", ")),
    });
    assert_eq!(chosen.unwrap_or_else(|problem| problem), expected);
}

#[test]
fn a_class_is_found_by_name() {
    let classes = [class("small", 1), annotated(class("large", 2), "true")];
    check(Some("small"), &classes, "small");
    check(Some("large"), &classes, "large");
    check(
        Some("medium"),
        &classes,
        "TunnelClassNotFound: TunnelClass medium does not exist; create it, or correct spec.tunnelClassName",
    );
}

#[test]
fn the_default_is_annotated() {
    check(
        None,
        &[class("a", 1), annotated(class("b", 2), "true")],
        "b",
    );
    let nobody = format!(
        "TunnelClassNotFound: no TunnelClass has the annotation {KEY}: \"true\"; add it to one, or set spec.tunnelClassName"
    );
    check(None, &[], &nobody);
    // A name makes no default, and neither does another value.
    check(
        None,
        &[class("default", 1), annotated(class("b", 2), "True")],
        &nobody,
    );
    check(None, &[annotated(class("b", 2), "")], &nobody);
}

#[test]
fn of_several_defaults_the_oldest_is_used() {
    let classes = [
        annotated(class("c", 1), "true"),
        class("d", 0),
        annotated(class("a", 2), "true"),
        annotated(class("b", 1), "true"),
    ];
    check(None, &classes, "b of b, c, a");
    // Objects in files have no time.
    let mut unborn = annotated(class("0", 0), "true");
    unborn.metadata.creation_timestamp = None;
    check(None, &[unborn, classes[2].clone()], "a of a, 0");
    check(Some("b"), &classes, "b");
}

#[test]
fn the_client_is_that_of_the_class_or_of_the_flags() {
    let client = |class| chosen(Some("a"), &[class]).unwrap().client;
    let own = client(with_client(
        class("a", 1),
        "registry.example/tunnel:1",
        "2.1.2",
    ));
    assert_eq!(own.image, "registry.example/tunnel:1");
    assert_eq!(own.version, ClientVersion::of(2, 1, 2));
    let default = client(class("a", 1));
    assert_eq!(default.image, "ghcr.io/gosuda/portal-tunnel:2.4.3");
    assert_eq!(default.version, ClientVersion::WITH_METRICS);
}

#[test]
fn an_unusable_class_is_invalid() {
    let invalid = |text: &str| format!("TunnelClassInvalid: TunnelClass a is invalid: {text}");
    let old = with_client(class("a", 1), "image", "2.0.9");
    let text = "spec.client.version is 2.0.9; the oldest client that works is 2.1.1";
    check(Some("a"), &[old], &invalid(text));
    let nonsense = with_client(class("a", 1), "image", "latest");
    let text = "spec.client.version is not a version; write three numbers with dots between them, such as 2.4.3";
    check(Some("a"), &[nonsense], &invalid(text));
    let bare = with_client(class("a", 1), "", "2.4.3");
    check(
        Some("a"),
        &[bare],
        &invalid("spec.client.image is empty; name the image of a tunnel client"),
    );
    for replicas in [-1, 0, 101] {
        let mut stored = class("a", 1);
        stored.spec.replicas = replicas;
        check(
            Some("a"),
            &[stored],
            &invalid(&format!("spec.replicas is {replicas}; write 1 to 100")),
        );
    }
    let mut stored = class("a", 1);
    stored.spec.node_selector = Some(BTreeMap::from([("zone".to_owned(), "z".repeat(64))]));
    let text =
        "spec.nodeSelector is too large; it may have 64 entries, with values of 63 characters";
    check(Some("a"), &[stored], &invalid(text));
    let mut stored = class("a", 1);
    stored.spec.tolerations = Some(vec![Toleration::default(); 65]);
    let text =
        "spec.tolerations is too large; it may have 64 entries, with values of 63 characters";
    check(Some("a"), &[stored], &invalid(text));
}

#[test]
fn an_old_client_of_the_operator_is_reported_with_its_flag() {
    let settings = TunnelSettings {
        version: ClientVersion::of(2, 1, 0),
        ..TunnelSettings::default()
    };
    let problem = choose(Some("a"), [&class("a", 1)], &settings).unwrap_err();
    assert_eq!(
        problem.message,
        "TunnelClass a is invalid: it names no client, and the operator's --portal-tunnel-version is 2.1.0; the oldest client that \
         works is 2.1.1",
    );
}

/// The public controller's schema has the sizes too, but nobody knows what else is stored.
#[test]
fn a_class_that_our_types_cannot_hold_is_invalid_and_not_missing() {
    let stored = json!({ "metadata": { "name": "a", "annotations": { KEY: "true" } }, "spec": { "replicas": 1, "size": "huge" } });
    let stored: Readable<TunnelClassObject> = serde_json::from_value(stored).unwrap();
    for wanted in [Some("a"), None] {
        let problem = choose(wanted, [&stored], &TunnelSettings::default()).unwrap_err();
        assert_eq!(problem.reason, "TunnelClassInvalid");
        assert_eq!(
            problem.message,
            "TunnelClass a is invalid: spec does not fit the schema of TunnelClasses; compare it with `kubectl explain \
             tunnelclass.spec`",
        );
    }
}

/// Type, status, reason and message of each condition, in lines.
fn conditions(class: &TunnelClassObject, all: &[TunnelClassObject]) -> String {
    let found = class_conditions(class, all, &TunnelSettings::default());
    let line = |it: NewCondition| {
        let status = match it.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        format!("{}={status} {}: {}\n", it.type_, it.reason, it.message)
    };
    found.into_iter().map(line).collect()
}

#[test]
fn the_status_says_whether_a_class_is_valid_and_the_default() {
    let mut large = annotated(class("large", 1), "true");
    large.spec.replicas = 3;
    let small = annotated(class("small", 2), "true");
    let nearly = annotated(class("nearly", 3), "True");
    let plain = with_client(class("plain", 0), "image", "2.0.9");
    let all = [large, small, nearly, plain];
    let text: Vec<String> = all
        .iter()
        .map(|class| {
            let name = class.metadata.name.as_deref().unwrap();
            format!("{name}\n{}", conditions(class, &all))
        })
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_class_that_the_cache_does_not_show_yet_counts() {
    let class_a = annotated(class("a", 1), "true");
    for cached in [vec![], vec![annotated(class("b", 2), "true")]] {
        let text = conditions(&class_a, &cached);
        assert!(text.contains("Default=True EffectiveDefault"), "{text}");
    }
}
