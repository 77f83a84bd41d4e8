//! The chain: an immutable list of plugins through which a pod passes, each inside a transaction.

mod digest;
mod grants;
mod load;
mod order;
mod pass;

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use podloom_pod_path::{Patch, Trace, Transaction};
use serde_json::Value;

pub use self::grants::PluginGrants;
pub use self::order::{Influence, OrderDependence};
pub(crate) use self::pass::Passing;
pub use self::pass::{Pass, Progress};
use crate::engine::Engine;
use crate::limits::{CONTAINERS, PATCH_BYTES};
use crate::manifest::{FailurePolicy, MANIFEST};
use crate::matching::Dimension;
use crate::plugin::{Plugin, PluginError};
use crate::request::{PodFields, Request, RunMode, pod_event};
use crate::run::{PluginRun, RunOutcome};
use crate::sandbox::{CallFailure, CallResult, Mutated};
use crate::stamp::{self, Stamped};
use crate::until::Until;

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
    /// No API server would keep it, and no plugin is asked.
    #[error("the pod has {0} containers; at most {CONTAINERS} pass the plugin chain")]
    TooManyContainers(usize),
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

    /// Whether a plugin may write labels. Nothing above them can be granted.
    pub fn writes_labels(&self) -> bool {
        let mut granted = self.plugins.iter().flat_map(|plugin| &plugin.allow);
        granted.any(|path| path.starts_with("/metadata/labels"))
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
        self.finish(self.admit(mode, pod, Arc::clone(request))?)
    }

    /// Begins to pass a pod through the chain, as [`Self::mutate`] does. No plugin runs yet.
    ///
    /// # Errors
    /// If it is not a pod, or has too many containers.
    pub fn begin(&self, pod: Value, request: impl Into<Arc<Request>>) -> Result<Pass, Rejected> {
        self.admit(RunMode::Serve, pod, request.into())
    }

    fn admit(
        &self,
        mode: RunMode,
        mut pod: Value,
        request: Arc<Request>,
    ) -> Result<Pass, Rejected> {
        pass::check_containers(&pod)?;
        let before = stamp::open(&mut pod, &self.digest).map_err(not_a_pod)?;
        Ok(Pass {
            passing: Passing::new(pod),
            mode,
            request,
            before,
            runs: Vec::with_capacity(self.plugins.len()),
        })
    }

    /// Passes a pod through the plugins that are left, and stamps it. A plugin that has not returned at the pause is interrupted;
    /// its writes are undone.
    ///
    /// Blocks until then.
    pub fn proceed(&self, mut pass: Pass, pause: Option<Instant>) -> Progress {
        let deadline = pass.request.until();
        pass.passing.until = deadline.or(Until::at(pause));
        for plugin in self.plugins.iter().skip(pass.runs.len()) {
            let (passed, run) = self.run(pass.mode, plugin, &mut pass.passing, &pass.request);
            match passed {
                Ok(()) => pass.runs.push(run),
                Err(RejectionCause::Failed {
                    failure: CallFailure::Overdue,
                    ..
                }) if !deadline.is_over() => return Progress::Paused(pass),
                Err(cause) => {
                    pass.runs.push(run);
                    let runs = pass.runs;
                    return Progress::Ended(Err(Rejected { cause, runs }));
                }
            }
        }
        Progress::Ended(self.end(pass))
    }

    /// Passes a pod through the plugins that are left, and stamps it.
    ///
    /// Blocks until the plugins have run; each has a time limit.
    ///
    /// # Errors
    /// If a plugin denies the pod, or fails under the policy Fail.
    pub fn finish(&self, mut pass: Pass) -> Result<Mutation, Rejected> {
        loop {
            match self.proceed(pass, None) {
                Progress::Ended(result) => return result,
                // The deadline passed just now: it is overdue the next time.
                Progress::Paused(paused) => pass = paused,
            }
        }
    }

    fn end(&self, pass: Pass) -> Result<Mutation, Rejected> {
        let (mut pod, runs) = (pass.passing.pod, pass.runs);
        let stamped =
            stamp::close(&mut pod, &self.digest, &pass.before, &runs).map_err(not_a_pod)?;
        Ok(Mutation {
            pod,
            runs,
            traces: pass.passing.traces,
            stamped,
        })
    }

    /// Runs one plugin. If it does not pass, the pod is as it was before.
    pub(crate) fn run(
        &self,
        mode: RunMode,
        plugin: &Plugin,
        passing: &mut Passing,
        request: &Arc<Request>,
    ) -> (Result<(), RejectionCause>, PluginRun) {
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
        let is_undecided = request.is_namespace_unread && plugin.matches.selects_namespaces();
        if is_undecided && matches!(excluded, None | Some(Dimension::NamespaceSelector)) {
            return failed(plugin, CallFailure::NamespaceUnread);
        }
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
            return (Ok(()), run);
        }
        let _span = tracing::debug_span!("plugin call", plugin = plugin.name).entered();
        let started = Instant::now();
        let transaction = Transaction::begin(
            mem::take(&mut passing.pod),
            Arc::clone(&plugin.access),
            Arc::clone(&request.selector),
        )
        .holding(passing.held);
        let transaction = match passing.records {
            true => transaction.recording(),
            false => transaction,
        };
        let sandbox = plugin.sandbox(&self.engine);
        let mutated = sandbox.mutate(mode, transaction, Arc::clone(request), passing.until);
        let (passed, mut run) = settle(plugin, mutated, passing);
        run.duration = started.elapsed();
        run.log(fields, self.engine.lines.as_ref());
        (passed, run)
    }
}

fn not_a_pod(problem: &'static str) -> Rejected {
    Rejected {
        cause: RejectionCause::NotAPod(problem),
        runs: Vec::new(),
    }
}

/// The results of a plugin whose failure rejects the pod.
fn failed(plugin: &Plugin, failure: CallFailure) -> (Result<(), RejectionCause>, PluginRun) {
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
fn settle(
    plugin: &Plugin,
    mutated: Mutated,
    passing: &mut Passing,
) -> (Result<(), RejectionCause>, PluginRun) {
    let Mutated {
        transaction,
        notes,
        denials,
        memory,
        fuel,
        end,
    } = mutated;
    let refused_writes = transaction.refused_writes();
    let (reads, refused_reads) = (transaction.reads(), transaction.refused_reads());
    let usage = transaction.usage().map(Box::new);
    let (passed, run) = match end {
        CallResult::Done => (Ok(()), commit(plugin, transaction, passing)),
        CallResult::Denied(reason) => {
            passing.pod = transaction.rollback();
            let run = PluginRun::new(plugin, RunOutcome::Denied(reason.clone()));
            let cause = RejectionCause::Denied {
                plugin: plugin.name.clone(),
                reason,
            };
            (Err(cause), run)
        }
        CallResult::Failed(failure) => {
            passing.pod = transaction.rollback();
            match (failure, plugin.failure_policy) {
                (failure, policy) if policy == FailurePolicy::Fail || failure.is_of_the_host() => {
                    failed(plugin, failure)
                }
                (failure, _) => (Ok(()), PluginRun::new(plugin, RunOutcome::Ignored(failure))),
            }
        }
    };
    let run = PluginRun {
        refused_writes,
        reads,
        refused_reads,
        usage,
        notes,
        denials,
        memory,
        fuel,
        ..run
    };
    (passed, run)
}

fn commit(plugin: &Plugin, transaction: Transaction, passing: &mut Passing) -> PluginRun {
    passing.held = transaction.held();
    let (pod, writes, traces) = transaction.commit_traced();
    passing.pod = pod;
    passing.traces.extend(traces);
    let outcome = if writes.is_empty() {
        RunOutcome::Unchanged
    } else {
        RunOutcome::Mutated
    };
    PluginRun {
        writes,
        ..PluginRun::new(plugin, outcome)
    }
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("labels")?.get(key)?.as_str()
}
