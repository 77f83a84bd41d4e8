//! Ephemeral containers. No stamp tells whether they passed the chain, since the API server drops annotations of their requests. So the
//! chain is asked again what it says of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use podloom_mutation::{
    LaterChange, Operation, PluginOutcome, PluginRun, PodRejection, PodRequest,
};
use serde_json::Value;

use super::judge::{Judge, Pod};
use super::webhook::Asked;

/// How long the chain may take for one pod, and for all pods of a look.
const POD: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(20);
/// How many paths are named of what the chain would write.
const PATHS: usize = 3;

/// What is to be said of the ephemeral containers of a pod.
pub(super) enum Ephemeral {
    /// The chain would deny or change them, and how.
    Missed(String),
    Unclear,
}

/// Tries ephemeral containers, for as long as a look may take.
pub(super) struct Trial<'j> {
    judge: &'j Judge,
    left: Duration,
}

impl<'j> Trial<'j> {
    pub(super) fn new(judge: &'j Judge) -> Self {
        Self { judge, left: LOOK }
    }

    /// None if the pod has no ephemeral containers, or if the chain would let them pass as they are.
    pub(super) fn of(&mut self, pod: &Pod<'_>) -> Option<Ephemeral> {
        let expected = self.judge.expected.as_ref()?;
        let chain = expected.chain.as_ref().filter(|it| it.takes_updates())?;
        if pod.0.pointer("/spec/ephemeralContainers").is_none() || pod.is_left_out() {
            return None;
        }
        let mut before = pod.0.clone();
        let spec = before.get_mut("spec").and_then(Value::as_object_mut)?;
        spec.remove("ephemeralContainers");
        let change = LaterChange::of(Operation::EphemeralContainers, &before, pod.0.clone());
        let (later, after) = change?;
        match self.judge.is_asked(Asked::Ephemeral, pod) {
            Ok(true) if !self.left.is_zero() => {}
            Ok(false) => return None,
            Ok(true) | Err(_) => return Some(Ephemeral::Unclear),
        }
        let began = Instant::now();
        let namespace = pod.namespace();
        let request = PodRequest {
            kind: "Pod",
            namespace: namespace.to_owned(),
            is_namespace_unread: self.judge.is_unread(namespace),
            later: Some(Arc::new(later)),
            dry_run: true,
            deadline: Some(began + POD.min(self.left)),
            ..PodRequest::of_pod(pod.0)
        };
        let request = request.of_namespace(Some(self.judge.namespaces.get(namespace)));
        let result = chain.mutate(after, request);
        self.left = self.left.saturating_sub(began.elapsed());
        match result {
            Ok(passed) if passed.runs.iter().any(has_failed) => Some(Ephemeral::Unclear),
            Ok(passed) => {
                let writes = passed.runs.iter().flat_map(|run| {
                    let writes = run.writes.iter();
                    writes.map(|write| format!("{} would write {}", run.plugin, write.path))
                });
                let writes: Vec<String> = writes.take(PATHS).collect();
                (!writes.is_empty()).then(|| Ephemeral::Missed(writes.join(", ")))
            }
            Err(rejected) => Some(match rejected.rejection {
                PodRejection::Denied(_) => Ephemeral::Missed(rejected.to_string()),
                _ => Ephemeral::Unclear,
            }),
        }
    }
}

/// Under the policy Ignore, a pod passes a plugin that failed.
fn has_failed(run: &PluginRun) -> bool {
    matches!(run.outcome, PluginOutcome::Failed(_))
}
