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
use crate::run::{PluginOutcome, PluginRun};
use crate::sandbox::{CallFailure, CallResult, Mutated};
use crate::stamp::{self, Stamped};

/// Why a bundle did not become a chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MANIFEST}:{line}: plugin {plugin} ({file}) {problem}")]
pub struct ChainError {
    /// The plugin.
    pub plugin: String,
    /// Its file.
    pub file: String,
    /// Where the manifest names it.
    pub line: u64,
    /// What is wrong; part of the message, which would not be a sentence without it.
    pub problem: Box<PluginError>,
}

/// Plugins in order, checked and compiled. One pod sees one chain from start to end.
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
    /// The JSON Patch (RFC 6902) that makes this pod of the one that came, as JSON text. It is made of what was recorded, and does
    /// not name managedFields: whoever applies it is to keep them. None if it is longer than any pod is worth.
    pub fn patch(&self) -> Option<String> {
        let mut patch = Patch::within(PATCH_BYTES);
        let writes = self.runs.iter().flat_map(|run| &run.writes);
        for (write, trace) in writes.zip(&self.traces) {
            patch.write(write, trace);
        }
        self.stamped.tell(&self.pod, &mut patch);
        patch.finish()
    }
}

/// A pod that may not be.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct Rejected {
    /// Why.
    pub cause: RejectionCause,
    /// What each plugin did that was called, last the one that rejected the pod. Nothing of it is kept.
    pub runs: Vec<PluginRun>,
}

/// Why a pod may not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectionCause {
    /// A plugin denies it. Its policy has no say in that.
    #[error("plugin {plugin} denies the pod: {reason}")]
    Denied {
        /// The plugin.
        plugin: String,
        /// Its words.
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
    /// What was handed to the chain is no pod.
    #[error("not a pod: {0}")]
    NotAPod(&'static str),
}

/// A pod on its way through the chain.
pub(crate) struct Passing {
    pub(crate) pod: Value,
    /// Bytes of memory that what plugins wrote takes, in the pod and in their logs: one limit for the whole chain.
    held: usize,
    /// Of what was written and kept, in order.
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

    /// Digest over everything that decides what a pod becomes: files, order, grants, configuration, `match`, policies, limits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Passes a pod through the chain and stamps it. The pod's managedFields are dropped, for they no longer hold.
    ///
    /// Blocks for as long as the plugins run; each is bounded by its time limit.
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
            let run = PluginRun::new(plugin, PluginOutcome::Skipped(dimension));
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

/// A plugin that failed, and the pod with it.
fn failed(plugin: &Plugin, failure: CallFailure) -> (Result<Passing, RejectionCause>, PluginRun) {
    let cause = RejectionCause::Failed {
        plugin: plugin.name.clone(),
        failure: failure.clone(),
    };
    (
        Err(cause),
        PluginRun::new(plugin, PluginOutcome::Failed(failure)),
    )
}

/// Commits or rolls back to what was held before. A denial denies whatever the policy is.
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
                PluginOutcome::Unchanged
            } else {
                PluginOutcome::Mutated
            };
            let run = PluginRun {
                writes,
                ..PluginRun::new(plugin, outcome)
            };
            (Ok(Passing { pod, held, traces }), run)
        }
        (CallResult::Denied(reason), _) => {
            let run = PluginRun::new(plugin, PluginOutcome::Denied(reason.clone()));
            let cause = RejectionCause::Denied {
                plugin: plugin.name.clone(),
                reason,
            };
            (Err(cause), run)
        }
        (CallResult::Failed(failure), FailurePolicy::Fail) => failed(plugin, failure),
        (CallResult::Failed(failure), FailurePolicy::Ignore) => (
            Ok(Passing {
                pod: transaction.rollback(),
                held: held_before,
                traces,
            }),
            PluginRun::new(plugin, PluginOutcome::Ignored(failure)),
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
