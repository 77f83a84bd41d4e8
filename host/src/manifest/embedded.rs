//! Checks pods and pod templates against the Pod's schema.

use podloom_pod_path::ViolationKind;
use serde_json::{Value, json};

use super::document::Document;
use super::field::{self, Step};
use super::findings::{Findings, unknown_field, wrong_type};

/// Checks the `metadata` of any object.
pub(super) fn check_metadata(document: &Document, findings: &mut Findings) {
    let Some(metadata) = document.value.get("metadata") else {
        return;
    };
    report(document, &[], &json!({ "metadata": metadata }), findings);
}

/// Checks a pod, or the pod template at a path of a workload.
pub(super) fn check_pod(document: &Document, at: &[Step], findings: &mut Findings) {
    let template = field::get(&document.value, at);
    let Some(template) = template.filter(|template| !template.is_null()) else {
        let message = format!("the pod template of the {} is missing", document.kind);
        findings.errors.push(document.diagnostic(at, message));
        return;
    };
    if !template.is_object() {
        let message = wrong_type(document, at, template, "a map");
        findings.errors.push(document.diagnostic(at, message));
        return;
    }
    let mut pod = json!({ "spec": template.get("spec") });
    if !at.is_empty() {
        pod["metadata"] = template.get("metadata").cloned().unwrap_or_default();
    }
    if !pod["spec"]["containers"].is_array() {
        let path = [at, &["spec".into(), "containers".into()]].concat();
        let message = "the list of containers is missing";
        findings.errors.push(document.diagnostic(&path, message));
    }
    report(document, at, &pod, findings);
}

fn report(document: &Document, at: &[Step], pod: &Value, findings: &mut Findings) {
    let above: String = at
        .iter()
        .map(|step| match step {
            Step::Key(key) => format!("/{}", field::escape(key)),
            Step::Index(index) => format!("/{index}"),
        })
        .collect();
    for violation in podloom_pod_path::examine(pod) {
        let path = document.steps(&format!("{above}{}", violation.path));
        match violation.kind {
            ViolationKind::Type { expected, found } => {
                let message = wrong_type(document, &path, &found, &expected);
                findings.errors.push(document.diagnostic(&path, message));
            }
            ViolationKind::Unknown { known } => {
                let field = match path.last() {
                    Some(Step::Key(field)) => field.as_str(),
                    _ => "",
                };
                let message = unknown_field(field, &known);
                findings
                    .warnings
                    .push(document.diagnostic_at_key(&path, message));
            }
        }
    }
}
