//! Passes pods through the plugin chain, for the controllers and for `podloom render`.

mod convert;
mod lane;
mod recent;
mod turns;
mod witness;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_controllers::{MutatedPod, PodMutator, PodRejection, PodRequest, RejectedPod, TRACES};
use podloom_mutators::{
    CallFailure, Chain, Mutation, PluginMetrics, Progress, Rejected, Request, Serving, Slot,
};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout_at;
use tracing::{Instrument, Span};

pub(crate) use self::convert::convert_run;
use self::convert::{convert_runs, rejection};
pub(crate) use self::lane::FastLane;
use self::lane::SLICE;
use self::recent::Passing;
pub(crate) use self::recent::{RecentPod, RecentPods};
pub(crate) use self::turns::InTurns;
pub(crate) use self::witness::{Seen, Witness};
use crate::traces;

/// How long an interrupted plugin may still run after the deadline. With it the result lists what the plugin did.
const GRACE: Duration = Duration::from_millis(50);

/// Passes pods through the active chain.
pub(crate) struct ChainMutator {
    pub(crate) slot: Arc<Slot>,
    pub(crate) metrics: PluginMetrics,
    pub(crate) no_chain_policy: NoChainPolicy,
    pub(crate) values: Values,
    /// Which calls begin on the caller's own thread.
    pub(crate) lane: Arc<FastLane>,
    /// Sees what the chain makes of each pod, if anybody wants to know.
    pub(crate) witness: Option<Arc<Witness>>,
    /// Remembers the latest pods, if there is a console that shows them.
    pub(crate) recent: Option<Arc<RecentPods>>,
}

/// What happens to pods while no chain is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoChainPolicy {
    /// They are rejected; the controllers try again later.
    Reject,
    /// They are created as rendered.
    PassThrough,
}

/// Whether the result lists the old and new values of each write. They may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// No. Only the pod and the patch contain the new values.
    Hidden,
    /// Yes, for a diff.
    Shown,
}

impl ChainMutator {
    /// For a command: a fixed chain or none, no metrics, and values shown.
    pub(crate) fn of(chain: Option<Chain>) -> Self {
        let slot = Slot::default();
        if let Some(chain) = chain {
            slot.swap(Arc::new(chain));
        }
        Self {
            slot: Arc::new(slot),
            metrics: PluginMetrics::register(&mut Registry::default()),
            no_chain_policy: NoChainPolicy::PassThrough,
            values: Values::Shown,
            lane: Arc::default(),
            witness: None,
            recent: None,
        }
    }

    /// Like [`mutate`](PodMutator::mutate), but a panic of the chain is an error of its own.
    pub(crate) async fn pass(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, ChainPanicked> {
        let Some(recent) = &self.recent else {
            return self.pass_by(pod, request).await;
        };
        let passing = Passing::begin(&request);
        let result = self.pass_by(pod, request).await;
        recent.add(passing, result.as_ref().ok());
        result
    }

    /// Passes the pod through the chain, or what there is without one.
    async fn pass_by(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, ChainPanicked> {
        let serving = self.slot.serving();
        if serving.chain.is_none() && self.no_chain_policy == NoChainPolicy::Reject {
            return Ok(Err(no_chain(&serving).into()));
        }
        let writes_labels = |chain: &Arc<Chain>| chain.writes_labels();
        if request.is_selector_unread && serving.chain.as_ref().is_some_and(writes_labels) {
            let swapped = "a chain that writes labels was loaded while the pod waited";
            return Ok(Err(PodRejection::Overdue(swapped.to_owned()).into()));
        }
        let witness = self.witness.as_ref();
        let seen = witness.and_then(|witness| witness.look(&pod, &request));
        let result = match &serving.chain {
            Some(chain) => {
                let (kind, digest) = (request.kind, chain.digest());
                let step = tracing::trace_span!(target: TRACES, "chain", kind, chain = digest);
                let called = self.call(Arc::clone(chain), pod, request);
                called.instrument(step).await?
            }
            None => Ok(MutatedPod {
                patch: request.wants_patch.then(|| "[]".to_owned()),
                ..MutatedPod::untouched(pod)
            }),
        };
        if let Some(seen) = seen {
            seen.hand_on(serving.chain.as_deref(), &result);
        }
        Ok(result)
    }

    /// Passes the pod through the chain: on this thread for a moment, if the chain is fast, and otherwise on a blocking thread, since
    /// plugins are foreign code and may be slow.
    async fn call(
        &self,
        chain: Arc<Chain>,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, ChainPanicked> {
        let wanted = Wanted {
            values: self.values,
            patch: request.wants_patch,
        };
        let deadline = request.deadline;
        let mut pass = match chain.begin(pod, to_chain(request)) {
            Ok(pass) => pass,
            Err(rejected) => return Ok(wanted.of(&chain, Err(rejected))),
        };
        if self.lane.is_open() {
            let pause = Instant::now() + SLICE;
            match guarded(|| chain.proceed(pass, Some(pause)))? {
                Progress::Ended(result) => {
                    self.metrics.mutated(&result);
                    traces::ran(&result);
                    return guarded(|| wanted.of(&chain, result));
                }
                Progress::Paused(paused) => pass = paused,
            }
            self.lane.close();
        }
        let metrics = self.metrics.clone();
        let rest = move || {
            guarded(|| {
                let result = chain.finish(pass);
                metrics.mutated(&result);
                traces::ran(&result);
                wanted.of(&chain, result)
            })
        };
        let called = on_blocking_thread(deadline, rest).await;
        match called.map_err(|error| ChainPanicked(error.to_string()))? {
            Some(result) => result,
            None => {
                let overdue = "the chain did not finish before the deadline of this pod";
                Ok(Err(PodRejection::Overdue(overdue.to_owned()).into()))
            }
        }
    }
}

/// What a chain made of a pod for which nobody waits.
pub(crate) struct Tried {
    pub(crate) result: Result<MutatedPod, RejectedPod>,
    /// Whether a plugin ran longer than its limit.
    pub(crate) has_timed_out: bool,
}

/// Passes a pod through a chain on this thread, however long that takes. Blocks until then.
pub(crate) fn try_here(chain: &Chain, pod: Value, request: Request) -> Tried {
    let wanted = Wanted {
        values: Values::Hidden,
        patch: false,
    };
    let tried = guarded(|| {
        let result = chain.mutate(pod, request);
        Tried {
            has_timed_out: has_timed_out(&result),
            result: wanted.of(chain, result),
        }
    });
    tried.unwrap_or_else(|panicked| Tried {
        result: Err(PodRejection::Broken(panicked.to_string()).into()),
        has_timed_out: false,
    })
}

fn has_timed_out(result: &Result<Mutation, Rejected>) -> bool {
    use podloom_mutators::RunOutcome as Of;
    let runs = match result {
        Ok(mutation) => &mutation.runs,
        Err(rejected) => &rejected.runs,
    };
    let mut outcomes = runs.iter().map(|run| &run.outcome);
    outcomes.any(|outcome| {
        let (Of::Ignored(failure) | Of::Failed(failure)) = outcome else {
            return false;
        };
        matches!(failure, CallFailure::TimedOut { .. })
    })
}

/// Runs work of the chain.
///
/// # Errors
/// The message of its panic.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, ChainPanicked> {
    // Nobody sees what the work has left behind: it owns all that it changes.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        ChainPanicked(text.unwrap_or("no message").to_owned())
    })
}

/// The chain panicked: a bug of Podloom, not of a plugin or of the pod.
#[derive(Debug, thiserror::Error)]
#[error("the chain panicked, which is a bug of podloom: {0}")]
pub(crate) struct ChainPanicked(pub(crate) String);

impl PodMutator for ChainMutator {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async move {
            match self.pass(pod, request).await {
                Ok(result) => result,
                Err(panicked) => Err(PodRejection::Broken(panicked.to_string()).into()),
            }
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        let serving = self.slot.serving();
        Some(serving.chain.as_ref()?.digest().to_owned())
    }

    fn writes_labels(&self) -> bool {
        let serving = self.slot.serving();
        let mut chain = serving.chain.iter();
        chain.any(|chain| chain.writes_labels())
    }
}

/// Runs work on a blocking thread. Returns none if it did not finish before the deadline. Work that had to wait for a thread until
/// then never starts.
async fn on_blocking_thread<T: Send + 'static>(
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
    // Work that waits for a thread leaves the queue; running work ends by the chain's own deadline.
    worked.abort();
    Ok(None)
}

fn no_chain(serving: &Serving) -> PodRejection {
    let reason = match &serving.failed {
        Some(failed) => failed.error.to_string(),
        None => "it is still being compiled".to_owned(),
    };
    PodRejection::Broken(format!("no plugin chain is loaded: {reason}"))
}

/// The request, as plugins can read it.
pub(crate) fn to_chain(request: PodRequest) -> Request {
    Request {
        kind: request.kind.to_owned(),
        name: request.name,
        namespace: request.namespace,
        labels: request.labels,
        annotations: request.annotations,
        namespace_labels: request.namespace_labels,
        namespace_annotations: request.namespace_annotations,
        is_namespace_unread: request.is_namespace_unread,
        dry_run: request.dry_run,
        selector: request.selector,
        deadline: request.deadline,
        peer: request.peer,
    }
}

/// What the caller wants to know of a pod that came to its end.
#[derive(Clone, Copy)]
struct Wanted {
    values: Values,
    patch: bool,
}

impl Wanted {
    fn of(
        self,
        chain: &Chain,
        result: Result<Mutation, Rejected>,
    ) -> Result<MutatedPod, RejectedPod> {
        let mutation = result.map_err(|rejected| rejected_pod(rejected, self.values))?;
        let patch = self.patch.then(|| mutation.patch());
        let runs = convert_runs(mutation.runs, self.values);
        if matches!(patch, Some(None)) {
            let reason = "the plugins wrote too much for one patch".to_owned();
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
}

fn rejected_pod(rejected: Rejected, values: Values) -> RejectedPod {
    RejectedPod {
        rejection: rejection(rejected.cause),
        runs: convert_runs(rejected.runs, values),
    }
}

#[cfg(test)]
mod tests;
