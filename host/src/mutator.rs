//! Passes pods through the plugin chain, for the controllers and for `podloom render`.

mod recent;
mod split;
mod witness;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_engine::TRACES;
use podloom_mutation::{MutatedPod, Operation, PodMutator, PodRejection, PodRequest, RejectedPod};
use podloom_mutators::{Chain, PluginMetrics, Progress, Serving, Slot, Values};
use podloom_webhook::PeerTurns;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout_at;
use tracing::{Instrument, Span};

pub(crate) use self::recent::{RecentPod, RecentPods};
pub(crate) use self::split::{Chains, Split};
pub(crate) use self::witness::{Seen, Witness};
use crate::exceptions::Exceptions;
use crate::reports::Notes;
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
    /// Sends pods through one of two chains, if a candidate may be rolled out.
    pub(crate) split: Option<Arc<Split>>,
    /// Remembers the latest pods, if there is a console that shows them.
    pub(crate) recent: Option<Arc<RecentPods>>,
    /// Which plugins let which pods pass; none if nobody asks about exceptions.
    pub(crate) exceptions: Option<Arc<Exceptions>>,
    /// Notes which pods are rejected, if there are reports that say so.
    pub(crate) notes: Option<Arc<Notes>>,
}

/// What happens to pods while no chain is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoChainPolicy {
    /// They are rejected; the controllers try again later.
    Reject,
    /// They are created as rendered.
    PassThrough,
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
            split: None,
            recent: None,
            notes: None,
            exceptions: None,
        }
    }

    /// Like [`mutate`](PodMutator::mutate), but a panic of the chain is an error of its own.
    pub(crate) async fn pass(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, ChainPanicked> {
        let recent = self.recent.as_ref();
        let recent = recent.map(|recent| (recent, RecentPod::of(&request), Instant::now()));
        // Reports are about pods that are not created. Nobody gets that of a dry run, and one that changes is there already; but if a plugin
        // denies a session its pod (CLAIM), the session has none.
        let notes = self.notes.as_ref();
        let later = request.later.as_ref();
        let is_new = later.is_none_or(|it| it.operation == Operation::Claim);
        let notes = notes.filter(|_| !request.dry_run && is_new);
        let notes = notes.map(|it| (it, request.namespace.clone(), request.owner.clone()));
        let result = self.pass_by(pod, request).await;
        if let Some((recent, pod, began)) = recent {
            recent.add(pod, began, result.as_ref().ok());
        }
        if let Some(((notes, namespace, owner), result)) = notes.zip(result.as_ref().ok()) {
            notes.passed((&namespace, &owner), result);
        }
        result
    }

    /// Passes the pod through the chain, or what there is without one.
    async fn pass_by(
        &self,
        pod: Value,
        mut request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, ChainPanicked> {
        if let Some(exceptions) = &self.exceptions {
            request.exceptions = exceptions.of(&pod, &request);
        }
        let serving = self.slot.serving();
        if serving.chain.is_none() && self.no_chain_policy == NoChainPolicy::Reject {
            return Ok(Err(no_chain(&serving).into()));
        }
        let picked = self.split.as_ref();
        let picked = picked.and_then(|split| split.pick(&serving, &request));
        let chain = picked.as_ref().map(|picked| &picked.chain);
        let chain = chain.or(serving.chain.as_ref()).map(Arc::clone);
        let writes_labels = |chain: &Arc<Chain>| chain.writes_labels();
        if request.is_selector_unread && chain.as_ref().is_some_and(writes_labels) {
            let swapped = "a chain that writes labels was loaded while the pod waited";
            return Ok(Err(PodRejection::Overdue(swapped.to_owned()).into()));
        }
        let witness = self.witness.as_ref();
        let seen = witness.and_then(|witness| witness.look(&pod, &request));
        let result = match &chain {
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
        if let Some(picked) = picked {
            picked.count(&result);
        }
        if let Some(seen) = seen {
            seen.hand_on(chain.as_deref(), &result);
        }
        Ok(result)
    }

    /// The chains that the next pod may pass.
    fn chains(&self) -> Vec<Arc<Chain>> {
        let serving = self.slot.serving();
        let split = self.split.as_ref();
        let candidate = split.and_then(|split| split.some(&serving));
        serving.chain.clone().into_iter().chain(candidate).collect()
    }

    /// Passes the pod through the chain: on this thread for a moment, if the chain is fast, and otherwise on a blocking thread, since
    /// plugins are foreign code and may be slow.
    async fn call(
        &self,
        chain: Arc<Chain>,
        pod: Value,
        request: PodRequest,
    ) -> Result<Result<MutatedPod, RejectedPod>, ChainPanicked> {
        let deadline = request.deadline;
        let mut pass = match chain.begin(pod, request, self.values) {
            Ok(pass) => pass,
            Err(rejected) => return Ok(Err(rejected)),
        };
        if self.lane.is_open() {
            for _ in 0..SLICES {
                let pause = Instant::now() + SLICE;
                match guarded(|| chain.proceed(pass, Some(pause)))? {
                    Progress::Ended(result) => return Ok(counted(&self.metrics, result)),
                    Progress::Paused(paused) => pass = paused,
                }
            }
            self.lane.close();
        }
        let metrics = self.metrics.clone();
        let rest = move || guarded(|| counted(&metrics, chain.finish(pass)));
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

/// Tells metrics and traces what became of a pod.
fn counted(
    metrics: &PluginMetrics,
    result: Result<MutatedPod, RejectedPod>,
) -> Result<MutatedPod, RejectedPod> {
    metrics.mutated(&result);
    traces::ran(&result);
    result
}

/// Passes a pod for which nobody waits through a chain on this thread, however long that takes. Blocks until then.
pub(crate) fn try_here(
    chain: &Chain,
    pod: Value,
    request: PodRequest,
) -> Result<MutatedPod, RejectedPod> {
    let pass = || chain.finish(chain.begin(pod, request, Values::Hidden)?);
    guarded(pass).unwrap_or_else(|panicked| Err(panicked.into()))
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

impl From<ChainPanicked> for RejectedPod {
    fn from(panicked: ChainPanicked) -> Self {
        PodRejection::Broken(panicked.to_string()).into()
    }
}

impl PodMutator for ChainMutator {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async move {
            let passed = self.pass(pod, request).await;
            passed.unwrap_or_else(|panicked| Err(panicked.into()))
        }
        .boxed()
    }

    /// During a rollout, that of the serving chain, until every pod passes the candidate.
    fn chain(&self) -> Option<String> {
        let serving = self.slot.serving();
        let split = self.split.as_ref();
        let candidate = split.and_then(|split| split.all(&serving));
        let chain = candidate.or_else(|| serving.chain.clone())?;
        Some(chain.digest().to_owned())
    }

    fn serves(&self, digest: &str) -> bool {
        let serving = self.slot.serving();
        let is_serving = serving
            .chain
            .as_ref()
            .is_some_and(|it| it.digest() == digest);
        let mut split = self.split.iter();
        is_serving || split.any(|split| split.serves(&serving, digest))
    }

    fn takes_updates(&self) -> bool {
        let chains = self.chains();
        chains.is_empty() || chains.iter().any(|chain| chain.takes_updates())
    }

    fn takes_claims(&self) -> bool {
        self.chains().iter().any(|chain| chain.takes_claims())
    }

    fn writes_labels(&self) -> bool {
        self.chains().iter().any(|chain| chain.writes_labels())
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

/// How long a call may hold the caller's thread before it is interrupted. Fast chains take a tenth of it.
const SLICE: Duration = Duration::from_millis(2);
/// How often it may. On a busy machine, the first slice often goes to another process; the interrupted plugin then begins again.
const SLICES: usize = 2;
/// After a slow call, so many calls begin on blocking threads.
const CAREFUL: usize = 256;

/// Decides which calls of the chain begin on the caller's own thread.
///
/// To switch to a blocking thread and back costs as much as fast plugins take. So while the chain is fast, its calls begin where their
/// callers are: on the threads of the runtime. A plugin that takes long there would hold up other tasks, so it is interrupted after a
/// moment and goes on on a blocking thread, where the next calls then begin at once.
#[derive(Debug, Default)]
pub(crate) struct FastLane {
    /// How many of the next calls begin on blocking threads.
    careful: AtomicUsize,
}

impl FastLane {
    /// Whether the next call begins on the caller's thread.
    fn is_open(&self) -> bool {
        // That calls overtake each other here does no harm.
        let one_less = |careful: usize| careful.checked_sub(1);
        let closed = self
            .careful
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        closed.is_err()
    }

    /// A call was slow.
    fn close(&self) {
        self.careful.store(CAREFUL, Ordering::Relaxed);
    }
}

/// Passes pods of the controllers through the active chain, each in its turn: so the Browsers of one namespace do not keep out others,
/// nor the pods of admission reviews.
pub(crate) struct InTurns {
    pub(crate) chain: ChainMutator,
    pub(crate) turns: PeerTurns,
}

impl PodMutator for InTurns {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async move {
            // The operator itself is one that asks, like a peer of the webhooks.
            let Ok(_turn) = self.turns.take(None, request.namespace.clone()).await else {
                let full = "too many pods wait for the chain";
                return Err(PodRejection::Overdue(full.to_owned()).into());
            };
            self.chain.mutate(pod, request).await
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        self.chain.chain()
    }

    fn serves(&self, digest: &str) -> bool {
        self.chain.serves(digest)
    }

    fn takes_claims(&self) -> bool {
        self.chain.takes_claims()
    }
}

#[cfg(test)]
mod tests;
