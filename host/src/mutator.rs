//! The chain as everyone sees it who has a pod: the controllers, and `podloom render`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_controllers::{
    Change, MutatedPod, PluginOutcome, PluginRun, PodMutator, PodRejection, PodRequest,
    RejectedPod, Write,
};
use podloom_mutators::{
    Chain, Mutation, PluginMetrics, Rejected, RejectionCause, Request, Serving, Slot,
};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout_at;
use tracing::Span;

/// How long the plugin that a deadline interrupts has to end, so that what it did is told.
const GRACE: Duration = Duration::from_millis(50);

/// Passes pods through the chain that serves.
pub(crate) struct ChainMutator {
    pub(crate) slot: Arc<Slot>,
    pub(crate) metrics: PluginMetrics,
    pub(crate) without_chain: WithoutChain,
    pub(crate) values: Values,
}

/// What becomes of pods while no chain is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutChain {
    /// They are refused, and tried again later.
    Refuse,
    /// They are created as they were rendered.
    Pass,
}

/// What is told of the values that plugins wrote, which may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Nothing, though the pod and the patch have the new ones.
    Withheld,
    /// Old and new, for a diff.
    Told,
}

impl ChainMutator {
    /// With a chain of its own, or none, which nobody swaps and nobody counts; for the user's own eyes.
    pub(crate) fn of(chain: Option<Chain>) -> Self {
        let slot = Slot::default();
        if let Some(chain) = chain {
            slot.swap(Arc::new(chain));
        }
        Self {
            slot: Arc::new(slot),
            metrics: PluginMetrics::register(&mut Registry::default()),
            without_chain: WithoutChain::Pass,
            values: Values::Told,
        }
    }

    /// As [`mutate`](PodMutator::mutate), which tells no fault of ours from that of a plugin.
    pub(crate) async fn pass(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, Broke> {
        let serving = self.slot.serving();
        match (&serving.chain, self.without_chain) {
            (Some(chain), _) => self.call(Arc::clone(chain), pod, request).await,
            (None, WithoutChain::Pass) => Ok(Ok(MutatedPod {
                patch: request.wants_patch.then(|| "[]".to_owned()),
                ..MutatedPod::untouched(pod)
            })),
            (None, WithoutChain::Refuse) => Ok(Err(no_chain(&serving).into())),
        }
    }

    /// Plugins are foreign code and may take their time, so they run beside the tasks of the operator.
    async fn call(
        &self,
        chain: Arc<Chain>,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, Broke> {
        let (metrics, values) = (self.metrics.clone(), self.values);
        let (deadline, wants_patch) = (request.deadline, request.wants_patch);
        let request = to_chain(request);
        let called = beside(deadline, move || {
            let result = chain.mutate(pod, request);
            metrics.mutated(&result);
            match result {
                Ok(mutation) => mutated(&chain, mutation, values, wants_patch),
                Err(rejected) => Err(rejected_pod(rejected, values)),
            }
        });
        let overdue = "the chain was not done when the time for this pod was over";
        let result = called.await?;
        Ok(result.unwrap_or_else(|| Err(PodRejection::Broken(overdue.to_owned()).into())))
    }
}

/// The chain panicked, which is no fault of a plugin or of the pod.
#[derive(Debug, thiserror::Error)]
#[error("the chain broke: {0}")]
pub(crate) struct Broke(#[from] JoinError);

impl PodMutator for ChainMutator {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async move {
            match self.pass(pod, request).await {
                Ok(result) => result,
                Err(broke) => Err(PodRejection::Broken(broke.to_string()).into()),
            }
        }
        .boxed()
    }
}

/// Works on a thread that may block. None if it has not ended when the deadline is past: it may not even have begun, with all
/// the threads for plugins taken, and then it never does.
async fn beside<T: Send + 'static>(
    deadline: Option<Instant>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, JoinError> {
    let end = deadline.and_then(|deadline| deadline.checked_add(GRACE));
    let is_over = move || end.is_some_and(|end| Instant::now() >= end);
    // Spans do not follow work to another thread by themselves.
    let span = Span::current();
    let mut worked = spawn_blocking(move || (!is_over()).then(|| span.in_scope(work)));
    let Some(end) = end else { return worked.await };
    if let Ok(result) = timeout_at(end.into(), &mut worked).await {
        return result;
    }
    // What waits for a thread leaves the queue; what runs ends by the chain's own deadline.
    worked.abort();
    Ok(None)
}

fn no_chain(serving: &Serving) -> PodRejection {
    let reason = match &serving.failed {
        Some(failed) => failed.error.to_string(),
        None => "it is being compiled".to_owned(),
    };
    PodRejection::Broken(format!("no plugin chain is loaded: {reason}"))
}

/// The request as plugins may ask about it.
pub(crate) fn to_chain(request: PodRequest) -> Request {
    Request {
        kind: request.kind.to_owned(),
        name: request.name,
        namespace: request.namespace,
        labels: request.labels,
        annotations: request.annotations,
        namespace_labels: request.namespace_labels,
        namespace_annotations: request.namespace_annotations,
        dry_run: request.dry_run,
        selector: request.selector,
        deadline: request.deadline,
    }
}

fn mutated(
    chain: &Chain,
    mutation: Mutation,
    values: Values,
    wants_patch: bool,
) -> Result<MutatedPod, RejectedPod> {
    let patch = wants_patch.then(|| mutation.patch());
    let runs = told(mutation.runs, values);
    if matches!(patch, Some(None)) {
        let reason = "what the plugins wrote is too long for a patch".to_owned();
        let rejection = PodRejection::Broken(reason);
        return Err(RejectedPod { rejection, runs });
    }
    Ok(MutatedPod {
        patch: patch.flatten(),
        pod: mutation.pod,
        chain: Some(chain.digest().to_owned()),
        runs,
    })
}

fn rejected_pod(rejected: Rejected, values: Values) -> RejectedPod {
    RejectedPod {
        rejection: rejection(rejected.cause),
        runs: told(rejected.runs, values),
    }
}

fn rejection(cause: RejectionCause) -> PodRejection {
    match cause {
        RejectionCause::Denied { plugin, reason } => {
            PodRejection::Denied(format!("{plugin}: {reason}"))
        }
        RejectionCause::Failed { plugin, failure } => {
            PodRejection::Broken(format!("{plugin}: {failure}"))
        }
        RejectionCause::NotAPod(_) => PodRejection::Broken(cause.to_string()),
    }
}

fn told(runs: Vec<podloom_mutators::PluginRun>, values: Values) -> Vec<PluginRun> {
    runs.into_iter().map(|run| run_told(run, values)).collect()
}

/// What a plugin did, in the words that all share.
pub(crate) fn run_told(run: podloom_mutators::PluginRun, values: Values) -> PluginRun {
    use podloom_mutators::Outcome as Of;
    let writes = run.writes.into_iter().map(|write| Write {
        path: write.path,
        change: (values == Values::Told).then_some(Change {
            old: write.old,
            new: write.new,
        }),
    });
    PluginRun {
        plugin: run.plugin,
        version: run.version,
        outcome: match run.outcome {
            Of::Mutated => PluginOutcome::Mutated,
            Of::Unchanged => PluginOutcome::Unchanged,
            Of::Skipped(dimension) => PluginOutcome::Skipped(dimension.as_str()),
            Of::Ignored(failure) => PluginOutcome::Ignored(failure.to_string()),
            Of::Denied(reason) => PluginOutcome::Denied(reason),
            Of::Failed(failure) => PluginOutcome::Failed(failure.to_string()),
        },
        writes: writes.collect(),
        refused_writes: run.refused_writes,
        refused_reads: run.refused_reads,
        notes: run.notes,
    }
}

#[cfg(test)]
mod tests;
