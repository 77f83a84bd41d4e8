//! The chain: an immutable list of plugins through which a pod passes, each inside a transaction.

mod digest;
mod load;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use podloom_pod_path::{Patch, Trace, Transaction};
use serde_json::Value;

use crate::engine::Engine;
use crate::limits::PATCH_BYTES;
use crate::manifest::{FailurePolicy, MANIFEST};
use crate::plugin::{Plugin, PluginError};
use crate::request::{PodFields, Request, RunMode, pod_event};
use crate::run::{PluginRun, RunOutcome};
use crate::sandbox::{CallFailure, CallResult, Mutated};
use crate::stamp::{self, Stamped};

/// Why a chain could not be loaded from a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MANIFEST}:{line}: plugin {plugin} ({file}) {problem}")]
pub struct ChainError {
    /// The plugin.
    pub plugin: String,
    /// Its file.
    pub file: String,
    /// The line of the manifest that lists it.
    pub line: u64,
    /// What is wrong. It is part of the message, not its source.
    pub problem: Box<PluginError>,
}

/// Plugins in order, checked and compiled. A pod passes through one chain from start to end, even if another one is swapped in.
pub struct Chain {
    pub(crate) engine: Arc<Engine>,
    pub(crate) plugins: Vec<Plugin>,
    digest: String,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .plugins
            .iter()
            .map(|plugin| plugin.name.as_str())
            .collect();
        f.debug_struct("Chain")
            .field("digest", &self.digest)
            .field("plugins", &names)
            .finish_non_exhaustive()
    }
}

/// A pod that passed the chain.
pub struct Mutation {
    /// The pod, stamped.
    pub pod: Value,
    /// What each plugin did, in order.
    pub runs: Vec<PluginRun>,
    /// Of all writes, in order.
    traces: Vec<Trace>,
    stamped: Stamped,
}

impl fmt::Debug for Mutation {
    /// Without the pod, whose values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutation")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl Mutation {
    /// The JSON Patch (RFC 6902) that turns the original pod into this one, as JSON text; none if it would be longer than 16 MiB.
    /// It is made from the recorded writes. It does not touch managedFields, so the client that applies it keeps them.
    pub fn patch(&self) -> Option<String> {
        let mut patch = Patch::within(PATCH_BYTES);
        let writes = self.runs.iter().flat_map(|run| &run.writes);
        for (write, trace) in writes.zip(&self.traces) {
            patch.write(write, trace);
        }
        self.stamped.add_to(&mut patch, &self.pod);
        patch.finish()
    }
}

/// A rejected pod.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct Rejected {
    /// Why.
    pub cause: RejectionCause,
    /// What each called plugin did; the last one rejected the pod. None of their writes are kept.
    pub runs: Vec<PluginRun>,
}

/// Why a pod was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectionCause {
    /// A plugin denied it, whatever the failure policy is.
    #[error("plugin {plugin} denies the pod: {reason}")]
    Denied {
        /// The plugin.
        plugin: String,
        /// The reason that the plugin gave.
        reason: String,
    },
    /// A plugin failed under the policy Fail.
    #[error("plugin {plugin} failed: {failure}")]
    Failed {
        /// The plugin.
        plugin: String,
        /// Why.
        failure: CallFailure,
    },
    /// The JSON is not a pod.
    #[error("not a pod: {0}")]
    NotAPod(&'static str),
}

/// A pod on its way through the chain.
pub(crate) struct Passing {
    pub(crate) pod: Value,
    /// Bytes of memory that the writes so far take, in the pod and in the logs of writes. One limit covers the whole chain.
    held: usize,
    /// Of the committed writes, in order.
    traces: Vec<Trace>,
}

impl Passing {
    pub(crate) fn new(pod: Value) -> Self {
        Self {
            pod,
            held: 0,
            traces: Vec::new(),
        }
    }
}

impl Chain {
    /// The plugins in their order.
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// Digest of everything that affects the resulting pod: files, order, grants, configuration, `match`, policies and limits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Passes a pod through the chain and stamps it. The pod's managedFields are dropped, since they are no longer true.
    ///
    /// Blocks until the plugins have run; each has a time limit.
    ///
    /// # Errors
    /// If a plugin denies the pod, or fails under the policy Fail.
    pub fn mutate(
        &self,
        pod: Value,
        request: impl Into<Arc<Request>>,
    ) -> Result<Mutation, Rejected> {
        self.mutate_in(RunMode::Serve, pod, &request.into())
    }

    pub(crate) fn mutate_in(
        &self,
        mode: RunMode,
        pod: Value,
        request: &Arc<Request>,
    ) -> Result<Mutation, Rejected> {
        let mut runs = Vec::with_capacity(self.plugins.len());
        match self.run_each(mode, pod, request, &mut runs) {
            Ok((passed, stamped)) => Ok(Mutation {
                pod: passed.pod,
                runs,
                traces: passed.traces,
                stamped,
            }),
            Err(cause) => Err(Rejected { cause, runs }),
        }
    }

    fn run_each(
        &self,
        mode: RunMode,
        mut pod: Value,
        request: &Arc<Request>,
        runs: &mut Vec<PluginRun>,
    ) -> Result<(Passing, Stamped), RejectionCause> {
        let before = stamp::open(&mut pod, &self.digest).map_err(RejectionCause::NotAPod)?;
        let mut passing = Passing::new(pod);
        for plugin in &self.plugins {
            let (next, run) = self.run(mode, plugin, passing, request);
            runs.push(run);
            passing = next?;
        }
        let stamped = stamp::close(&mut passing.pod, &self.digest, &before, runs)
            .map_err(RejectionCause::NotAPod)?;
        Ok((passing, stamped))
    }

    pub(crate) fn run(
        &self,
        mode: RunMode,
        plugin: &Plugin,
        passing: Passing,
        request: &Arc<Request>,
    ) -> (Result<Passing, RejectionCause>, PluginRun) {
        let fields = PodFields::of(request, mode);
        let excluded = match mode {
            RunMode::Prove { until, .. } if until.is_over() => {
                return failed(plugin, CallFailure::NoTimeLeft);
            }
            RunMode::Prove { .. } => None,
            RunMode::Serve => plugin
                .matches
                .excludes(request, |key| label(&passing.pod, key)),
        };
        if let Some(dimension) = excluded {
            pod_event!(
                debug,
                fields,
                plugin = plugin.name,
                outcome = "skipped",
                dimension = dimension.as_str(),
                "plugin run"
            );
            let run = PluginRun::new(plugin, RunOutcome::Skipped(dimension));
            return (Ok(passing), run);
        }
        let _span = tracing::debug_span!("plugin call", plugin = plugin.name).entered();
        let started = Instant::now();
        let transaction = Transaction::begin(
            passing.pod,
            Arc::clone(&plugin.access),
            Arc::clone(&request.selector),
        )
        .holding(passing.held);
        let mutated = plugin
            .sandbox(&self.engine)
            .mutate(mode, transaction, Arc::clone(request));
        let (passed, mut run) = end(plugin, mutated, (passing.held, passing.traces));
        run.duration = started.elapsed();
        run.log(fields);
        (passed, run)
    }
}

/// The results of a plugin whose failure rejects the pod.
fn failed(plugin: &Plugin, failure: CallFailure) -> (Result<Passing, RejectionCause>, PluginRun) {
    let cause = RejectionCause::Failed {
        plugin: plugin.name.clone(),
        failure: failure.clone(),
    };
    (
        Err(cause),
        PluginRun::new(plugin, RunOutcome::Failed(failure)),
    )
}

/// Commits the writes of a plugin, or rolls them back. A denial rejects the pod whatever the failure policy is.
fn end(
    plugin: &Plugin,
    mutated: Mutated,
    (held_before, mut traces): (usize, Vec<Trace>),
) -> (Result<Passing, RejectionCause>, PluginRun) {
    let Mutated {
        transaction,
        notes,
        memory,
        end,
    } = mutated;
    let refused_writes = transaction.refused_writes();
    let (reads, refused_reads) = (transaction.reads(), transaction.refused_reads());
    let (passed, run) = match (end, plugin.failure_policy) {
        (CallResult::Done, _) => {
            let held = transaction.held();
            let (pod, writes, own) = transaction.commit_traced();
            traces.extend(own);
            let outcome = if writes.is_empty() {
                RunOutcome::Unchanged
            } else {
                RunOutcome::Mutated
            };
            let run = PluginRun {
                writes,
                ..PluginRun::new(plugin, outcome)
            };
            (Ok(Passing { pod, held, traces }), run)
        }
        (CallResult::Denied(reason), _) => {
            let run = PluginRun::new(plugin, RunOutcome::Denied(reason.clone()));
            let cause = RejectionCause::Denied {
                plugin: plugin.name.clone(),
                reason,
            };
            (Err(cause), run)
        }
        // Not the plugin's failure, so its policy does not decide; there is no time left for the next one either.
        (CallResult::Failed(CallFailure::Overdue), _) => failed(plugin, CallFailure::Overdue),
        (CallResult::Failed(failure), FailurePolicy::Fail) => failed(plugin, failure),
        (CallResult::Failed(failure), FailurePolicy::Ignore) => (
            Ok(Passing {
                pod: transaction.rollback(),
                held: held_before,
                traces,
            }),
            PluginRun::new(plugin, RunOutcome::Ignored(failure)),
        ),
    };
    let run = PluginRun {
        refused_writes,
        reads,
        refused_reads,
        notes,
        memory,
        ..run
    };
    (passed, run)
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("labels")?.get(key)?.as_str()
}
