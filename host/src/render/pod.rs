//! Passes pods and pod templates through the chain, in place.

use std::sync::Arc;

use podloom_mutators::{Mutation, PluginRun, Rejected, RejectionCause, Request};
use serde_json::{Value, json};

use super::namespaces::{Namespaces, texts};
use super::{Refused, Rendered, Setting};
use crate::manifest::{Document, Template};

/// A pod as the API server would be handed it, and what plugins are told about it.
pub(crate) struct Subject {
    pub(crate) pod: Value,
    pub(crate) request: Arc<Request>,
}

/// The fields of a template that make its pod.
const PARTS: [&str; 2] = ["metadata", "spec"];

/// The pod that a document is, or that its template describes.
pub(crate) fn subject(
    document: &Document,
    template: Option<&Template>,
    namespaces: &Namespaces,
    default_namespace: &str,
) -> Subject {
    let mut pod = match template {
        None => document.value.clone(),
        Some(template) => pod_of(&document.value, template),
    };
    drop_nulls(&mut pod);
    let namespace = document.namespace(default_namespace);
    let about = namespaces.get(namespace);
    let request = Request {
        kind: "Pod".to_owned(),
        // Pods of a template get their names from the API server.
        name: if template.is_some() {
            String::new()
        } else {
            document.name().to_owned()
        },
        namespace: namespace.to_owned(),
        labels: texts(pod.pointer("/metadata/labels")),
        annotations: texts(pod.pointer("/metadata/annotations")),
        namespace_labels: about.labels,
        namespace_annotations: about.annotations,
        dry_run: false,
        selector: template
            .map(|template| Arc::clone(&template.selector))
            .unwrap_or_default(),
    };
    Subject {
        pod,
        request: Arc::new(request),
    }
}

/// The document with its pod, or the pod in its template, as the chain leaves it.
pub(super) fn render(
    document: &Document,
    template: Option<&Template>,
    setting: &Setting<'_>,
) -> Result<Rendered, Refused> {
    if setting.chain.is_none() {
        return Ok(Rendered {
            value: document.value.clone(),
            runs: None,
        });
    }
    let Subject { pod, request } = subject(
        document,
        template,
        &setting.namespaces,
        setting.default_namespace,
    );
    let (pod, runs) = mutate(document, pod, request, setting)?;
    let value = match template {
        None => pod,
        Some(template) => with_pod(document.value.clone(), template, pod),
    };
    Ok(Rendered { value, runs })
}

/// The pod after the chain, and what each plugin did; the pod itself without a chain.
pub(super) fn mutate(
    document: &Document,
    pod: Value,
    request: impl Into<Arc<Request>>,
    setting: &Setting<'_>,
) -> Result<(Value, Option<Vec<PluginRun>>), Refused> {
    let Some(chain) = setting.chain else {
        return Ok((pod, None));
    };
    match chain.mutate(pod, request) {
        Ok(Mutation { pod, runs }) => Ok((pod, Some(runs))),
        Err(Rejected { cause, runs }) => Err(Refused {
            refusal: Box::new(document.refuse(&[], cause.to_string())),
            runs: (!matches!(cause, RejectionCause::NotAPod(_))).then_some(runs),
        }),
    }
}

fn pod_of(workload: &Value, template: &Template) -> Value {
    let place = template
        .path
        .iter()
        .try_fold(workload, |value, field| value.get(field));
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod" });
    for part in PARTS {
        if let Some(value) = place.and_then(|place| place.get(part)) {
            pod[part] = value.clone();
        }
    }
    pod
}

fn with_pod(mut workload: Value, template: &Template, mut pod: Value) -> Value {
    let place = template
        .path
        .iter()
        .try_fold(&mut workload, |value, field| value.get_mut(field));
    if let Some(Value::Object(place)) = place {
        for part in PARTS {
            if let Some(value) = pod.get_mut(part) {
                place.insert(part.to_owned(), value.take());
            }
        }
    }
    workload
}

/// To the API server a field that is null is absent; `creationTimestamp: null` stands in many templates.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
