//! What is wrong with a configuration, before any pod is seen.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing;

use crate::Labels;

#[track_caller]
fn check(config: Value, errors: &[&str]) {
    let found = testing::configure::<Labels>(&config)
        .err()
        .unwrap_or_default();
    assert_eq!(found, errors);
}

#[track_caller]
fn check_key(key: &str, error: Option<&str>) {
    let errors: Vec<String> = error
        .into_iter()
        .map(|error| format!("label {key} {error}"))
        .collect();
    let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
    check(json!({ "labels": [{ "key": key, "value": "x" }] }), &errors);
    check(json!({ "inheritLabels": [key] }), &errors);
}

const NAME: &str = "has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
const PREFIX: &str =
    "has a prefix that is no DNS subdomain (lower case letters, digits, `-` and `.`, at most 253)";

#[test]
fn keys_are_a_name_with_an_optional_dns_prefix() {
    let subdomain = |length: usize| format!("{}a", "a.".repeat(length / 2));
    for key in ["a", "A.b_c-9", "example.com/a", "a-1.b/X"] {
        check_key(key, None);
    }
    check_key(&"a".repeat(63), None);
    check_key(&format!("{}/a", subdomain(253)), None);

    for key in ["", "-a", "a-", "a b", "ä", "a/", "a/b/c", "a/_"] {
        check_key(key, Some(NAME));
    }
    check_key(&"a".repeat(64), Some(NAME));
    for key in ["/a", "A/a", "a_b/a", "-a/a", "a..b/a", "a./a"] {
        check_key(key, Some(PREFIX));
    }
    check_key(&format!("{}/a", subdomain(255)), Some(PREFIX));
}

#[test]
fn a_key_is_no_path() {
    let advice = "has `~1`, which stands for `/` in paths alone: write `/`";
    check_key("example.com~1team", Some(advice));
    check(
        json!({ "labels": [{ "key": "a", "value": "$(namespace/labels/example.com~1team)" }] }),
        &[&format!("label a: value: label example.com~1team {advice}")],
    );
}

#[test]
fn a_prefix_of_an_annotation_may_have_capitals() {
    check(
        json!({ "annotations": [{ "key": "Example.com/a", "value": "x" }] }),
        &[],
    );
    check(
        json!({ "annotations": [{ "key": "exa_mple.com/a", "value": "x" }] }),
        &[&format!("annotation exa_mple.com/a {PREFIX}")],
    );
}

#[test]
fn literal_label_values_are_checked_and_annotations_take_any_text() {
    let error = "label a: value is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    let label = |value: &str| json!({ "labels": [{ "key": "a", "value": value }] });
    for value in ["", "x", "A.b_c-9", &"x".repeat(63)] {
        check(label(value), &[]);
    }
    for value in ["-", "x y", "x/y", "ü", "x.", "$$(", "5$", &"x".repeat(64)] {
        check(label(value), &[error]);
    }
    check(
        json!({ "annotations": [{ "key": "a", "value": "x y/ü\n" }] }),
        &[],
    );
    check(
        json!({ "labels": [{ "key": "a", "value": "$(request/name)", "default": "-" }] }),
        &[
            "label a: default is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
        ],
    );
}

const KUBERNETES: &str = "belongs to Kubernetes: remove the rule, or add the key to allowProtected";

#[test]
fn protected_keys_need_an_opt_in_by_name() {
    for key in [
        "kubernetes.io/os",
        "app.kubernetes.io/name",
        "k8s.io/a",
        "deep.down.k8s.io/a",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "controller-uid",
        "job-name",
    ] {
        check_key(key, Some(KUBERNETES));
        let rule = json!({ "key": key, "mode": "remove" });
        check(
            json!({ "labels": [rule] }),
            &[&format!("label {key} {KUBERNETES}")],
        );
        check(json!({ "labels": [rule], "allowProtected": [key] }), &[]);
        check(
            json!({ "labels": [rule], "allowProtected": ["kubernetes.io"] }),
            &[&format!("label {key} {KUBERNETES}")],
        );
    }
    let annotation = |key: &str| json!({ "annotations": [{ "key": key, "value": "x" }] });
    check(
        annotation("Kubernetes.IO/a"),
        &[&format!("annotation Kubernetes.IO/a {KUBERNETES}")],
    );
    check(annotation("pod-template-hash"), &[]);
    for key in [
        "notkubernetes.io/a",
        "kubernetes.io.example.com/a",
        "k8s.example.com/a",
        "kubernetes.io",
    ] {
        check_key(key, None);
    }
}

#[test]
fn what_the_host_writes_is_refused_even_with_an_opt_in() {
    let host = "is written by the host alone: remove the rule";
    check(
        json!({
            "labels": [{ "key": "selenosis.io/browser", "value": "x" }, { "key": "podloom.dev/a", "value": "x" }],
            "annotations": [{ "key": "podloom.dev/chain", "value": "x" }, { "key": "selenosis.io/a", "value": "x" }],
            "allowProtected": ["selenosis.io/browser", "podloom.dev/chain"],
        }),
        &[
            &format!("label selenosis.io/browser {host}"),
            &format!("annotation podloom.dev/chain {host}"),
        ],
    );
}

#[test]
fn a_key_has_one_rule() {
    let twice = "is named twice: keep one rule for it";
    check(
        json!({ "labels": [{ "key": "a", "value": "1" }, { "key": "a", "mode": "remove" }], "inheritLabels": ["b", "b"] }),
        &[&format!("label a {twice}"), &format!("label b {twice}")],
    );
    check(
        json!({ "labels": [{ "key": "a", "value": "1" }], "inheritLabels": ["a"] }),
        &[&format!("label a {twice}")],
    );
    check(
        json!({ "labels": [{ "key": "a", "value": "1" }], "inheritAnnotations": ["a"] }),
        &[],
    );
}

#[test]
fn a_rule_has_what_its_mode_needs() {
    let remove = "label a: mode remove takes no value, default or onMissing";
    for rule in [
        json!({ "key": "a", "mode": "remove", "value": "x" }),
        json!({ "key": "a", "mode": "remove", "default": "x" }),
        json!({ "key": "a", "mode": "remove", "onMissing": "deny" }),
    ] {
        check(json!({ "labels": [rule] }), &[remove]);
    }
    check(
        json!({ "labels": [{ "key": "a" }] }),
        &["label a: value is missing"],
    );
    check(
        json!({ "labels": [{ "key": "a", "value": "$(request/name)", "default": "x", "onMissing": "deny" }] }),
        &["label a: with a default nothing is missing: remove default, or onMissing: deny"],
    );
}

#[track_caller]
fn check_source(source: &str, error: &str) {
    let config = json!({ "annotations": [{ "key": "a", "value": format!("$({source})") }] });
    check(config, &[&format!("annotation a: value: {error}")]);
}

#[test]
fn what_differs_from_run_to_run_is_no_source() {
    for path in [
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/creationTimestamp",
        "/metadata/deletionTimestamp",
        "/metadata/generation",
        "/metadata/managedFields/0/time",
        "/metadata/selfLink",
        "/status",
        "/status/podIP",
    ] {
        check_source(
            &format!("pod{path}"),
            &format!("pod{path} differs from run to run: use a field that the pod's author wrote"),
        );
    }
}

#[test]
fn a_template_does_not_read_what_the_plugin_changes() {
    let own = "is changed by this plugin itself, so a second run would not agree with the first";
    check_source(
        "pod/metadata/annotations/a",
        &format!("pod/metadata/annotations/a {own}"),
    );
    check_source("pod/metadata", &format!("pod/metadata {own}"));
    check(
        json!({
            "labels": [{ "key": "example.com/old", "mode": "remove" }, { "key": "new", "value": "$(pod/metadata/labels/example.com~1old)" }],
            "annotations": [{ "key": "b", "value": "$(pod/metadata/labels/team)$(pod/metadata/labels/other)" }],
            "inheritLabels": ["team"],
        }),
        &[
            &format!("label new: value: pod/metadata/labels/example.com~1old {own}"),
            &format!("annotation b: value: pod/metadata/labels/team {own}"),
        ],
    );
}

#[test]
fn an_overwritten_key_is_not_made_of_what_the_pod_came_with_and_the_plugin_changes() {
    let own = "is changed by this plugin itself, so a second run would not agree with the first";
    let rules = |mode: &str, value: &str| json!({ "labels": [{ "key": "a", "value": value, "mode": mode }], "inheritAnnotations": ["b"] });
    check(
        rules("overwrite", "x-$(request/labels/a)"),
        &[&format!(
            "label a: value: the submitted object's label a {own}"
        )],
    );
    check(
        rules("overwrite", "$(request/annotations/b)"),
        &[&format!(
            "label a: value: the submitted object's annotation b {own}"
        )],
    );
    check(rules("overwrite", "$(request/labels/a)"), &[]);
    check(rules("overwrite", "$(request/labels/b)"), &[]);
    check(rules("addIfAbsent", "x-$(request/labels/a)"), &[]);
}

#[test]
fn a_source_names_one_place() {
    for path in [
        "/",
        "/spec/",
        "/spec/containers/*/image",
        "/spec/containers/-",
        "//a",
    ] {
        check_source(
            &format!("pod{path}"),
            &format!("pod{path} names no single place of the pod"),
        );
    }
    check_source("namespace/labels/a b", &format!("label a b {NAME}"));
    check_source("request/annotations/", &format!("annotation  {NAME}"));
}

#[test]
fn what_is_no_source_is_explained() {
    let errors =
        testing::configure::<Labels>(&json!({ "labels": [{ "key": "a", "value": "$(team)" }] }))
            .unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .starts_with("label a: value: $(team) is no source: write pod/PATH, namespace/name,"),
        "{errors:?}"
    );
}

#[test]
fn unknown_fields_and_values_are_refused() {
    for config in [
        json!({ "label": [] }),
        json!({ "labels": [{ "key": "a", "vaule": "x" }] }),
        json!({ "labels": [{ "value": "x" }] }),
        json!({ "labels": [{ "key": "a", "value": "x", "mode": "Replace" }] }),
        json!({ "labels": [{ "key": "a", "value": "x", "onMissing": "Fail" }] }),
        json!({ "labels": { "a": "x" } }),
    ] {
        assert_eq!(
            testing::configure::<Labels>(&config).unwrap_err().len(),
            1,
            "{config}"
        );
    }
}

#[test]
fn an_empty_configuration_does_nothing() {
    check(json!({}), &[]);
}
