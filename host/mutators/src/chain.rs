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

use podloom_mutation::{
    CallFailure, Dimension, MutatedPod, PluginOutcome, PluginRun, PodRejection, PodRequest,
    RejectedPod,
};
use podloom_pod_path::{Patch, Trace, Transaction};
use serde_json::Value;

pub use self::grants::PluginGrants;
pub use self::order::{Influence, OrderDependence};
pub(crate) use self::pass::Passing;
pub use self::pass::{Pass, Progress, Values};
use crate::engine::Engine;
use crate::limits::PATCH_BYTES;
use crate::manifest::{FailurePolicy, MANIFEST};
use crate::plugin::{Plugin, PluginError};
use crate::request::{PodFields, RunMode, pod_event};
use crate::run;
use crate::sandbox::{CallResult, Mutated};
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

    /// Passes a pod through the chain and stamps it. The pod's managedFields are dropped, since they are no longer true. Values of
    /// writes are shown.
    ///
    /// Blocks until the plugins have run; each has a time limit.
    ///
    /// # Errors
    /// If a plugin denies the pod, or fails under the policy Fail.
    pub fn mutate(
        &self,
        pod: Value,
        request: impl Into<Arc<PodRequest>>,
    ) -> Result<MutatedPod, RejectedPod> {
        self.mutate_in(RunMode::Serve, pod, &request.into())
    }

    pub(crate) fn mutate_in(
        &self,
        mode: RunMode,
        pod: Value,
        request: &Arc<PodRequest>,
    ) -> Result<MutatedPod, RejectedPod> {
        self.finish(self.admit(mode, pod, Arc::clone(request), Values::Shown)?)
    }

    /// Begins to pass a pod through the chain, as [`Self::mutate`] does. No plugin runs yet.
    ///
    /// # Errors
    /// If it is not a pod, or has too many containers.
    pub fn begin(
        &self,
        pod: Value,
        request: impl Into<Arc<PodRequest>>,
        values: Values,
    ) -> Result<Pass, RejectedPod> {
        self.admit(RunMode::Serve, pod, request.into(), values)
    }

    fn admit(
        &self,
        mode: RunMode,
        mut pod: Value,
        request: Arc<PodRequest>,
        values: Values,
    ) -> Result<Pass, RejectedPod> {
        pass::check_containers(&pod)?;
        let before = stamp::open(&mut pod, &self.digest).map_err(not_a_pod)?;
        Ok(Pass {
            passing: Passing::new(pod),
            mode,
            request,
            values,
            before,
            runs: Vec::with_capacity(self.plugins.len()),
        })
    }

    /// Passes a pod through the plugins that are left, and stamps it. A plugin that has not returned at the pause is interrupted;
    /// its writes are undone.
    ///
    /// Blocks until then.
    pub fn proceed(&self, pass: Pass, pause: Option<Instant>) -> Progress {
        let values = pass.values;
        match self.go_on(pass, pause) {
            Progress::Ended(mut result) if values == Values::Hidden => {
                pass::hide_values(&mut result);
                Progress::Ended(result)
            }
            progress => progress,
        }
    }

    /// As [`Self::proceed`], and the result has all values.
    fn go_on(&self, mut pass: Pass, pause: Option<Instant>) -> Progress {
        let deadline = Until::at(pass.request.deadline);
        pass.passing.until = deadline.or(Until::at(pause));
        for plugin in self.plugins.iter().skip(pass.runs.len()) {
            let run = self.run(pass.mode, plugin, &mut pass.passing, &pass.request);
            let is_overdue = run.outcome == PluginOutcome::Failed(CallFailure::Overdue);
            if is_overdue && !deadline.is_over() {
                return Progress::Paused(pass);
            }
            let rejection = run.rejection();
            pass.runs.push(run);
            if let Some(rejection) = rejection {
                let runs = pass.runs;
                return Progress::Ended(Err(RejectedPod { rejection, runs }));
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
    pub fn finish(&self, mut pass: Pass) -> Result<MutatedPod, RejectedPod> {
        loop {
            match self.proceed(pass, None) {
                Progress::Ended(result) => return result,
                // The deadline passed just now: it is overdue the next time.
                Progress::Paused(paused) => pass = paused,
            }
        }
    }

    fn end(&self, pass: Pass) -> Result<MutatedPod, RejectedPod> {
        let (mut pod, runs) = (pass.passing.pod, pass.runs);
        let stamped =
            stamp::close(&mut pod, &self.digest, &pass.before, &runs).map_err(not_a_pod)?;
        let wants_patch = pass.request.wants_patch;
        let patch = wants_patch.then(|| patch(&pod, &runs, &pass.passing.traces, &stamped));
        if patch == Some(None) {
            let reason = "the plugins wrote too much for one patch".to_owned();
            let rejection = PodRejection::Broken(reason);
            return Err(RejectedPod { rejection, runs });
        }
        Ok(MutatedPod {
            pod,
            patch: patch.flatten(),
            chain: Some(self.digest.clone()),
            runs,
        })
    }

    /// Runs one plugin. If it does not pass, the pod is as it was before.
    pub(crate) fn run(
        &self,
        mode: RunMode,
        plugin: &Plugin,
        passing: &mut Passing,
        request: &Arc<PodRequest>,
    ) -> PluginRun {
        let fields = PodFields::of(request, mode);
        let excluded = match mode {
            RunMode::Prove { until, .. } if until.is_over() => {
                return run::of(plugin, PluginOutcome::Failed(CallFailure::NoTimeLeft));
            }
            RunMode::Prove { .. } => None,
            RunMode::Serve => plugin
                .matches
                .excludes(request, |key| label(&passing.pod, key)),
        };
        let is_undecided = request.is_namespace_unread && plugin.matches.selects_namespaces();
        if is_undecided && matches!(excluded, None | Some(Dimension::NamespaceSelector)) {
            return run::of(plugin, PluginOutcome::Failed(CallFailure::NamespaceUnread));
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
            return run::of(plugin, PluginOutcome::Skipped(dimension));
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
        let mut run = settle(plugin, mutated, passing);
        run.duration = started.elapsed();
        run::log(&run, fields, self.engine.lines.as_ref());
        run
    }
}

/// The JSON Patch that turns the pod as it came into this one; none if it would be too long. It is made from the recorded writes. It
/// does not touch managedFields, so the client that applies it keeps them.
fn patch(pod: &Value, runs: &[PluginRun], traces: &[Trace], stamped: &Stamped) -> Option<String> {
    let mut patch = Patch::within(PATCH_BYTES);
    let writes = runs.iter().flat_map(|run| &run.writes);
    for (write, trace) in writes.zip(traces) {
        patch.write(write, trace);
    }
    stamped.add_to(&mut patch, pod);
    patch.finish()
}

fn not_a_pod(problem: &'static str) -> RejectedPod {
    PodRejection::Broken(format!("not a pod: {problem}")).into()
}

/// Commits the writes of a plugin, or rolls them back. A denial rejects the pod whatever the failure policy is.
fn settle(plugin: &Plugin, mutated: Mutated, passing: &mut Passing) -> PluginRun {
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
    let run = match end {
        CallResult::Done => commit(plugin, transaction, passing),
        CallResult::Denied(reason) => {
            passing.pod = transaction.rollback();
            run::of(plugin, PluginOutcome::Denied(reason))
        }
        CallResult::Failed(failure) => {
            passing.pod = transaction.rollback();
            let is_fatal = plugin.failure_policy == FailurePolicy::Fail || failure.is_of_the_host();
            let outcome = match is_fatal {
                true => PluginOutcome::Failed(failure),
                false => PluginOutcome::Ignored(failure),
            };
            run::of(plugin, outcome)
        }
    };
    PluginRun {
        refused_writes,
        reads,
        refused_reads,
        usage,
        notes,
        denials,
        memory,
        fuel,
        ..run
    }
}

fn commit(plugin: &Plugin, transaction: Transaction, passing: &mut Passing) -> PluginRun {
    passing.held = transaction.held();
    let (pod, writes, traces) = transaction.commit_traced();
    passing.pod = pod;
    passing.traces.extend(traces);
    let outcome = if writes.is_empty() {
        PluginOutcome::Unchanged
    } else {
        PluginOutcome::Mutated
    };
    PluginRun {
        writes,
        ..run::of(plugin, outcome)
    }
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("labels")?.get(key)?.as_str()
}
