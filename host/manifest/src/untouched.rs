//! Finds what looks like a pod in objects that render does not know: no plugin sees it, and the user should know that.

use serde_json::{Map, Value};

use super::Findings;
use super::document::{self, Document, Step};
use super::kinds::{self, DocumentKind, NamedTemplate, Template};
use crate::error::Diagnostic;

/// How many places of one object are reported.
const MOST_REPORTED: usize = 10;

/// What a command does with objects of unknown kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It passes them on, except for the pod templates that `--pod-template` names.
    PassedOn,
    /// It tries nothing on them.
    LeftOut,
}

/// What was found at a path.
enum Found {
    /// A map with metadata and the spec of a pod.
    Template,
    /// Containers in another form.
    Containers,
}

impl Found {
    /// The subject of a sentence about it. A template without a path is the object.
    fn is_or_are(&self, path: &[Step]) -> &'static str {
        match self {
            Self::Template if !path.is_empty() => "this pod template is",
            _ => "these containers are",
        }
    }
}

/// Warns of pods and containers in an object of an unknown kind.
pub(super) fn check(document: &Document, unknown: Unknown, findings: &mut Findings) {
    if let Some(misspelt) = misspelt(document) {
        findings.warnings.push(misspelt);
        return;
    }
    let kind = kinds::group_and_kind(document);
    for (path, found) in &search_all(document) {
        let what = found.is_or_are(path);
        let advice = match (found, option(&kind, path), option(&kind, &[])) {
            (Found::Template, Some(option), _) if !path.is_empty() => format!(": add {option}"),
            (_, _, Some(option)) => format!("; to accept that, add {option}"),
            (_, _, None) => ": correct apiVersion and kind".to_owned(),
        };
        let message = match unknown {
            Unknown::PassedOn => format!(
                "render does not know the kind {kind}, so {what} neither checked nor changed{advice}"
            ),
            Unknown::LeftOut => {
                format!("podloom does not know the kind {kind}, so {what} not tried")
            }
        };
        findings.warnings.push(document.diagnostic(path, message));
    }
    let diagnostic = missing(document);
    findings.warnings.extend(diagnostic);
}

/// The warning for a kind that render would know if it were written in another way.
fn misspelt(document: &Document) -> Option<Diagnostic> {
    let (version, kind) = kinds::meant(document)?;
    let (field, wrong, right) = if kind == document.kind {
        (
            "apiVersion",
            format!("version of {kind}"),
            version.to_owned(),
        )
    } else if version == document.api_version {
        ("kind", format!("kind {}", document.kind), kind)
    } else {
        let right = format!("{kind}, and apiVersion {version}");
        ("kind", format!("kind {}", document.kind), right)
    };
    let message =
        format!("unknown {wrong}, so the object is neither checked nor changed: write {right}");
    Some(document.diagnostic(&[field.into()], message))
}

/// Warns of pods and containers beside the pod templates that the user named for an object's kind.
pub(super) fn check_others(document: &Document, templates: &[Template], findings: &mut Findings) {
    let mut found = search_all(document);
    found.retain(|(path, _)| {
        let mut templates = templates.iter();
        !templates.any(|template| path.starts_with(&template.path))
    });
    let kind = kinds::group_and_kind(document);
    for (path, found) in &found {
        let option = option(&kind, path).filter(|_| matches!(found, Found::Template));
        let advice = option.map(|option| format!(": add {option}"));
        let message = format!(
            "{} neither checked nor changed{}",
            found.is_or_are(path),
            advice.unwrap_or_default()
        );
        findings.warnings.push(document.diagnostic(path, message));
    }
}

/// Warns of a kind whose labels are protected here, but by the webhook only with `--pod-owner`. None if the user named its template.
pub fn unknown_owner(document: &Document) -> Option<Diagnostic> {
    let DocumentKind::Workload(template) = kinds::kind(document) else {
        return None;
    };
    let (kind, name) = (kinds::group_and_kind(document), &document.kind);
    if document.named.is_some() || template.selector.is_empty() || kinds::is_known(&kind) {
        return None;
    }
    let (group, version) = document.api_version.split_once('/')?;
    let accepted = option(&kind, &template.path).map(|it| format!("; to accept that, add {it}"));
    Some(document.diagnostic(
        &["spec".into(), "selector".into()],
        format!(
            "plugins leave the labels of this selector alone here, and in the cluster only if the pods belong to a ReplicaSet or another \
             kind of Kubernetes, or if the webhook has --pod-owner {name}.{version}.{group}=NAMESPACE/ACCOUNT{}",
            accepted.unwrap_or_default()
        ),
    ))
}

/// The option that names the pod template at a path of a kind, if there is one; with an empty path, the option that says that the
/// kind has none.
fn option(kind: &str, path: &[Step]) -> Option<String> {
    let value = format!("{kind}={}", pointer(path));
    NamedTemplate::parse(&value).ok()?;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/=.-_~".contains(char);
    Some(if value.chars().all(is_plain) {
        format!("--pod-template {value}")
    } else {
        // A shell would replace the `*`.
        format!("--pod-template '{value}'")
    })
}

/// The warning for an object that has none of the pod templates that `--pod-template` names for its kind.
fn missing(document: &Document) -> Option<Diagnostic> {
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

fn search_all(document: &Document) -> Vec<(Vec<Step>, Found)> {
    let mut found = Vec::new();
    search(&document.value, &mut Vec::new(), &mut found);
    found
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
            Step::Key(key) => format!("/{}", document::escape(key)),
        })
        .collect()
}
