//! Modes, inheritance, and the size of all annotations.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing;

use super::{check, check_denied, check_for, pod, submitted};
use crate::Labels;

fn bare() -> Value {
    pod(Value::Null, Value::Null)
}

#[test]
fn a_key_is_added_if_the_pod_does_not_have_it() {
    let config = json!({ "labels": [{ "key": "app", "value": "browser" }, { "key": "example.com/a", "value": "" }] });
    check(
        config.clone(),
        &bare(),
        json!({ "app": "browser", "example.com/a": "" }),
        Value::Null,
        &[],
    );
    check(
        config,
        &pod(
            json!({ "app": "browser", "mine": "1" }),
            json!({ "note": "2" }),
        ),
        json!({ "app": "browser", "example.com/a": "", "mine": "1" }),
        json!({ "note": "2" }),
        &[],
    );
}

#[test]
fn the_pods_own_value_wins_and_the_conflict_is_noted_without_it() {
    check(
        json!({ "labels": [{ "key": "app", "value": "browser" }], "annotations": [{ "key": "note", "value": "ours" }] }),
        &pod(json!({ "app": "mine" }), json!({ "note": "" })),
        json!({ "app": "mine" }),
        json!({ "note": "" }),
        &[
            "label app: the pod's own value is kept",
            "annotation note: the pod's own value is kept",
        ],
    );
}

#[test]
fn overwrite_replaces_the_pods_value() {
    check(
        json!({
            "labels": [{ "key": "app", "value": "browser", "mode": "overwrite" }],
            "annotations": [{ "key": "note", "value": "über alles", "mode": "overwrite" }],
        }),
        &pod(
            json!({ "app": "mine", "b": "c" }),
            json!({ "note": "mine" }),
        ),
        json!({ "app": "browser", "b": "c" }),
        json!({ "note": "über alles" }),
        &[],
    );
}

#[test]
fn remove_takes_a_key_away_and_is_content_without_it() {
    let config = json!({ "labels": [{ "key": "app", "mode": "remove" }, { "key": "absent", "mode": "remove" }] });
    check(
        config.clone(),
        &pod(json!({ "app": "1", "b": "2" }), Value::Null),
        json!({ "b": "2" }),
        Value::Null,
        &[],
    );
    check(config, &bare(), Value::Null, Value::Null, &[]);
}

#[test]
fn a_map_left_empty_is_deleted() {
    let config = json!({
        "labels": [{ "key": "app", "mode": "remove" }],
        "annotations": [{ "key": "example.com/note", "mode": "remove" }],
    });
    let before = pod(json!({ "app": "1" }), json!({ "example.com/note": "2" }));
    let run = testing::run::<Labels>(&config, &submitted(), &before);
    assert_eq!(run.pod["metadata"], json!({ "name": "chrome-1" }));
    testing::check_laws::<Labels>(&config, &submitted(), &before);
}

#[test]
fn a_map_that_came_empty_stays() {
    let config = json!({ "labels": [{ "key": "app", "mode": "remove" }] });
    check(
        config,
        &pod(json!({}), Value::Null),
        json!({}),
        Value::Null,
        &[],
    );
}

#[test]
fn keys_are_inherited_from_the_namespace_and_the_pod_wins() {
    let config = json!({
        "inheritLabels": ["team", "example.com/tier", "empty", "cost-center"],
        "inheritAnnotations": ["owner", "phone"],
    });
    let missing = [
        "label cost-center skipped: the namespace has no label of this key",
        "annotation phone skipped: the namespace has no annotation of this key",
    ];
    check(
        config.clone(),
        &bare(),
        json!({ "team": "web", "example.com/tier": "gold", "empty": "" }),
        json!({ "owner": "Web Team <web@example.com>" }),
        &missing,
    );
    check(
        config,
        &pod(json!({ "team": "core" }), Value::Null),
        json!({ "team": "core", "example.com/tier": "gold", "empty": "" }),
        json!({ "owner": "Web Team <web@example.com>" }),
        &[
            "label team: the pod's own value is kept",
            missing[0],
            missing[1],
        ],
    );
}

#[test]
fn rules_write_in_the_order_of_the_configuration() {
    let config = json!({
        "annotations": [{ "key": "z", "value": "1" }],
        "labels": [{ "key": "c", "value": "1" }, { "key": "a", "value": "2" }],
        "inheritLabels": ["team", "empty"],
    });
    let run = testing::run::<Labels>(&config, &submitted(), &bare());
    let paths: Vec<&str> = run.writes.iter().map(|write| write.path.as_str()).collect();
    let expected = [
        "/metadata/labels/c",
        "/metadata/labels/a",
        "/metadata/labels/team",
        "/metadata/labels/empty",
        "/metadata/annotations/z",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn a_hundred_runs_give_the_same_bytes() {
    let config = json!({
        "labels": [{ "key": "c", "value": "$(request/kind)" }, { "key": "a", "value": "2", "mode": "overwrite" }],
        "inheritLabels": ["team"],
    });
    let before = pod(json!({ "a": "1" }), Value::Null);
    let first = testing::run::<Labels>(&config, &submitted(), &before)
        .pod
        .to_string();
    for _ in 0..100 {
        assert_eq!(
            testing::run::<Labels>(&config, &submitted(), &before)
                .pod
                .to_string(),
            first
        );
    }
}

#[test]
fn a_label_that_the_workloads_selector_matches_is_left_alone() {
    let mut template = submitted();
    template.selector = vec!["app".to_owned()];
    let reason = "the workload's selector matches the label app, so a change would orphan the pod";
    let before = pod(json!({ "app": "shop" }), Value::Null);
    for rule in [
        json!({ "key": "app", "value": "x", "mode": "overwrite" }),
        json!({ "key": "app", "mode": "remove" }),
    ] {
        let run = testing::run::<Labels>(&json!({ "labels": [rule] }), &template, &before);
        assert_eq!((run.result, &run.pod), (Ok(()), &before));
        let [warning] = run.warnings.as_slice() else {
            panic!("{:?}", run.warnings);
        };
        assert!(warning.contains(reason), "{warning}");
        assert!(run.notes.is_empty(), "{:?}", run.notes);
    }
    let other = json!({ "labels": [{ "key": "team", "value": "web" }] });
    check_for(
        &template,
        other,
        &before,
        (json!({ "app": "shop", "team": "web" }), Value::Null),
        &[],
    );
}

#[test]
fn annotations_may_be_256_kib_together_and_no_more() {
    const LIMIT: usize = 256 * 1024;
    let config = json!({ "annotations": [{ "key": "key", "value": "value" }] });
    let others = |size: usize| {
        pod(
            Value::Null,
            json!({ "big": "x".repeat(size - "big".len()) }),
        )
    };
    let reason = "the annotations are larger than 262144 bytes together: shorten the pod's or those of the plugin";

    let fits = others(LIMIT - "keyvalue".len());
    let run = testing::run::<Labels>(&config, &submitted(), &fits);
    assert_eq!(run.result, Ok(()));
    check_denied(
        config.clone(),
        &others(LIMIT - "keyvalue".len() + 1),
        reason,
    );
    // As JSON much larger, as text not.
    let quotes = pod(Value::Null, json!({ "big": "\"".repeat(LIMIT - 100) }));
    assert_eq!(
        testing::run::<Labels>(&config, &submitted(), &quotes).result,
        Ok(())
    );
    // What is not ours to write is not ours to judge.
    let labels = json!({ "labels": [{ "key": "key", "value": "value" }] });
    assert_eq!(
        testing::run::<Labels>(&labels, &submitted(), &others(LIMIT + 1)).result,
        Ok(())
    );
}

#[test]
fn a_later_change_by_others_is_seen_by_a_second_run() {
    let config = json!({ "labels": [{ "key": "app", "value": "browser", "mode": "overwrite" }] });
    let mut after = testing::run::<Labels>(&config, &submitted(), &bare()).pod;
    after["metadata"]["labels"]["app"] = json!("foreign");
    check(
        config,
        &after,
        json!({ "app": "browser" }),
        Value::Null,
        &[],
    );
}
