//! Values made of the pod, its namespace and the request.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing;

use super::{check, check_denied, pod, submitted};
use crate::Labels;
use crate::template::{Piece, Source, pieces};

fn bare() -> Value {
    pod(Value::Null, Value::Null)
}

/// An annotation takes any text, so it shows what a template gives.
#[track_caller]
fn check_value(template: &str, expected: &str) {
    let config = json!({ "annotations": [{ "key": "note", "value": template }] });
    check(
        config,
        &bare(),
        Value::Null,
        json!({ "note": expected }),
        &[],
    );
}

#[test]
fn a_value_is_made_of_each_source() {
    check_value("$(pod/spec/serviceAccountName)", "browsers");
    check_value(
        "$(pod/spec/containers/[name=browser]/image)",
        "quay.io/browser/chrome:143.0",
    );
    check_value("$(pod/spec/containers/1/name)", "proxy");
    check_value("$(pod/spec/priority)", "7");
    check_value("$(pod/metadata/name)", "chrome-1");
    check_value("$(namespace/name)", "shop");
    check_value("$(namespace/labels/example.com/tier)", "gold");
    check_value(
        "$(namespace/annotations/owner)",
        "Web Team <web@example.com>",
    );
    check_value("$(request/kind)", "Browser");
    check_value("$(request/name)", "chrome-1");
    check_value("$(request/labels/channel)", "stable");
    check_value("$(request/annotations/example.com/ticket)", "OPS 7");
    check_value("$(namespace/labels/empty)", "");
}

#[test]
fn text_around_sources_stays() {
    check_value(
        "$(request/kind)/$(request/name) in $(namespace/name)!",
        "Browser/chrome-1 in shop!",
    );
    check_value("$(request/kind)$(request/kind)", "BrowserBrowser");
    check_value("costs 5$, or $5 (about)", "costs 5$, or $5 (about)");
    check_value(
        "$$(request/kind) is $$ and $$(",
        "$(request/kind) is $$ and $(",
    );
    check_value("größe: $(namespace/name) 🦀", "größe: shop 🦀");
}

#[test]
fn what_is_no_source_is_seen() {
    for text in [
        "$(",
        "$(request/kind",
        "$()",
        "$(team)",
        "$(pod)",
        "$(podspec)",
        "$(namespace/labels)",
    ] {
        assert!(
            pieces(text)
                .iter()
                .any(|piece| matches!(piece, Piece::Unknown(_))),
            "{text}"
        );
    }
    assert_eq!(
        pieces("a$(pod/x)b"),
        [
            Piece::Text("a".to_owned()),
            Piece::Source(Source::Pod("/x".to_owned())),
            Piece::Text("b".to_owned())
        ]
    );
}

#[track_caller]
fn check_missing(value: &str, reason: &str) {
    let rule = |more: Value| {
        let mut rule = json!({ "key": "app", "value": value });
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "labels": [rule] })
    };
    check(
        rule(json!({})),
        &bare(),
        Value::Null,
        Value::Null,
        &[&format!("label app skipped: {reason}")],
    );
    check(
        rule(json!({ "default": "none" })),
        &bare(),
        json!({ "app": "none" }),
        Value::Null,
        &[],
    );
    check_denied(
        rule(json!({ "onMissing": "deny" })),
        &bare(),
        &format!("label app is required: {reason}"),
    );

    // A pod with a value of its own needs none of ours.
    let own = pod(json!({ "app": "mine" }), Value::Null);
    check(
        rule(json!({ "onMissing": "deny" })),
        &own,
        json!({ "app": "mine" }),
        Value::Null,
        &[],
    );
}

#[test]
fn a_missing_source_skips_uses_a_default_or_denies() {
    check_missing(
        "$(namespace/labels/absent)",
        "the namespace has no label absent",
    );
    check_missing(
        "x-$(namespace/annotations/absent)",
        "the namespace has no annotation absent",
    );
    check_missing(
        "$(request/labels/absent)",
        "the submitted object has no label absent",
    );
    check_missing(
        "$(request/annotations/absent)",
        "the submitted object has no annotation absent",
    );
    check_missing(
        "$(pod/spec/absent)",
        "the pod has no text, number or boolean at /spec/absent",
    );
    check_missing(
        "$(pod/spec/containers)",
        "the pod has no text, number or boolean at /spec/containers",
    );
}

#[test]
fn a_pod_without_a_name_yet_has_no_name() {
    let mut generated = submitted();
    generated.name = String::new();
    let config = json!({ "labels": [{ "key": "app", "value": "$(request/name)" }] });
    let run = testing::run::<Labels>(&config, &generated, &bare());
    assert_eq!(
        run.notes,
        ["label app skipped: the submitted object has no name yet"]
    );
}

#[test]
fn a_value_that_is_no_label_is_treated_as_missing() {
    let wrong =
        "is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    for value in [
        "$(pod/spec/containers/[name=browser]/image)",
        "-$(request/kind)",
        "$(namespace/annotations/owner)",
    ] {
        check_missing(value, &format!("its value of {value} {wrong}"));
    }
    let long = format!("{}$(request/kind)", "x".repeat(57));
    check_missing(&long, &format!("its value of {long} {wrong}"));
}

#[test]
fn all_reasons_of_a_denial_come_at_once() {
    let rule = |key: &str| json!({ "key": key, "value": "$(namespace/labels/absent)", "onMissing": "deny" });
    check_denied(
        json!({ "labels": [rule("a"), { "key": "b", "value": "1" }], "annotations": [rule("c")] }),
        &bare(),
        "label a is required: the namespace has no label absent; \
         annotation c is required: the namespace has no label absent",
    );
}

/// In a review the API server has set them before, so a pod that was only rendered gets the same values.
#[test]
fn what_the_api_server_would_set_counts_where_the_rule_has_no_default() {
    let (request, bare) = (submitted(), json!({"metadata": {}, "spec": {}}));
    let rule =
        |path: &str| json!({"key": "value", "value": format!("$(pod{path})"), "onMissing": "deny"});
    for (path, expected) in [
        ("/spec/serviceAccountName", "default"),
        ("/spec/restartPolicy", "Always"),
        ("/spec/schedulerName", "default-scheduler"),
        ("/spec/terminationGracePeriodSeconds", "30"),
        ("/metadata/namespace", request.namespace.as_str()),
    ] {
        let config = json!({"labels": [rule(path)]});
        let run = testing::run::<Labels>(&config, &request, &bare);
        assert_eq!(run.result, Ok(()), "{path}");
        assert_eq!(run.pod["metadata"]["labels"]["value"], expected, "{path}");
    }
    let mut with_default = rule("/spec/serviceAccountName");
    with_default["default"] = json!("none");
    // With a default nothing is missing.
    with_default.as_object_mut().unwrap().remove("onMissing");
    let config = json!({"labels": [with_default]});
    let run = testing::run::<Labels>(&config, &request, &bare);
    assert_eq!(run.pod["metadata"]["labels"]["value"], "none");
    assert_eq!(
        run.notes,
        [
            "label value: the rule's default counts, but in a cluster the API server sets /spec/serviceAccountName to default before"
        ]
    );
}
