//! What one chain makes of one pod.

use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod};
use serde_json::{Map, Value};

use crate::stamp;

/// What one chain makes of one pod.
#[derive(Clone)]
pub(crate) enum Outcome {
    /// The pod is admitted.
    Admitted(Admitted),
    /// The pod is rejected.
    Rejected(Rejection),
}

/// A pod that a chain let pass.
#[derive(Clone)]
pub(crate) struct Admitted {
    /// Without the chain's stamp.
    pub(crate) pod: Value,
    pub(crate) runs: Vec<PluginRun>,
}

/// Why a chain rejects a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rejection {
    /// Whether a plugin denied it; if not, a plugin failed.
    pub(crate) is_denial: bool,
    /// None if no plugin is to blame.
    pub(crate) plugin: Option<String>,
    /// The plugin's own reason.
    pub(crate) reason: String,
}

impl Outcome {
    pub(crate) fn of(result: Result<MutatedPod, RejectedPod>) -> Self {
        match result {
            Ok(MutatedPod { mut pod, runs, .. }) => {
                remove_stamp(&mut pod);
                Self::Admitted(Admitted { pod, runs })
            }
            Err(rejected) => Self::Rejected(Rejection::of(rejected)),
        }
    }
}

impl Rejection {
    fn of(rejected: RejectedPod) -> Self {
        let last = rejected.runs.into_iter().last();
        let (is_denial, plugin, reason) = match last.map(|run| (run.plugin, run.outcome)) {
            Some((plugin, PluginOutcome::Denied(reason))) => (true, Some(plugin), reason),
            Some((plugin, PluginOutcome::Failed(failure))) => {
                (false, Some(plugin), failure.to_string())
            }
            _ => (false, None, rejected.rejection.message().to_owned()),
        };
        Self {
            is_denial,
            plugin,
            reason,
        }
    }
}

/// Removes what is different between any two chains: their stamps, and what was only made to hold them. managedFields go too, which
/// a chain drops, and which no answer touches.
fn remove_stamp(pod: &mut Value) {
    stamp::remove(pod);
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    if annotations.is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
    if metadata.is_empty()
        && let Some(pod) = pod.as_object_mut()
    {
        pod.remove("metadata");
    }
}
