//! Passes pods and pod templates through the chain, in place.

use std::sync::Arc;

use podloom_controllers::{MutatedPod, PluginOutcome, PluginRun, PodRequest};
use serde_json::{Value, json};

use super::namespaces::{Namespaces, texts};
use super::{ObjectError, Rendered, Setting};
use crate::manifest::{Document, Template};

/// A pod as the API server would receive it, and what plugins can read about the request.
pub(crate) struct Subject {
    pub(crate) pod: Value,
    pub(crate) request: PodRequest,
}

/// The fields of a pod template that become the pod's.
const PARTS: [&str; 2] = ["metadata", "spec"];

/// The pod in a document, or in its pod template.
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
        // The API server generates the names of pods that come from a template.
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

/// Passes the document's pod, or the pod in its template, through the chain and puts the result back.
pub(super) fn render(
    document: &Document,
    template: Option<&Template>,
    setting: &Setting<'_>,
) -> Result<Rendered, ObjectError> {
    let Subject { pod, request } = subject(
        document,
        template,
        &setting.namespaces,
        setting.default_namespace,
    );
    let (pod, runs) = mutate(document, pod, request, setting)?;
    let value = match template {
        // Without a chain the document is printed unchanged, nulls included.
        _ if runs.is_none() => document.value.clone(),
        None => pod,
        Some(template) => with_pod(document.value.clone(), template, pod),
    };
    Ok(Rendered { value, runs })
}

/// Returns the pod after the chain, and what each plugin did. Without a chain it returns the pod unchanged.
pub(super) fn mutate(
    document: &Document,
    pod: Value,
    request: PodRequest,
    setting: &Setting<'_>,
) -> Result<(Value, Option<Vec<PluginRun>>), ObjectError> {
    let mutated = setting.mutator.pass(pod, request);
    match setting.runtime.block_on(mutated)? {
        Ok(MutatedPod {
            pod, chain, runs, ..
        }) => Ok((pod, chain.map(|_| runs))),
        Err(rejected) => Err(ObjectError::Invalid {
            diagnostic: Box::new(document.diagnostic(&[], reason(&rejected))),
            runs: Some(rejected.runs).filter(|runs| !runs.is_empty()),
        }),
    }
}

/// Which plugin rejected the pod, and why.
fn reason(rejected: &podloom_controllers::RejectedPod) -> String {
    match rejected.runs.last().map(|run| (&run.plugin, &run.outcome)) {
        Some((plugin, PluginOutcome::Denied(reason))) => {
            format!("plugin {plugin} denies the pod: {reason}")
        }
        Some((plugin, PluginOutcome::Failed(failure))) => {
            format!("plugin {plugin} failed: {failure}")
        }
        _ => rejected.rejection.message().to_owned(),
    }
}

fn pod_of(workload: &Value, template: &Template) -> Value {
    let source = template
        .path
        .iter()
        .try_fold(workload, |value, field| value.get(field));
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod" });
    for part in PARTS {
        if let Some(value) = source.and_then(|source| source.get(part)) {
            pod[part] = value.clone();
        }
    }
    pod
}

fn with_pod(mut workload: Value, template: &Template, mut pod: Value) -> Value {
    let target = template
        .path
        .iter()
        .try_fold(&mut workload, |value, field| value.get_mut(field));
    if let Some(Value::Object(target)) = target {
        for part in PARTS {
            if let Some(value) = pod.get_mut(part) {
                target.insert(part.to_owned(), value.take());
            }
        }
    }
    workload
}

/// The API server treats a null field as absent, and many templates contain `creationTimestamp: null`.
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
