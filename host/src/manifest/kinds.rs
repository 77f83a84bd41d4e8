//! What is done with an object.

use std::sync::Arc;

use podloom_api::SelenosisApi;
use serde_json::Value;

use super::document::Document;
use super::field::Step;

/// What an object is to a render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Becomes its pod.
    Browser,
    /// Is read, not printed.
    BrowserConfig,
    /// Is read, not printed.
    Namespace,
    /// Goes through the chain.
    Pod,
    /// Its pod template goes through the chain, in place.
    Workload(Template),
    /// Passes through.
    Other,
}

/// Where a workload keeps its pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The fields that lead to the template.
    pub(crate) path: &'static [&'static str],
    /// Keys of the labels by which the workload finds its pods.
    pub(crate) selector: Arc<[String]>,
}

impl Template {
    /// The steps from the object to its template.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.path.iter().map(|field| Step::from(*field)).collect()
    }
}

/// Kubernetes' own workloads and where their templates are. Kinds that are not here are known by their shape.
const WORKLOADS: [(&str, &str, &[&str]); 8] = [
    ("apps/v1", "DaemonSet", &["spec", "template"]),
    ("apps/v1", "Deployment", &["spec", "template"]),
    ("apps/v1", "ReplicaSet", &["spec", "template"]),
    ("apps/v1", "StatefulSet", &["spec", "template"]),
    (
        "batch/v1",
        "CronJob",
        &["spec", "jobTemplate", "spec", "template"],
    ),
    ("batch/v1", "Job", &["spec", "template"]),
    ("v1", "PodTemplate", &["template"]),
    ("v1", "ReplicationController", &["spec", "template"]),
];

/// Tells what an object is to a render.
pub(crate) fn kind(document: &Document) -> Kind {
    let api_version = document.api_version.as_str();
    match SelenosisApi::recognize(api_version, &document.kind) {
        Some((_, podloom_api::SelenosisKind::Browser)) => return Kind::Browser,
        Some((_, podloom_api::SelenosisKind::BrowserConfig)) => return Kind::BrowserConfig,
        None => {}
    }
    match (api_version, document.kind.as_str()) {
        ("v1", "Pod") => return Kind::Pod,
        ("v1", "Namespace") => return Kind::Namespace,
        _ => {}
    }
    let known = WORKLOADS
        .into_iter()
        .find(|(version, kind, _)| *version == api_version && *kind == document.kind)
        .map(|(_, _, path)| path)
        .or_else(|| {
            let spec = descend(&document.value, &["spec", "template", "spec"])?;
            spec.get("containers")?.as_array()?;
            Some(&["spec", "template"][..])
        });
    match known {
        Some(path) => Kind::Workload(Template {
            path,
            selector: selector(&document.value, path),
        }),
        None => Kind::Other,
    }
}

/// Follows fields down.
pub(crate) fn descend<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, field| value.get(field))
}

/// Keys of the labels that the selector beside a template looks at: a LabelSelector, or a plain map as in v1.
fn selector(workload: &Value, path: &[&str]) -> Arc<[String]> {
    let beside = path.split_last().map_or(&[][..], |(_, above)| above);
    let Some(selector) = descend(workload, beside).and_then(|spec| spec.get("selector")) else {
        return Arc::default();
    };
    let is_plain =
        selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_plain {
        Some(selector)
    } else {
        selector.get("matchLabels")
    };
    let literal = labels
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|labels| labels.keys().cloned());
    let expressions = selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|expression| expression.get("key")?.as_str().map(str::to_owned));
    let mut keys: Vec<String> = literal.chain(expressions).collect();
    keys.sort();
    keys.dedup();
    keys.into()
}

#[cfg(test)]
mod tests;
