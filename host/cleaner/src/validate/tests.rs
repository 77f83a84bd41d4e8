use podloom_cel::compile_all;
use podloom_engine::finding::{Finding, Findings};
use serde_json::{Value, json};

use super::{compilable, conditions, since, spec, variable_names};
use crate::settings::CleanerSettings;

fn read(spec: Value) -> podloom_api::CleanerSpec {
    serde_json::from_value(spec).expect("it is a spec")
}

fn settings() -> CleanerSettings {
    CleanerSettings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        ..CleanerSettings::default()
    }
}

/// Checks a spec in the namespace `team-a`.
#[track_caller]
fn check(value: Value, refusals: &[&str], warnings: &[&str]) {
    let findings = spec(&read(value), "team-a", &settings());
    let texts = |found: &[Finding]| found.iter().map(Finding::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&findings.refusals), refusals);
    assert_eq!(texts(&findings.warnings), warnings);
}

#[test]
fn only_conditions_need_a_retry() {
    check(json!({ "ttl": "1h" }), &[], &[]);
    check(
        json!({ "ttl": "1h", "conditions": ["true"], "retry": { "period": "1h" } }),
        &[],
        &[],
    );
    check(
        json!({ "ttl": "1h", "conditions": ["true"] }),
        &[],
        &[
            "spec.retry: it is missing, so the conditions are evaluated every 5m, and when a target changes; write the period that \
             you want",
        ],
    );
}

#[test]
fn what_the_operator_calls_invalid_is_refused() {
    check(
        json!({ "ttl": "1 day" }),
        &[
            "spec.ttl: this is no duration; write numbers with units, such as 90s, 1.5h, 360h or 1w2d (units: ns, us, ms, s, m, h, d, w)",
        ],
        &[],
    );
}

#[test]
fn a_namespace_that_is_excluded_here_may_not_be_so_at_the_operator() {
    let findings = spec(&read(json!({ "ttl": "1h" })), "kube-system", &settings());
    assert_eq!(findings.refusals, []);
    let [warning] = findings.warnings.as_slice() else {
        panic!("{findings:?}")
    };
    assert!(warning.to_string().starts_with("metadata.namespace: "));
}

#[test]
fn conditions_see_the_targets_that_they_may_see() {
    let reference = json!({ "version": "v1", "kind": "Pod", "name": "a" });
    let spec = read(json!({
        "ttl": "1h",
        "targets": [
            { "name": "seen", "includeWhenEvaluating": true, "reference": reference },
            { "name": "deleted", "delete": true, "reference": reference },
        ],
    }));
    assert_eq!(variable_names(&spec), ["seen"]);
}

#[test]
fn a_mistake_in_a_condition_names_its_field_once() {
    let failures = compile_all(&["true", "a"], &[]).expect_err("there is no a");
    let found: Vec<String> = conditions(&failures)
        .iter()
        .map(Finding::to_string)
        .collect();
    assert_eq!(
        found,
        [r#"spec.conditions[1]: 1:1: unknown name "a"; known here: time"#]
    );
}

#[test]
fn more_conditions_than_a_spec_may_have_are_not_compiled() {
    let spec = read(json!({ "ttl": "1h", "conditions": vec!["true"; 1000] }));
    assert_eq!(compilable(&spec).count(), 32);
}

#[test]
fn only_what_is_new_is_refused() {
    let failures = |conditions: &[&str]| Findings {
        refusals: super::conditions(&compile_all(conditions, &[]).expect_err("none compiles")),
        warnings: Vec::new(),
    };
    let findings = since(failures(&["a", "b"]), &failures(&["a"]));
    assert_eq!(findings.refusals.len(), 1);
    assert!(
        findings.refusals[0]
            .to_string()
            .starts_with("spec.conditions[1]")
    );
    assert_eq!(findings.warnings, failures(&["a"]).refusals);
}
