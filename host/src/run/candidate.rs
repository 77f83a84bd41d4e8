//! A second chain, which is tried: it gets the same pods as the serving chain, and what it makes of them is compared. With a
//! ChainRollout, it comes to serve (`host/src/mutator/split.rs`).
//!
//! To try it never delays or changes a pod. What the serving chain did is put into a short queue; if that is full, the pod is dropped. One
//! thread takes it from there, with an engine of its own: its plugins take neither permits nor instances of those that serve. It waits
//! while calls of the serving chain have all permits, and rests most of the time.

mod results;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_metrics::{By, Histograms, histogram, metrics};
use podloom_mutation::{CallFailure, MutatedPod, PluginOutcome, PluginRun, RejectedPod, runs};
use podloom_mutators::{
    Engine, EngineOptions, InstanceAllocation, LoadError, Loader, Reload, Serving, Slot,
};
use podloom_turns::lock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde_json::Value;
use thread_priority::{ThreadPriority, set_current_thread_priority};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::{self, NoSubscriber};

use self::results::{COMPARED, Pair, Results, compared};
use crate::cli::RunArguments;
use crate::compare::{Difference, OwnContainers, outcome};
use crate::mutator::{Seen, Split, Witness, try_here};
use crate::reports::Notes;
use crate::run::capacity::serving_engine;

/// The candidate, and what it would have made of the pods.
pub(crate) struct CandidateChain {
    slot: Arc<Slot>,
    /// Decides which pods pass it; none if it is only tried.
    pub(super) split: Option<Arc<Split>>,
    /// Sees the pods.
    pub(super) witness: Arc<Witness>,
    results: Arc<Mutex<Results>>,
    /// For reports, if there are any.
    notes: Option<Arc<Notes>>,
    metrics: CandidateMetrics,
}

impl CandidateChain {
    /// A candidate that is not loaded yet, and the pods that it gets; none unless the operator has one.
    pub(super) fn of(
        arguments: &RunArguments,
        serving: &Arc<Slot>,
        notes: Option<&Arc<Notes>>,
        registry: &mut Registry,
    ) -> (Option<Arc<Self>>, Option<Receiver<Seen>>) {
        if !arguments.needs_chain() || arguments.candidate.is_none() {
            return (None, None);
        }
        let slot: Arc<Slot> = Arc::default();
        let metrics = CandidateMetrics::register(registry);
        let (witness, seen) = Witness::new(Arc::clone(&slot), metrics.dropped());
        let split = || Arc::new(Split::new(Arc::clone(serving), Arc::clone(&slot)));
        let candidate = Self {
            split: arguments.rollout.then(split),
            slot,
            witness: Arc::new(witness),
            results: Arc::default(),
            notes: notes.cloned(),
            metrics,
        };
        (Some(Arc::new(candidate)), Some(seen))
    }

    /// Starts to compare pods with what the chain of this slot made of them, by its engine if there is one. Returns what loads the
    /// candidate, at the start and whenever its directory changes.
    pub(super) fn begin(
        self: &Arc<Self>,
        loader: impl FnOnce((Arc<Engine>, Arc<Slot>)) -> Loader,
        (serving, engine): (&Arc<Slot>, Option<Arc<Engine>>),
        seen: Receiver<Seen>,
        stop: CancellationToken,
    ) -> Result<BoxFuture<'static, ()>> {
        let options = match &self.split {
            None => EngineOptions {
                permits: Some(NonZeroUsize::MIN),
                instances: InstanceAllocation::Pooled,
                in_background: true,
                ..EngineOptions::default()
            },
            // It may come to serve.
            Some(_) => EngineOptions {
                in_background: true,
                ..serving_engine()
            },
        };
        let own = Engine::new(&options).context("cannot start its WebAssembly engine")?;
        let serves = engine.is_some().then(|| Arc::clone(serving));
        let worker = Worker {
            serving: Arc::clone(serving),
            engine,
            candidate: Arc::clone(&self.slot),
            split: self.split.clone(),
            results: Arc::clone(&self.results),
            notes: self.notes.clone(),
            metrics: self.metrics.clone(),
        };
        // Not a thread of the runtime: its priority cannot be raised again.
        thread::Builder::new()
            .name("podloom-candidate".to_owned())
            .spawn(move || worker.run(seen))
            .context("cannot start its thread")?;
        let loader = loader((own, Arc::clone(&self.slot)));
        let load = async move {
            if let Some(slot) = serves {
                // First the chain that pods wait for. Two at once would also need twice the memory to compile.
                slot.attempted().await;
            }
            loader.run(stop.clone()).await;
            // If it ended by itself, nobody has to notice.
            stop.cancelled().await;
        };
        Ok(load.boxed())
    }

    /// Where it is loaded to.
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// It cannot be loaded: nobody has to wait for that.
    pub(super) fn fail(&self, directory: &Path, error: &str) {
        self.slot
            .refuse(&Arc::new(LoadError::broken(directory, error)));
    }

    /// What `/plugins/candidate` answers, with the slot of the chain that serves.
    pub(super) fn answer(&self, serving: &Slot) -> Value {
        let mut results = lock(&self.results);
        let candidate = self.slot.serving();
        let dropped = self.metrics.dropped().get();
        let pair = Pair::of(&serving.serving(), &candidate);
        results.of(pair, dropped).answer(&candidate, dropped)
    }

    /// Reports an attempt to load it.
    pub(super) fn report(&self, reload: &Reload) {
        let is_loaded = !matches!(reload, Reload::Refused { .. });
        self.metrics.loaded.set(i64::from(is_loaded));
        match reload {
            Reload::Swapped { chain, took } => {
                tracing::info!(candidate = chain.digest(), ?took, "candidate loaded");
            }
            Reload::Restored { chain } => {
                tracing::info!(
                    candidate = chain.digest(),
                    "the directory of the candidate contains the last good one again"
                );
            }
            Reload::Refused {
                error,
                repeated: false,
            } => {
                tracing::warn!(error.type = error.reason, %error, "rejected the candidate, the last good one is still compared if there is one");
            }
            Reload::Refused { error, .. } => {
                tracing::debug!(error.type = error.reason, %error, "rejected the same candidate again");
            }
        }
    }
}

/// From 10 µs to 10 s, by four.
const BUCKETS: Histograms = Histograms(0.000_01, 4.0, 11);
/// The result of pods for which there was no time or no room.
const DROPPED: &str = "dropped";

metrics! {
    /// Metrics of the candidate. They have the same series from the start on.
    struct CandidateMetrics {
        pods: By<1> = "candidate_pods", "Pods that the candidate got too, by what it would have made of them", by_result();
        duration: Histogram = "candidate_duration" Seconds, "How long a pod took in the candidate, at the lowest priority", histogram(BUCKETS);
        cpu: Counter<f64> = "candidate_cpu" Seconds, "Time on processors of everything that is done with pods for the candidate, except for keeping a copy of them";
        loaded: Gauge = "candidate_loaded", "1 if the candidate is what its directory contains, 0 if that is missing or was rejected";
    }
}

fn by_result() -> By<1> {
    let results = COMPARED.into_iter().chain([DROPPED]);
    By::new(["result"]).from_zero(results.map(|result| [result]))
}

impl CandidateMetrics {
    /// Counts the pods that were not compared.
    fn dropped(&self) -> Counter {
        self.pods.of([DROPPED]).clone()
    }
}

/// How many times as long as it worked the thread rests, so that no candidate takes more than a quarter of a processor.
const REST: u32 = 3;
/// How often to look whether pods still wait.
const PAUSE: Duration = Duration::from_millis(2);

/// Compares what the candidate makes of pods with what the serving chain made of them, one after the other, on a thread of its own.
struct Worker {
    serving: Arc<Slot>,
    /// Of the serving chain; none if there is no chain.
    engine: Option<Arc<Engine>>,
    candidate: Arc<Slot>,
    split: Option<Arc<Split>>,
    results: Arc<Mutex<Results>>,
    /// For reports, if there are any.
    notes: Option<Arc<Notes>>,
    metrics: CandidateMetrics,
}

impl Worker {
    /// Works until nobody sends pods any more. Blocks until then.
    fn run(&self, mut queue: Receiver<Seen>) {
        // Where that is not possible, it still rests most of the time.
        if let Err(error) = set_current_thread_priority(ThreadPriority::Min) {
            tracing::warn!(
                ?error,
                "the candidate runs at the same priority as all else"
            );
        }
        // The log is about what happens to pods, and nothing of this does.
        let _silent = subscriber::set_default(NoSubscriber::default());
        let (mut before, _) = scheduled();
        while let Some(seen) = queue.blocking_recv() {
            while self.engine.as_ref().is_some_and(|it| it.is_busy()) {
                thread::sleep(PAUSE);
            }
            let began = Instant::now();
            if !self.compare(seen) {
                self.metrics.dropped().inc();
            }
            let (ran, _) = scheduled();
            let worked = ran.saturating_sub(before);
            self.metrics.cpu.inc_by(worked.as_secs_f64());
            before = ran;
            thread::sleep(began.elapsed() * REST);
        }
    }

    /// Returns whether the pod could be compared.
    fn compare(&self, seen: Seen) -> bool {
        let (serving, candidate, pair) = self.chains();
        let Some((chain, pair)) = candidate.chain.as_ref().zip(pair) else {
            return false;
        };
        // During a rollout, the pod may have passed the candidate already: then the serving chain is tried.
        let has_passed_it = seen.chain.as_ref() == Some(&pair.candidate) && self.split.is_some();
        let other = match has_passed_it {
            true => serving.chain.as_ref(),
            false if pair.serving == seen.chain => Some(chain),
            // Another chain serves since then.
            false => None,
        };
        let Some(other) = other else {
            return false;
        };
        let name = name(&seen);
        let namespace = seen.request.namespace.clone();
        let owner = seen.request.owner.clone();
        // Nobody gets the pod of a dry run, and changes are of pods that passed a chain before.
        let is_new = !seen.request.dry_run && seen.request.later.is_none();
        let own = OwnContainers::of(&seen.before);
        let (before, began) = (scheduled(), Instant::now());
        let tried = try_here(other, seen.before, seen.request);
        let took = began.elapsed();
        let after = scheduled();
        let ran = after.0.saturating_sub(before.0);
        let waited = after.1.saturating_sub(before.1);
        if has_timed_out(&tried) && waited > ran {
            // Others took the processor so often that a time limit says nothing about the plugin.
            return false;
        }
        let (old, new) = match has_passed_it {
            true => (outcome(tried), outcome(seen.result)),
            false => (outcome(seen.result), outcome(tried)),
        };
        let difference = Difference::between(&own, old, new);
        let compared = compared(difference.as_ref());
        self.metrics.pods.of([compared]).inc();
        if !has_passed_it {
            self.metrics.duration.observe(took.as_secs_f64());
        }
        if let Some((split, serving)) = self.split.as_ref().zip(pair.serving.as_deref())
            && is_new
        {
            split.tried((serving, &pair.candidate), &owner, compared);
        }
        if let Some(notes) = self.notes.as_ref().filter(|_| is_new) {
            let place = (namespace.as_str(), owner.as_str());
            notes.compared(place, &pair.candidate, difference.as_ref());
        }
        if let Some(results) = lock(&self.results).still_of(&pair) {
            results.add(&namespace, &name, difference, took);
        }
        true
    }

    /// The chain that serves and the candidate, for which the results have begun.
    fn chains(&self) -> (Arc<Serving>, Arc<Serving>, Option<Pair>) {
        let mut results = lock(&self.results);
        let (serving, candidate) = (self.serving.serving(), self.candidate.serving());
        let pair = Pair::of(&serving, &candidate);
        results.of(pair.clone(), self.metrics.dropped().get());
        (serving, candidate, pair)
    }
}

/// How long this thread has run so far, and waited for a processor; zero where the kernel does not say.
fn scheduled() -> (Duration, Duration) {
    // Both are in nanoseconds.
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || match numbers.next() {
        Some(Ok(nanoseconds)) => Duration::from_nanos(nanoseconds),
        _ => Duration::ZERO,
    };
    (next(), next())
}

/// Whether a plugin ran longer than its limit.
fn has_timed_out(result: &Result<MutatedPod, RejectedPod>) -> bool {
    use PluginOutcome::{Failed, Ignored};
    let timed_out = |run: &PluginRun| {
        let outcome = &run.outcome;
        matches!(
            outcome,
            Ignored(CallFailure::TimedOut { .. }) | Failed(CallFailure::TimedOut { .. })
        )
    };
    runs(result).iter().any(timed_out)
}

/// As `Pod shop/web`; if the API server generates the name, as `Pod shop/web-*`.
fn name(seen: &Seen) -> String {
    let request = &seen.request;
    let name = match request.name.as_str() {
        "" => {
            let metadata = seen.before.get("metadata");
            let start = metadata.and_then(|metadata| metadata.get("generateName"));
            format!("{}*", start.and_then(Value::as_str).unwrap_or_default())
        }
        name => name.to_owned(),
    };
    format!("{} {}/{name}", request.kind, request.namespace)
}

#[cfg(test)]
mod tests;
