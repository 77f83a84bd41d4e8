//! The chain as everyone sees it who has a pod: the controllers, and `podloom render`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_controllers::{
    Change, MutatedPod, Outcome, PluginRun, PodMutator, PodRequest, Refusal, Refused, Write,
};
use podloom_mutators::{
    Chain, Mutation, PluginMetrics, Rejected, RejectionCause, Request, Serving, Slot,
};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

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

    /// Plugins are foreign code and may take their time, so they run beside the tasks of the operator.
    async fn call(
        &self,
        chain: Arc<Chain>,
        pod: Value,
        request: PodRequest,
    ) -> Result<MutatedPod, Refused> {
        let (metrics, values) = (self.metrics.clone(), self.values);
        let deadline = request.deadline;
        let request = to_chain(request);
        let called = spawn_blocking(move || {
            let result = chain.mutate(pod, request);
            metrics.mutated(&result);
            match result {
                Ok(mutation) => Ok(mutated(&chain, mutation, values)),
                Err(rejected) => Err(refused(rejected, values)),
            }
        });
        let broken = |reason| Err(Refusal::Broken(reason).into());
        match within(deadline, called).await {
            Some(Ok(result)) => result,
            Some(Err(error)) => broken(format!("the chain broke: {error}")),
            None => broken("the chain was not done when the time for this pod was over".to_owned()),
        }
    }
}

impl PodMutator for ChainMutator {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, Refused>> {
        async move {
            let serving = self.slot.serving();
            match (&serving.chain, self.without_chain) {
                (Some(chain), _) => self.call(Arc::clone(chain), pod, request).await,
                (None, WithoutChain::Pass) => Ok(MutatedPod::untouched(pod)),
                (None, WithoutChain::Refuse) => Err(no_chain(&serving).into()),
            }
        }
        .boxed()
    }
}

/// None if it has not ended when the deadline is past: it may not even have begun, with all the threads for plugins taken.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline.and_then(|deadline| deadline.checked_add(GRACE)) {
        Some(deadline) => timeout_at(deadline.into(), work).await.ok(),
        None => Some(work.await),
    }
}

fn no_chain(serving: &Serving) -> Refusal {
    let reason = match &serving.failed {
        Some(failed) => failed.error.to_string(),
        None => "it is being compiled".to_owned(),
    };
    Refusal::Broken(format!("no plugin chain is loaded: {reason}"))
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

fn mutated(chain: &Chain, mutation: Mutation, values: Values) -> MutatedPod {
    MutatedPod {
        patch: mutation.patch(),
        pod: mutation.pod,
        chain: Some(chain.digest().to_owned()),
        runs: told(mutation.runs, values),
    }
}

fn refused(rejected: Rejected, values: Values) -> Refused {
    Refused {
        refusal: refusal(rejected.cause),
        runs: told(rejected.runs, values),
    }
}

fn refusal(cause: RejectionCause) -> Refusal {
    match cause {
        RejectionCause::Denied { plugin, reason } => Refusal::Denied(format!("{plugin}: {reason}")),
        RejectionCause::Failed { plugin, failure } => {
            Refusal::Broken(format!("{plugin}: {failure}"))
        }
        RejectionCause::NotAPod(_) => Refusal::Broken(cause.to_string()),
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
            Of::Mutated => Outcome::Mutated,
            Of::Unchanged => Outcome::Unchanged,
            Of::Skipped(dimension) => Outcome::Skipped(dimension.as_str()),
            Of::Ignored(failure) => Outcome::Ignored(failure.to_string()),
            Of::Denied(reason) => Outcome::Denied(reason),
            Of::Failed(failure) => Outcome::Failed(failure.to_string()),
        },
        writes: writes.collect(),
        refused_writes: run.refused_writes,
        refused_reads: run.refused_reads,
        notes: run.notes,
    }
}

#[cfg(test)]
mod tests;
