//! Passes pods through the candidate, one after the other, on a thread of its own.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use podloom_mutation::{CallFailure, MutatedPod, PluginOutcome, PluginRun, RejectedPod, runs};
use podloom_mutators::{Engine, Slot};
use podloom_turns::lock;
use serde_json::Value;
use thread_priority::{ThreadPriority, set_current_thread_priority};
use tokio::sync::mpsc::Receiver;
use tracing::subscriber::{self, NoSubscriber};

use super::metrics::CandidateMetrics;
use super::results::{Compared, Pair, Results};
use super::thread::{Meter, Scheduled};
use crate::compare::{Difference, OwnContainers, outcome};
use crate::mutator::{Seen, try_here};

/// How many times as long as it worked the thread rests, so that no candidate takes more than a quarter of a processor.
const REST: u32 = 3;
/// How often to look whether pods still wait.
const PAUSE: Duration = Duration::from_millis(2);

/// Compares what the candidate makes of pods with what the serving chain made of them.
pub(super) struct Worker {
    pub(super) serving: Arc<Slot>,
    /// Of the serving chain; none if there is no chain.
    pub(super) engine: Option<Arc<Engine>>,
    pub(super) candidate: Arc<Slot>,
    pub(super) results: Arc<Mutex<Results>>,
    pub(super) metrics: CandidateMetrics,
}

impl Worker {
    /// Works until nobody sends pods any more. Blocks until then.
    pub(super) fn run(&self, mut queue: Receiver<Seen>) {
        // Where that is not possible, it still rests most of the time.
        if let Err(error) = set_current_thread_priority(ThreadPriority::Min) {
            tracing::warn!(
                ?error,
                "the candidate runs at the same priority as all else"
            );
        }
        // The log is about what happens to pods, and nothing of this does.
        let _silent = subscriber::set_default(NoSubscriber::default());
        let mut ran = Scheduled::now().ran;
        while let Some(seen) = queue.blocking_recv() {
            while self.engine.as_ref().is_some_and(|it| it.is_busy()) {
                thread::sleep(PAUSE);
            }
            let meter = Meter::start();
            if !self.compare(seen) {
                self.metrics.dropped().inc();
            }
            let now = Scheduled::now().ran;
            self.metrics.worked(now.saturating_sub(ran));
            ran = now;
            thread::sleep(meter.read().took * REST);
        }
    }

    /// Returns whether the pod could be compared.
    fn compare(&self, seen: Seen) -> bool {
        let (serving, candidate) = (self.serving.serving(), self.candidate.serving());
        let pair = Pair::of(&serving, &candidate);
        let Some((chain, pair)) = candidate.chain.as_ref().zip(pair) else {
            return false;
        };
        if pair.serving != seen.chain {
            // Another chain serves since then.
            return false;
        }
        let name = name(&seen);
        let namespace = seen.request.namespace.clone();
        let own = OwnContainers::of(&seen.before);
        let meter = Meter::start();
        let tried = try_here(chain, seen.before, seen.request);
        let measured = meter.read();
        if has_timed_out(&tried) && measured.is_starved() {
            return false;
        }
        let (old, new) = (outcome(seen.result), outcome(tried));
        let difference = Difference::between(&own, old, new);
        let compared = Compared::of(difference.as_ref());
        self.metrics.compared(compared, measured.took);
        let mut results = lock(&self.results);
        let results = results.of(Some(pair), self.metrics.dropped().get());
        results.add(&namespace, &name, difference, measured.took);
        true
    }
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
