//! Passes pods and pod templates through the chain, in place.

use std::sync::Arc;

use podloom_controllers::{MutatedPod, PluginOutcome, PluginRun, PodRequest};
use serde_json::{Value, json};

use super::namespaces::{Namespaces, texts};
use super::{Cause, Refused, Rendered, Setting};
use crate::manifest::{Document, Template};

/// A pod as the API server would be handed it, and what plugins are told about it.
pub(crate) struct Subject {
    pub(crate) pod: Value,
    pub(crate) request: PodRequest,
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
    let request = PodRequest {
        kind: "Pod",
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
        selector: template
            .map(|template| Arc::clone(&template.selector))
            .unwrap_or_default(),
        dry_run: false,
        deadline: None,
        wants_patch: false,
    };
    Subject { pod, request }
}

/// The document with its pod, or the pod in its template, as the chain leaves it.
pub(super) fn render(
    document: &Document,
    template: Option<&Template>,
    setting: &Setting<'_>,
) -> Result<Rendered, Refused> {
    let Subject { pod, request } = subject(
        document,
        template,
        &setting.namespaces,
        setting.default_namespace,
    );
    let (pod, runs) = mutate(document, pod, request, setting)?;
    let value = match template {
        // Nothing was done to it, and not even a null in it is left out.
        _ if runs.is_none() => document.value.clone(),
        None => pod,
        Some(template) => with_pod(document.value.clone(), template, pod),
    };
    Ok(Rendered { value, runs })
}

/// The pod after the chain, and what each plugin did; the pod itself without a chain.
pub(super) fn mutate(
    document: &Document,
    pod: Value,
    request: PodRequest,
    setting: &Setting<'_>,
) -> Result<(Value, Option<Vec<PluginRun>>), Refused> {
    let mutated = setting.mutator.pass(pod, request);
    match setting.runtime.block_on(mutated)? {
        Ok(MutatedPod {
            pod, chain, runs, ..
        }) => Ok((pod, chain.map(|_| runs))),
        Err(refused) => Err(Refused {
            cause: Cause::Document(Box::new(document.refuse(&[], reason(&refused)))),
            runs: Some(refused.runs).filter(|runs| !runs.is_empty()),
        }),
    }
}

/// Which plugin it was that refused the pod, and why.
fn reason(refused: &podloom_controllers::RejectedPod) -> String {
    match refused.runs.last().map(|run| (&run.plugin, &run.outcome)) {
        Some((plugin, PluginOutcome::Denied(reason))) => {
            format!("plugin {plugin} denies the pod: {reason}")
        }
        Some((plugin, PluginOutcome::Failed(failure))) => {
            format!("plugin {plugin} failed: {failure}")
        }
        _ => refused.rejection.message().to_owned(),
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
