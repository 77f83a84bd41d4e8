//! Warm pods: pods of a BrowserConfig that run before anybody asks for them, and wait for a session.
//!
//! The BrowserConfig's controller keeps them (`keep` says how many, `config/make.rs` makes them). A Browser takes one in place of creating
//! a pod (`act/take.rs`): if, and only if, the pod that would be created for it has the very same spec. So whatever a session, its options,
//! the configuration or the chain ask for, a warm pod is what a new one would be.

mod demand;
pub(crate) mod keep;
mod memory;

use std::collections::BTreeSet;

use podloom_api::{Phase, names};
use podloom_engine::cache::Watch;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use self::memory::WarmMemory;
use crate::cause;
use crate::pod::SeenPod;

/// The warm pods of one browser and version of a BrowserConfig.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pool {
    /// The name of the BrowserConfig.
    pub(crate) config: String,
    /// The UID of the BrowserConfig.
    pub(crate) uid: String,
    /// The browser, as the BrowserConfig spells it.
    pub(crate) browser: String,
    /// The version, as the BrowserConfig spells it.
    pub(crate) version: String,
}

impl Pool {
    /// Whether a pod was made for this pool. One that a session has taken has another owner.
    pub(crate) fn has(&self, pod: &SeenPod) -> bool {
        pod.controller() == Some(&self.uid)
            && pod.warm.as_ref().is_some_and(|it| {
                it.browser == names::label_value(&self.browser)
                    && it.version == names::label_value(&self.version)
            })
    }
}

/// What the pods of a pool are made from: a pod that has passed the chain, as it is sent to the API server.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) pod: Value,
    /// The hash of the whole pod, but for its names: only pods of this recipe are given to sessions.
    pub(crate) hash: String,
    /// The hash of all that cannot change in a pod that runs: it has to be that of the session's pod.
    pub(crate) spec: String,
}

impl Recipe {
    /// Returns that of a pod, which waits behind a NetworkPolicy or not.
    pub(crate) fn of(pod: Value, is_guarded: bool) -> Self {
        let spec = hash_of_spec(&pod);
        let metadata = &pod["metadata"];
        let hash = short_hash(&[
            &spec,
            &is_guarded.to_string(),
            &metadata["labels"].to_string(),
            &metadata["annotations"].to_string(),
        ]);
        Self { pod, hash, spec }
    }
}

/// Returns the hash of a spec, but for the host name, which is the pod's own in any case.
pub(crate) fn hash_of_spec(pod: &Value) -> String {
    let fields = pod["spec"].as_object().into_iter().flatten();
    let fields = fields.filter(|(field, _)| *field != "hostname");
    let texts: Vec<_> = fields
        .map(|(field, value)| format!("{field}:{value}"))
        .collect();
    short_hash(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns 32 hex digits.
fn short_hash(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    let digest = hash.finalize();
    let bytes = digest.iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the first place where a pod differs from a warm one in what cannot change.
pub(crate) fn difference(warm: &Value, pod: &Value) -> Option<String> {
    let spec = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        spec.as_object_mut()?.remove("hostname");
        Some(spec)
    };
    differing(&spec(warm)?, &spec(pod)?, "spec".to_owned())
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

/// Pods that wait are watched apart from those of sessions: once a session takes one, it has another label.
pub(crate) fn watch_of_warm_pods() -> Watch<SeenPod> {
    Watch {
        label: names::label::WARM,
        ..Watch::of("Pod", "warm Pods")
    }
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
