//! Ephemeral containers. No stamp tells whether they passed the chain, since the API server drops annotations of their requests. So the
//! chain is asked again what it says of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use podloom_mutation::{
    LaterChange, MutatedPod, Operation, PluginOutcome, PodRejection, PodRequest, RejectedPod,
    owner_of,
};
use podloom_mutators::Chain;
use serde_json::{Value, json};
use tracing::subscriber::{self, NoSubscriber};

use super::judge::{Judge, Pod};
use crate::mutator::try_here;
use crate::output::short;

/// How long the chain may take for one pod, for the pods of a namespace, and for all pods of a scan. The operator rests three times as
/// long, and meanwhile the API server waits with the rest of a page.
const POD: Duration = Duration::from_millis(200);
const NAMESPACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(10);
/// How often to look whether reviews still keep the processors busy.
const PAUSE: Duration = Duration::from_millis(2);
/// How many paths are named of what the chain would write, and how much is kept of what a plugin says.
const PATHS: usize = 3;
const REASON: usize = 512;

/// What is to be said of the ephemeral containers of a pod.
pub(super) enum Ephemeral {
    /// The chain would deny or change them, and how.
    Rejected(String),
    /// A plugin failed, or was not asked.
    Unclear,
}

/// Asks the chain, for as long as a look may take.
pub(super) struct Reviewer<'j> {
    judge: &'j Judge,
    chain: &'j Chain,
    /// By namespace.
    took: HashMap<String, Duration>,
    left: Duration,
}

impl<'j> Reviewer<'j> {
    pub(super) fn new(judge: &'j Judge, chain: &'j Chain) -> Self {
        Self {
            judge,
            chain,
            took: HashMap::new(),
            left: LOOK,
        }
    }

    /// None if the pod has no ephemeral containers, or if the chain would let them pass as they are.
    pub(super) fn review(&mut self, pod: &Pod<'_>) -> Option<Ephemeral> {
        let containers = pod.0.pointer("/spec/ephemeralContainers")?;
        if pod.is_left_out() {
            return None;
        }
        let took = self.took.entry(pod.namespace().to_owned()).or_default();
        match self.judge.is_asked(Operation::EphemeralContainers, pod) {
            Ok(true) if !self.left.is_zero() && *took < NAMESPACE => {}
            Ok(false) => return None,
            Ok(true) | Err(_) => return Some(Ephemeral::Unclear),
        }
        let began = Instant::now();
        let result = ask(self.judge, self.chain, pod, containers);
        *took += began.elapsed();
        self.left = self.left.saturating_sub(began.elapsed());
        match result? {
            Ok(passed) => says(self.chain, &passed),
            Err(rejected) => Some(match rejected.rejection {
                PodRejection::Denied(_) => {
                    let reason = rejected.to_string();
                    Ephemeral::Rejected(short(&reason, REASON, "…").into_owned())
                }
                _ => Ephemeral::Unclear,
            }),
        }
    }
}

/// What the chain makes of the pod if it gets these containers now, as the webhook would ask; none if there are none.
fn ask(
    judge: &Judge,
    chain: &Chain,
    pod: &Pod<'_>,
    containers: &Value,
) -> Option<Result<MutatedPod, RejectedPod>> {
    let mut before = pod.0.clone();
    // In a list, the API server leaves out the first two.
    before["apiVersion"] = json!("v1");
    before["kind"] = json!("Pod");
    for (of, field) in [
        ("metadata", "managedFields"),
        ("spec", "ephemeralContainers"),
    ] {
        before.get_mut(of)?.as_object_mut()?.remove(field);
    }
    let new = json!({ "spec": { "ephemeralContainers": containers } });
    let (later, after) = LaterChange::of(Operation::EphemeralContainers, &before, new)?;
    drop(before);
    let deadline = Instant::now() + POD;
    while chain.is_busy() && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
    let namespace = pod.namespace();
    let mut request = PodRequest {
        name: pod.name().to_owned(),
        namespace: namespace.to_owned(),
        owner: owner_of(&after, namespace),
        later: Some(Arc::new(later)),
        dry_run: true,
        deadline: Some(deadline),
        ..PodRequest::of_pod(&after)
    };
    request.exceptions = judge.exceptions.of(&after, &request);
    let is_read = !judge.is_unread(namespace);
    let about = is_read.then(|| judge.namespaces.get(namespace));
    // The log is about what happens to pods, and nothing of this does.
    let _silent = subscriber::set_default(NoSubscriber::default());
    Some(try_here(chain, after, request.of_namespace(about)))
}

/// What is to be said of a pod that the chain lets pass; none if it changes nothing.
fn says(chain: &Chain, passed: &MutatedPod) -> Option<Ephemeral> {
    let runs = passed.runs.iter();
    if runs
        .clone()
        .any(|it| matches!(it.outcome, PluginOutcome::Ignored(_)))
    {
        return Some(Ephemeral::Unclear);
    }
    // Others would write again what they wrote when the container came.
    let idempotent = chain.plugins().iter().filter(|it| it.idempotent);
    let writes = runs.filter(|run| idempotent.clone().any(|it| it.name == run.plugin));
    let writes = writes.flat_map(|run| {
        let writes = run.writes.iter();
        writes.map(|write| format!("plugin {} would write {}", run.plugin, write.path))
    });
    let writes: Vec<String> = writes.take(PATHS).collect();
    let reason = writes.join(", ");
    (!writes.is_empty()).then(|| Ephemeral::Rejected(short(&reason, REASON, "…").into_owned()))
}
