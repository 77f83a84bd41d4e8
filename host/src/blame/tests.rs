//! Who wrote which line. Each case has a pod and, for a proof, what the chain makes of its template: whole, and without each plugin.

mod submitted;

use std::fs;

use serde_json::{Value, json};

use super::authors::Authors;
use super::proof::{Proof, tree};
use super::report;
use crate::cli::ReportFormat;

/// The case as YAML.
fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("the case is YAML")
}

fn render(pod: &Value, proof: &Proof, format: ReportFormat) -> String {
    let text = report::render(pod, &Authors::of(pod), proof, format).expect("a report");
    anstream::adapter::strip_str(&text).to_string()
}

/// The proof of a case; a plugin without a result is one that cannot be left out.
fn proof(case: &Value, pod: &Value) -> Proof {
    let Some(all) = case.get("all") else {
        return Proof::NotAsked;
    };
    let authors = Authors::of(pod);
    let without = authors.plugins().iter().map(|plugin| {
        let left = case["without"].get(&plugin.name).map(tree);
        left.ok_or_else(|| {
            "without it, the chain rejects the template: it denies the pod".to_owned()
        })
    });
    Proof::Done {
        template: "ReplicaSet shop/web".to_owned(),
        all: tree(all),
        without: without.collect(),
    }
}

fn shown(case: &Value, format: ReportFormat) -> String {
    let mut pod = case["pod"].clone();
    // Written as YAML in the cases.
    if let Some(stamp) = case.get("stamp") {
        pod["metadata"]["annotations"]["podloom.dev/chain"] = json!("0123456789abcdef");
        pod["metadata"]["annotations"]["podloom.dev/mutations"] = json!(stamp.to_string());
    }
    render(&pod, &proof(case, &pod), format)
}

#[test]
fn cases() {
    insta::glob!("cases/*.yaml", |path| {
        let case = read(&fs::read_to_string(path).expect("the case is readable"));
        insta::assert_snapshot!(shown(&case, ReportFormat::Text));
    });
}

#[test]
fn json_has_paths_and_no_values() {
    let case = read(include_str!("cases/depends.yaml"));
    insta::assert_snapshot!(shown(&case, ReportFormat::Json));
}

#[test]
fn nothing_in_a_pod_can_break_it() {
    let entry = json!({ "name": "a", "version": "1", "sha256": "0", "writes": 1 });
    let odd = [
        json!(null),
        json!("text"),
        json!([[]]),
        json!({}),
        json!({ "metadata": 1, "spec": [null] }),
        json!({ "metadata": { "annotations": ["x"], "managedFields": {} } }),
        json!({ "metadata": { "annotations": { "podloom.dev/chain": 1, "podloom.dev/mutations": {} } } }),
        json!({ "metadata": { "name": "\u{1b}[31m", "annotations": { "podloom.dev/chain": "é", "podloom.dev/mutations": json!([entry]).to_string() } } }),
        json!({ "metadata": { "name": "\u{1b}[31m", "managedFields": [
            { "manager": "\u{1b}[2J", "operation": "Update", "fieldsV1": { "f:metadata": { "f:name": {} } }, "time": "2026-01-01T00:00:00Z" },
        ], "creationTimestamp": "2025-01-01T00:00:00Z" } }),
    ];
    for pod in odd {
        for format in [ReportFormat::Text, ReportFormat::Json] {
            let text = render(&pod, &Proof::NotAsked, format);
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }
}
