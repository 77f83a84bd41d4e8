//! Finds what looks like a pod in objects that render does not know: no plugin sees it, and the user should know that.

use serde_json::{Map, Value};

use super::document::Document;
use super::field::{self, Step};
use super::findings::Findings;
use super::kinds::{self, Template};

/// How many places of one object are reported.
const MOST_REPORTED: usize = 10;

/// What was found at a path.
enum Found {
    /// A map with metadata and the spec of a pod.
    Template,
    /// Containers in another form.
    Containers,
}

/// Warns of pods and containers in an object of an unknown kind.
pub(super) fn check(document: &Document, findings: &mut Findings) {
    if let Some(known) = kinds::differs_in_case(document) {
        let message = format!(
            "unknown kind {}, so the object is neither checked nor changed: write {known}",
            document.kind
        );
        let diagnostic = document.diagnostic(&["kind".into()], message);
        findings.warnings.push(diagnostic);
        return;
    }
    let mut found = Vec::new();
    search(&document.value, &mut Vec::new(), &mut found);
    let kind = kinds::group_and_kind(document);
    for (path, what) in &found {
        let message = match what {
            Found::Template if !path.is_empty() => format!(
                "render does not know the kind {kind}, so this pod template is neither checked nor changed: add --pod-template {kind}={}",
                pointer(path)
            ),
            _ => format!(
                "render does not know the kind {kind}, so these containers are neither checked nor changed; to accept that, add --pod-template {kind}="
            ),
        };
        findings.warnings.push(document.diagnostic(path, message));
    }
    let diagnostic = missing(document);
    findings.warnings.extend(diagnostic);
}

/// Warns of pods and containers beside the pod templates that the user named for an object's kind.
pub(super) fn check_others(document: &Document, templates: &[Template], findings: &mut Findings) {
    let mut found = Vec::new();
    search(&document.value, &mut Vec::new(), &mut found);
    found.retain(|(path, _)| {
        let mut templates = templates.iter();
        !templates.any(|template| path.starts_with(&template.path))
    });
    let kind = kinds::group_and_kind(document);
    for (path, what) in &found {
        let message = match what {
            Found::Template => format!(
                "this pod template is neither checked nor changed: add --pod-template {kind}={}",
                pointer(path)
            ),
            Found::Containers => "these containers are neither checked nor changed".to_owned(),
        };
        findings.warnings.push(document.diagnostic(path, message));
    }
}

/// The warning for an object that has none of the pod templates that `--pod-template` names for its kind.
fn missing(document: &Document) -> Option<crate::error::Diagnostic> {
    let named = document.named.as_ref().filter(|named| !named.is_empty())?;
    let paths: Vec<&str> = named.iter().map(|path| path.as_str()).collect();
    Some(document.diagnostic(
        &[],
        format!(
            "the object has no pod template at {}, which --pod-template names",
            paths.join(" or ")
        ),
    ))
}

fn search(value: &Value, path: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, Found)>) {
    if found.len() >= MOST_REPORTED {
        return;
    }
    match value {
        Value::Object(fields) => {
            let spec = fields.get("spec").and_then(Value::as_object);
            if spec.is_some_and(has_containers) {
                return found.push((path.clone(), Found::Template));
            }
            if has_containers(fields) || has_container(fields) {
                return found.push((path.clone(), Found::Containers));
            }
            for (key, value) in fields {
                path.push(Step::Key(key.clone()));
                search(value, path, found);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                path.push(Step::Index(index));
                search(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Whether a map looks like the spec of a pod.
fn has_containers(fields: &Map<String, Value>) -> bool {
    let containers = fields.get("containers").and_then(Value::as_array);
    containers.is_some_and(|containers| {
        containers
            .iter()
            .any(|container| container["image"].is_string())
    })
}

/// Whether a map has a single container, as a step of an Argo Workflow does.
fn has_container(fields: &Map<String, Value>) -> bool {
    let container = fields.get("container").or_else(|| fields.get("script"));
    container.is_some_and(|container| container["image"].is_string())
}

/// A path as `--pod-template` takes it: `*` stands for every element of a list.
fn pointer(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Index(_) => "/*".to_owned(),
            Step::Key(key) => format!("/{}", field::escape(key)),
        })
        .collect()
}
