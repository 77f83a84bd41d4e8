//! A second chain, which is only tried: it gets the same pods as the serving chain, and what it makes of them is compared.
//!
//! It never delays or changes a pod. What the serving chain did is put into a short queue; if that is full, the pod is dropped. One
//! thread takes it from there, with an engine of its own: its plugins take neither permits nor instances of those that serve. It waits
//! while calls of the serving chain have all permits, and rests most of the time.

mod answer;
mod metrics;
mod results;
mod thread;
mod worker;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_control_loop::LoopMetrics;
use podloom_mutators::{
    Engine, EngineOptions, InstanceAllocation, Loader, Reload, Serving, Signers, Slot, WatchMode,
};
use podloom_turns::lock;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use self::metrics::CandidateMetrics;
use self::results::{Pair, Results};
use self::worker::Worker;
use crate::cli::RunArguments;
use crate::mutator::{Seen, Witness};

/// The name of the loop that loads it, in metrics and logs.
const LOOP: &str = "candidate";

/// The candidate, and what it would have made of the pods.
pub(crate) struct CandidateChain {
    slot: Arc<Slot>,
    /// Sees the pods.
    pub(super) witness: Arc<Witness>,
    results: Arc<Mutex<Results>>,
    metrics: CandidateMetrics,
}

/// What the candidate is compared with.
pub(super) struct Beside {
    /// The chain that serves.
    pub(super) slot: Arc<Slot>,
    /// Its engine; none if there is no chain.
    pub(super) engine: Option<Arc<Engine>>,
}

/// Where the candidate is, and how it is loaded.
pub(super) struct Files {
    pub(super) directory: PathBuf,
    pub(super) signers: Option<Signers>,
    pub(super) scan_interval: Duration,
    pub(super) build_timeout: Duration,
    pub(super) recorder: Arc<LoopMetrics>,
}

impl CandidateChain {
    /// The candidate, and what it sees; none unless the operator has one.
    pub(super) fn of(
        arguments: &RunArguments,
        registry: &mut Registry,
    ) -> (Option<Arc<Self>>, Option<Receiver<Seen>>) {
        let is_wanted = arguments.needs_chain() && arguments.candidate.is_some();
        is_wanted.then(|| Self::new(registry)).unzip()
    }

    /// A candidate that is not loaded yet, and the pods that it gets.
    fn new(registry: &mut Registry) -> (Arc<Self>, Receiver<Seen>) {
        let slot: Arc<Slot> = Arc::default();
        let metrics = CandidateMetrics::register(registry);
        let (witness, seen) = Witness::new(Arc::clone(&slot), metrics.dropped());
        let candidate = Self {
            slot,
            witness: Arc::new(witness),
            results: Arc::default(),
            metrics,
        };
        (Arc::new(candidate), seen)
    }

    /// Starts to compare pods, and returns what loads the candidate, at the start and whenever its directory changes.
    pub(super) fn begin(
        self: &Arc<Self>,
        beside: Beside,
        files: Files,
        seen: Receiver<Seen>,
        stop: CancellationToken,
    ) -> Result<BoxFuture<'static, ()>> {
        let options = EngineOptions {
            permits: Some(NonZeroUsize::MIN),
            instances: InstanceAllocation::Pooled,
            ..EngineOptions::default()
        };
        let engine = Engine::new(&options).context("cannot start its WebAssembly engine")?;
        let serves = beside.engine.as_ref().map(|_| Arc::clone(&beside.slot));
        let worker = Worker {
            serving: beside.slot,
            engine: beside.engine,
            candidate: Arc::clone(&self.slot),
            results: Arc::clone(&self.results),
            metrics: self.metrics.clone(),
        };
        // Not a thread of the runtime: its priority cannot be raised again.
        std::thread::Builder::new()
            .name("podloom-candidate".to_owned())
            .spawn(move || worker.run(seen))
            .context("cannot start its thread")?;
        let reported = Arc::clone(self);
        let loader = Loader {
            name: LOOP,
            directory: files.directory,
            engine,
            slot: Arc::clone(&self.slot),
            signers: files.signers,
            // It gets pods of namespaces that are known.
            admit: Arc::new(|_| async { Ok(()) }.boxed()),
            watch: WatchMode::Notified,
            scan_interval: files.scan_interval,
            build_timeout: files.build_timeout,
            report: Arc::new(move |reload| reported.report(reload)),
            recorder: files.recorder,
        };
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

    /// What `/plugins/candidate` answers.
    pub(super) fn answer(&self, serving: &Serving) -> Value {
        let candidate = self.slot.serving();
        let dropped = self.metrics.dropped().get();
        let pair = Pair::of(serving, &candidate);
        let mut results = lock(&self.results);
        answer::of(&candidate, results.of(pair, dropped), dropped)
    }

    fn report(&self, reload: &Reload) {
        let is_loaded = !matches!(reload, Reload::Refused { .. });
        self.metrics.is_loaded(is_loaded);
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
                tracing::warn!(outcome = error.reason(), %error, "rejected the candidate, the last good one is still compared if there is one");
            }
            Reload::Refused { error, .. } => {
                tracing::debug!(outcome = error.reason(), %error, "rejected the same candidate again");
            }
        }
    }
}
