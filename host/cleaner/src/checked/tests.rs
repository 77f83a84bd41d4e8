use std::time::Duration;

use kube::core::{Selector, SelectorExt};
use podloom_api::CleanerSpec;
use serde_json::{Value, json};

use super::{Checked, Selection, joined};
use crate::settings::CleanerSettings;

fn read(spec: Value) -> Result<Checked, String> {
    let spec: CleanerSpec = serde_json::from_value(spec).unwrap();
    let settings = CleanerSettings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        ..CleanerSettings::default()
    };
    Checked::of(&spec, "demo", &settings).map_err(|findings| joined(&findings))
}

fn target(reference: &Value) -> Value {
    json!({ "ttl": "1h", "targets": [{ "name": "a", "delete": true, "reference": reference }] })
}

#[track_caller]
fn selection(reference: &Value) -> Selection {
    let checked = read(target(reference)).unwrap();
    checked.targets[0].selection.clone()
}

#[track_caller]
fn refused(spec: Value, expected: &str) {
    assert_eq!(read(spec).unwrap_err(), expected);
}

#[track_caller]
fn refused_target(reference: &Value, expected: &str) {
    let expected = format!("spec.targets[0].reference{expected}");
    refused(target(reference), &expected);
}

#[test]
fn the_defaults_are_those_of_the_schema() {
    let checked = read(json!({ "ttl": "1d" })).unwrap();
    assert_eq!(checked.ttl, Duration::from_secs(86_400));
    assert_eq!(checked.period, Duration::from_secs(300));
    assert_eq!(checked.max_objects, 100);
    assert!(!checked.is_monotonic && !checked.is_dry_run && checked.helm.is_none());
}

#[test]
fn a_duration_that_overflows_is_refused_with_its_field() {
    refused(
        json!({ "ttl": "300000w", "retry": { "period": "1 day" } }),
        "spec.ttl: the duration is longer than 292 years, use a shorter one; spec.retry.period: this is no duration; write numbers with \
         units, such as 90s, 1.5h, 360h or 1w2d (units: ns, us, ms, s, m, h, d, w)",
    );
}

#[test]
fn an_excluded_namespace_is_refused() {
    let spec: CleanerSpec = serde_json::from_value(json!({ "ttl": "1h" })).unwrap();
    let settings = CleanerSettings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        ..CleanerSettings::default()
    };
    let error = Checked::of(&spec, "kube-system", &settings).unwrap_err();
    assert!(joined(&error).starts_with(
        "metadata.namespace: the operator deletes nothing in the namespace kube-system"
    ));
}

#[test]
fn kinds_have_a_group_and_a_version_either_way() {
    let kinds = |reference: &Value| read(target(reference)).unwrap().targets[0].kind.clone();
    let split =
        kinds(&json!({ "apiGroup": "apps", "version": "v1", "kind": "deployment", "name": "a" }));
    let joined = kinds(&json!({ "apiVersion": "apps/v1", "kind": "deployment", "name": "a" }));
    assert_eq!(split, joined);
    let core = kinds(&json!({ "apiVersion": "v1", "kind": "Pod", "name": "a" }));
    assert_eq!((core.group.as_str(), core.version.as_str()), ("", "v1"));
    let core = kinds(&json!({ "apiGroup": "", "version": "v1", "kind": "Pod", "name": "a" }));
    assert_eq!((core.group.as_str(), core.version.as_str()), ("", "v1"));
}

#[test]
fn references_that_would_reach_other_objects_are_refused() {
    refused_target(
        &json!({ "version": "v1", "kind": "Pod", "name": "../secrets/a" }),
        ".name: this is no name of an object: it has no slash and no percent sign, and is not . or ..",
    );
    refused_target(
        &json!({ "version": "v1", "kind": "Pod", "name": ".." }),
        ".name: this is no name of an object: it has no slash and no percent sign, and is not . or ..",
    );
    refused_target(
        &json!({ "apiGroup": "apps/v1", "version": "v1", "kind": "Pod", "name": "a" }),
        ".apiGroup: this is no API group; write one such as apps, or leave it out for the core",
    );
    refused_target(
        &json!({ "version": "v1/x", "kind": "Pod", "name": "a" }),
        ".version: this is no version of an API; write one such as v1",
    );
    refused_target(
        &json!({ "version": "v1", "kind": "pods/status", "name": "a" }),
        ".kind: this is no kind; write one such as Pod",
    );
}

#[test]
fn a_target_is_chosen_in_exactly_one_way() {
    let text = ": give exactly one of name, matchLabels and labelSelector";
    refused_target(&json!({ "version": "v1", "kind": "Pod" }), text);
    refused_target(
        &json!({ "version": "v1", "kind": "Pod", "name": "a", "matchLabels": { "a": "b" } }),
        text,
    );
}

#[test]
fn nothing_deletes_all_objects_of_a_kind() {
    let text = ": an empty selector would delete all objects of this kind, give at least one label";
    refused_target(
        &json!({ "version": "v1", "kind": "Pod", "matchLabels": {} }),
        text,
    );
    refused_target(
        &json!({ "version": "v1", "kind": "Pod", "labelSelector": {} }),
        text,
    );
    let spec = json!({ "ttl": "1h", "targets": [{ "name": "a", "includeWhenEvaluating": true,
        "reference": { "version": "v1", "kind": "Pod", "matchLabels": {} } }] });
    let all = read(spec).unwrap();
    let Selection::Labelled(Ok(all)) = &all.targets[0].selection else {
        panic!("it is only looked at");
    };
    assert!(all.selects_all());
}

#[test]
fn a_value_cannot_smuggle_in_another_selector() {
    let reference = json!({ "version": "v1", "kind": "Pod", "matchLabels": { "app": "a,b" } });
    let Selection::Labelled(Err(error)) = selection(&reference) else {
        panic!("no label has a comma");
    };
    assert_eq!(
        error.to_string(),
        "the value \"a,b\" of the label app is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"
    );
}

#[track_caller]
fn matches(selector: &Selector, labels: &[(&str, &str)], expected: bool) {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    assert_eq!(selector.matches(&labels.collect()), expected, "{selector}");
}

#[test]
fn selectors_match_as_the_api_server_matches() {
    let selector = json!({ "matchLabels": { "app": "a" }, "matchExpressions": [
        { "key": "tier", "operator": "NotIn", "values": ["web", "db"] },
        { "key": "team", "operator": "In", "values": ["x", "y"] },
        { "key": "new", "operator": "Exists" },
        { "key": "old", "operator": "DoesNotExist" },
    ] });
    let reference = json!({ "version": "v1", "kind": "Pod", "labelSelector": selector });
    let Selection::Labelled(Ok(selector)) = selection(&reference) else {
        panic!("it is fine");
    };
    assert_eq!(
        selector.to_string(),
        "app=a,tier notin (db,web),team in (x,y),new,!old"
    );
    let fits = [("app", "a"), ("team", "y"), ("new", "")];
    matches(&selector, &fits, true);
    matches(&selector, &[&fits[..], &[("tier", "app")]].concat(), true);
    matches(&selector, &[&fits[..], &[("tier", "web")]].concat(), false);
    matches(&selector, &[&fits[..], &[("old", "")]].concat(), false);
    matches(&selector, &fits[1..], false);
}

#[test]
fn an_empty_list_of_values_is_refused() {
    let selector = json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": [] }] });
    let reference = json!({ "version": "v1", "kind": "Pod", "labelSelector": selector });
    assert!(matches!(selection(&reference), Selection::Labelled(Err(_))));
}

#[test]
fn names_are_variables_and_unique() {
    let one = |name: &str| json!({ "name": name, "reference": { "version": "v1", "kind": "Pod", "name": "a" } });
    refused(
        json!({ "ttl": "1h", "targets": [one("a"), one("a")] }),
        "spec.targets[1].name: another target has this name, use another",
    );
    refused(
        json!({ "ttl": "1h", "targets": [one("time")] }),
        "spec.targets[0].name: no condition could use this name: begin with a letter or an underscore, go on with letters, digits and \
         underscores, at most 63, and use no word of CEL",
    );
}

#[test]
fn only_a_release_that_is_deleted_is_uninstalled() {
    let kept = read(json!({ "ttl": "1h", "helm": { "release": "shop" } })).unwrap();
    assert!(kept.helm.is_none());
    let deleted = read(json!({ "ttl": "1h", "helm": { "release": "shop", "delete": true } }));
    assert_eq!(deleted.unwrap().helm.unwrap(), "shop");
}
