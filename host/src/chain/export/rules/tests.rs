use serde_json::{Value, json};

use super::{Config, steps};

fn config(config: Value) -> Config {
    serde_json::from_value(config).unwrap()
}

/// The condition and the value of the one step; an empty value if the key is removed.
#[track_caller]
fn check(rule: &Value, condition: &str, value: &str) {
    let config = config(json!({ "annotations": [rule] }));
    let (steps, refused) = steps(&config, &[]);
    assert_eq!(refused, [""; 0]);
    assert_eq!(steps[0].condition(), condition);
    assert_eq!(steps[0].value.as_deref().unwrap_or_default(), value);
}

const HAS: &str = "has(object.metadata.annotations) && 'a' in object.metadata.annotations";
const TEAM: &str =
    "has(namespaceObject.metadata.labels) && 'team' in namespaceObject.metadata.labels";

#[test]
fn each_mode_has_its_condition() {
    let absent = format!("!({HAS})");
    check(&json!({ "key": "a", "value": "it's" }), &absent, "'it\\'s'");
    check(&json!({ "key": "a", "value": "" }), &absent, "''");
    check(
        &json!({ "key": "a", "value": "b", "mode": "overwrite" }),
        "true",
        "'b'",
    );
    check(&json!({ "key": "a", "mode": "remove" }), HAS, "");
}

#[test]
fn a_value_is_there_if_its_sources_are() {
    let rule = |value: &str| json!({ "key": "a", "mode": "overwrite", "value": value });
    let team = "namespaceObject.metadata.labels['team']";
    check(
        &rule("$$(b)$(namespace/name)"),
        "true",
        "'$(b)' + request.namespace",
    );
    check(&rule("$(namespace/labels/team)"), TEAM, team);
    check(&rule("$$$(request/kind)"), "true", "'$$(request/kind)'");
    let mut with_default = rule("$(namespace/labels/team)");
    with_default["default"] = json!("none");
    check(
        &with_default,
        "true",
        &format!("({TEAM} ? {team} : 'none')"),
    );
}

/// The condition and the value of a label that is overwritten.
#[track_caller]
fn check_label(value: &str, expected: [&str; 2]) {
    let rule = json!({ "key": "a", "mode": "overwrite", "value": value });
    let config = config(json!({ "labels": [rule] }));
    let (steps, _) = steps(&config, &["a".to_owned()]);
    let [condition, value] = expected;
    assert_eq!(steps[0].condition(), condition);
    assert_eq!(steps[0].value.as_deref(), Some(value));
}

#[test]
fn a_label_that_kubernetes_would_refuse_is_missing() {
    let matches = "matches('^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$')";
    check_label("$(namespace/name)", ["true", "request.namespace"]);
    let value = "'a-' + request.namespace";
    check_label(
        "a-$(namespace/name)",
        [&format!("({value}).{matches}"), value],
    );
    let (map, value) = (
        "namespaceObject.metadata.annotations",
        "namespaceObject.metadata.annotations['b']",
    );
    let has = format!("has({map}) && 'b' in {map} && ({value}).{matches}");
    check_label("$(namespace/annotations/b)", [&has, value]);
}

#[test]
fn what_is_inherited_is_only_added() {
    let config = config(json!({ "inheritLabels": ["team"] }));
    let (steps, _) = steps(&config, &[]);
    let has = "has(object.metadata.labels) && 'team' in object.metadata.labels";
    assert_eq!(steps[0].condition(), format!("!({has}) && {TEAM}"));
    assert_eq!(steps[0].path(), "/metadata/labels/team");
}

#[test]
fn what_cannot_be_said_is_refused() {
    let rules = json!({ "labels": [
        { "key": "a", "value": "$(pod/spec/nodeName)" },
        { "key": "b", "value": "$(namespace/labels/b)", "onMissing": "deny" },
        { "key": "c", "value": "c", "onMissing": "deny" },
        { "key": "d", "value": "d", "mode": "overwrite" },
        { "key": "e", "mode": "remove" },
    ] });
    let (steps, refused) = steps(&config(rules), &["e".to_owned()]);
    let keys: Vec<&str> = steps.iter().map(|step| step.key.as_str()).collect();
    assert_eq!(keys, ["c", "e"]);
    insta::assert_snapshot!(refused.join("\n"), @r"
    label a: $(pod/spec/nodeName) cannot be said: only namespace/name, namespace/labels/KEY, namespace/annotations/KEY and request/kind can
    label b: onMissing: deny rejects pods, which needs a ValidatingAdmissionPolicy; use skip or a default
    label d: the plugin leaves labels alone that the selector of a pod's owner names, and a policy cannot know them; if no selector names this one, pass --unselected d
    ");
}
