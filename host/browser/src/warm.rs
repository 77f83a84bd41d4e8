//! Warm pods: pods of a BrowserConfig that run before anybody asks for them, and wait for a session.
//!
//! The BrowserConfig's controller keeps them (`pools` says how many, `config/make.rs` creates them). A Browser takes one in place of creating
//! a pod (`act/take.rs`): if, and only if, the pod that would be created for it has the very same spec, or can have it by a resize. So
//! whatever a session, its options, the configuration or the chain ask for, a warm pod is what a new one would be.

mod demand;
mod memory;
pub(crate) mod pools;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use podloom_api::{Phase, SessionNetworkPolicy, names};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) use self::memory::WarmMemory;
use crate::cause;
use crate::pod::SeenPod;
use crate::render::{hostname, resize};

/// Which warm pods: those of one browser and version of a BrowserConfig.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct PoolId {
    /// The name of the BrowserConfig.
    pub(crate) config: String,
    /// The UID of the BrowserConfig.
    pub(crate) uid: String,
    /// The browser, as the BrowserConfig spells it.
    pub(crate) browser: String,
    /// The version, as the BrowserConfig spells it.
    pub(crate) version: String,
}

impl PoolId {
    /// Whether a pod was created for this pool. One that a session has taken has another owner.
    pub(crate) fn has(&self, pod: &SeenPod) -> bool {
        pod.controller() == Some(&self.uid)
            && pod.warm.as_ref().is_some_and(|it| {
                it.config == names::label_value(&self.config)
                    && it.browser == names::label_value(&self.browser)
                    && it.version == names::label_value(&self.version)
            })
    }

    /// Whether the pods of both have the same labels.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        names::label_value(&self.browser) == names::label_value(&other.browser)
            && names::label_value(&self.version) == names::label_value(&other.version)
    }
}

/// The warm pods that a session may take one of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FromPool {
    pub(crate) id: PoolId,
    /// How old a pod may be.
    pub(crate) max_age: Duration,
    /// What the BrowserConfig says about connections: a pod that waited behind something else is not for this session.
    pub(crate) policy: Option<SessionNetworkPolicy>,
}

/// Why a session takes no warm pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cold {
    /// None is ready, or others were faster.
    NoneReady,
    /// A warm pod cannot become that of the session, for this reason.
    Differs(String),
    /// The API server refused a patch.
    Refused(String),
}

impl fmt::Display for Cold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneReady => f.write_str("no warm pod is ready"),
            Self::Differs(sentence) | Self::Refused(sentence) => f.write_str(sentence),
        }
    }
}

/// What the pods of a pool are made from: a pod that has passed the chain, as it is sent to the API server.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) pod: Value,
    /// What the BrowserConfig says about connections.
    pub(crate) policy: Option<SessionNetworkPolicy>,
    /// The hash of both, but for names and the stamps of the chain: only pods of this recipe are given to sessions.
    pub(crate) hash: String,
    /// The hash of all that cannot change in a pod that runs: it has to be that of the session's pod.
    spec: String,
    /// Whether a pod is resized when a session takes it.
    is_small: bool,
}

impl Recipe {
    pub(crate) fn of(pod: Value, policy: Option<SessionNetworkPolicy>) -> Self {
        let whole = spec_of(&pod, false);
        let metadata = &pod["metadata"];
        let mut annotations = metadata["annotations"].clone();
        if let Some(annotations) = annotations.as_object_mut() {
            // A claim writes those of the session's pod.
            annotations.remove(names::annotation::CHAIN);
            annotations.remove(names::annotation::MUTATIONS);
        }
        let hash = short_hash(&[&whole, &metadata["labels"], &annotations, &json!(policy)]);
        Self {
            spec: short_hash(&[&whole]),
            pod,
            policy,
            hash,
            is_small: false,
        }
    }

    /// Makes it the recipe of pods that are resized when a session takes them.
    pub(crate) fn of_small_pods(self) -> Self {
        Self {
            spec: short_hash(&[&spec_of(&self.pod, true)]),
            is_small: true,
            ..self
        }
    }

    /// Returns why a warm pod cannot become this one; none if it can.
    pub(crate) fn difference(&self, pod: &Value) -> Option<String> {
        let spec = spec_of(pod, self.is_small);
        if self.spec != short_hash(&[&spec]) {
            let warm = spec_of(&self.pod, self.is_small);
            let place = differing(&warm, &spec, "spec".to_owned());
            let place = place.unwrap_or_else(|| "spec".to_owned());
            return Some(format!("{place} is not that of the warm pods"));
        }
        let obstacle = || resize::obstacle(&self.pod["spec"], &pod["spec"]);
        self.is_small.then(obstacle).flatten()
    }

    /// Returns the spec of the patch that gives a warm pod the resources of this one; none if it has them.
    pub(crate) fn for_resize(&self, pod: &Value) -> Option<Value> {
        let patch = || resize::patch(&self.pod["spec"], &pod["spec"]);
        self.is_small.then(patch).flatten()
    }
}

/// The spec of a pod, without a host name that is made from the pod's own name, and without resources if a resize changes them.
fn spec_of(pod: &Value, is_small: bool) -> Value {
    let mut spec = pod["spec"].clone();
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if spec["hostname"] == hostname(name)
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("hostname");
    }
    if is_small {
        resize::without_resources(&mut spec);
    }
    spec
}

/// Returns 32 hex digits.
fn short_hash(values: &[&Value]) -> String {
    let mut hash = Sha256::new();
    for value in values {
        hash.update(value.to_string());
        hash.update([0]);
    }
    let digest = hash.finalize();
    let bytes = digest.iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn differing(one: &Value, other: &Value, path: String) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let fields: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            fields.into_iter().find_map(|field| {
                let inner = format!("{path}.{field}");
                match (one.get(field), other.get(field)) {
                    (Some(one), Some(other)) => differing(one, other, inner),
                    _ => Some(inner),
                }
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .map(|(at, (one, other))| differing(one, other, format!("{path}[{at}]")))
                .find_map(|it| it)
        }
        _ => (one != other).then_some(path),
    }
}

/// Whether a session can take the pod: it runs, is ready, and stays.
pub(crate) fn is_ready(pod: &SeenPod) -> bool {
    pod.status.phase == Some(Phase::Running)
        && pod.metadata.deletion_timestamp.is_none()
        && pod.status.pod_ip.is_some()
        && cause::unready(pod).is_none()
        && cause::of_running(pod).is_none()
        && cause::of_disruption(pod).is_none()
}

pub(crate) fn uid(pod: &SeenPod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

pub(crate) fn version(pod: &SeenPod) -> &str {
    let metadata = &pod.metadata;
    metadata.resource_version.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
