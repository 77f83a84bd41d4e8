//! The chain: an immutable list of plugins through which a pod passes, each inside a transaction.

mod load;
mod order;

use std::sync::Arc;
use std::time::Instant;
use std::{fmt, mem};

use podloom_mutation::{
    CallFailure, Dimension, Effect, MutatedPod, PluginOutcome, PluginRun, PodException,
    PodRejection, PodRequest, RejectedPod,
};
use podloom_pod_path::{Patch, Trace, Transaction};
use podloom_turns::Lines;
use serde_json::Value;

pub use self::load::{ChainError, PluginGrants};
use crate::engine::Engine;
use crate::limits::{CONTAINERS, PATCH_BYTES};
use crate::manifest::FailurePolicy;
use crate::matching::Takes;
use crate::plugin::Plugin;
use crate::request::{PodFields, RunMode, Until, pod_event};
use crate::stamp::{self, MutationEntry};

/// Plugins in order, checked and compiled. A pod passes through one chain from start to end, even if another one is swapped in.
pub struct Chain {
    pub(crate) engine: Arc<Engine>,
    pub(crate) plugins: Vec<Plugin>,
    digest: String,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.plugins.iter().map(|plugin| plugin.name.as_str());
        let names: Vec<&str> = names.collect();
        f.debug_struct("Chain")
            .field("digest", &self.digest)
            .field("plugins", &names)
            .finish_non_exhaustive()
    }
}

/// A pod that has passed some plugins of a chain, and waits for the next one.
pub struct Pass {
    pub(crate) pod: Value,
    mode: RunMode,
    request: Arc<PodRequest>,
    values: Values,
    /// The stamp of an earlier pass.
    before: Vec<MutationEntry>,
    /// One for each plugin that the pod has passed.
    runs: Vec<PluginRun>,
    /// Bytes of memory that the writes so far take, in the pod and in the logs of writes. One limit covers the whole chain.
    held: usize,
    /// Of the committed writes, in order.
    traces: Vec<Trace>,
    /// A plugin that has not returned by then is interrupted.
    until: Until,
    /// Whether it is recorded what each plugin reads and writes.
    records: bool,
}

impl Pass {
    /// A pod that has passed nothing.
    pub(crate) fn new(mode: RunMode, pod: Value, request: Arc<PodRequest>) -> Self {
        Self {
            pod,
            mode,
            request,
            values: Values::Shown,
            before: Vec::new(),
            runs: Vec::new(),
            held: 0,
            traces: Vec::new(),
            until: Until::DONE,
            records: false,
        }
    }
}

impl fmt::Debug for Pass {
    /// Without the pod, whose values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

/// Whether the result has the old and new values of each write. They may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// No. Only the pod and the patch contain the new values.
    Hidden,
    /// Yes, for a diff.
    Shown,
}

/// How far a pod has come.
#[derive(Debug)]
pub enum Progress {
    /// It has passed the chain, or was rejected.
    Ended(Result<MutatedPod, RejectedPod>),
    /// A plugin was interrupted. It left no trace in the pod, which can go on with that plugin.
    Paused(Pass),
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

    /// Which pods of the webhook it takes; all others get no more than a stamp.
    pub fn takes(&self) -> Takes {
        let plugins = self.plugins.iter();
        Takes::of(plugins.map(|plugin| (plugin.name.as_str(), &plugin.matches)))
    }

    /// Whether a plugin runs on changes of pods that exist.
    pub fn takes_updates(&self) -> bool {
        self.plugins.iter().any(|it| it.matches.takes_updates())
    }

    /// Whether a plugin runs when a session gets its pod.
    pub fn takes_claims(&self) -> bool {
        self.plugins.iter().any(|it| it.matches.takes_claims())
    }

    /// Whether calls for pods keep the processors busy, so that work without haste should wait.
    pub fn is_busy(&self) -> bool {
        self.engine.is_busy()
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
        self.finish(self.admit(RunMode::Serve, pod, request.into())?)
    }

    /// As [`Self::mutate`], and records in each [`PluginRun`](podloom_mutation::PluginRun) what the plugin read and wrote. Slower.
    ///
    /// # Errors
    /// If a plugin denies the pod, or fails under the policy Fail.
    pub fn mutate_recorded(
        &self,
        pod: Value,
        request: impl Into<Arc<PodRequest>>,
    ) -> Result<MutatedPod, RejectedPod> {
        let pass = self.admit(RunMode::Serve, pod, request.into())?;
        let records = true;
        self.finish(Pass { records, ..pass })
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
        let pass = self.admit(RunMode::Serve, pod, request.into())?;
        Ok(Pass { values, ..pass })
    }

    pub(crate) fn admit(
        &self,
        mode: RunMode,
        mut pod: Value,
        request: Arc<PodRequest>,
    ) -> Result<Pass, RejectedPod> {
        check_containers(&pod)?;
        let before = stamp::open(&mut pod, &self.digest).map_err(not_a_pod)?;
        Ok(Pass {
            before,
            runs: Vec::with_capacity(self.plugins.len()),
            ..Pass::new(mode, pod, request)
        })
    }

    /// Passes a pod through the plugins that are left, and stamps it. A plugin that has not returned at the pause is interrupted;
    /// its writes are undone.
    ///
    /// Blocks until then.
    pub fn proceed(&self, mut pass: Pass, pause: Option<Instant>) -> Progress {
        let deadline = Until::at(pass.request.deadline);
        pass.until = deadline.or(Until::at(pause));
        let mut rejection = None;
        for plugin in self.plugins.iter().skip(pass.runs.len()) {
            let run = self.run(plugin, &mut pass);
            let is_overdue = run.outcome == PluginOutcome::Failed(CallFailure::Overdue);
            if is_overdue && !deadline.is_over() {
                return Progress::Paused(pass);
            }
            rejection = run.rejection();
            pass.runs.push(run);
            if rejection.is_some() {
                break;
            }
        }
        let values = pass.values;
        let mut result = match rejection {
            Some(rejection) => Err(RejectedPod {
                rejection,
                runs: pass.runs,
            }),
            None => self.end(pass),
        };
        if values == Values::Hidden {
            hide_values(&mut result);
        }
        Progress::Ended(result)
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
        let (mut pod, runs) = (pass.pod, pass.runs);
        let wants_patch = pass.request.wants_patch;
        let mut patch = wants_patch.then(|| patch(&runs, &pass.traces));
        // The stamp says what a new pod went through. A later change passes only some plugins, so the stamp stays.
        if pass.request.later.is_none() {
            stamp::close(&mut pod, &self.digest, &pass.before, &runs, patch.as_mut())
                .map_err(not_a_pod)?;
        }
        let patch = patch.map(Patch::finish);
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
    pub(crate) fn run(&self, plugin: &Plugin, pass: &mut Pass) -> PluginRun {
        let request = &pass.request;
        let exception = Exception::of(plugin, request);
        if let Some(outcome) = left_out(plugin, pass, &exception) {
            return not_called(plugin, outcome);
        }
        let _span = tracing::debug_span!("plugin call", plugin = plugin.name).entered();
        let started = Instant::now();
        let transaction = Transaction::begin(
            mem::take(&mut pass.pod),
            Arc::clone(&plugin.access),
            Arc::clone(&request.selector),
        )
        .holding(pass.held);
        let transaction = match &request.later {
            Some(later) => transaction.within(Arc::clone(&later.places)),
            None => transaction,
        };
        let transaction = match pass.records {
            true => transaction.recording(),
            false => transaction,
        };
        let sandbox = plugin.sandbox(&self.engine);
        let (transaction, called) =
            sandbox.mutate(pass.mode, transaction, Arc::clone(request), pass.until);
        let mut run = settle(plugin, transaction, called, pass);
        if let PluginOutcome::Denied(reason) = run.outcome {
            run.outcome = exception.of_denial(reason);
        }
        run.duration = started.elapsed();
        let fields = PodFields::of(&pass.request, pass.mode);
        log(&run, fields, self.engine.lines.as_ref());
        run
    }
}

/// Why a plugin is not called; none if it is.
fn left_out(plugin: &Plugin, pass: &Pass, exception: &Exception) -> Option<PluginOutcome> {
    let request = &pass.request;
    let excluded = match pass.mode {
        RunMode::Prove { until, .. } if until.is_over() => {
            return Some(PluginOutcome::Failed(CallFailure::NoTimeLeft));
        }
        RunMode::Prove { .. } => None,
        RunMode::Serve => plugin
            .matches
            .excludes(request, |key| label(&pass.pod, key)),
    };
    let is_undecided = request.is_namespace_unread && plugin.matches.selects_namespaces();
    if is_undecided && matches!(excluded, None | Some(Dimension::NamespaceSelector)) {
        return Some(PluginOutcome::Failed(CallFailure::NamespaceUnread));
    }
    let (outcome, reason) = match (excluded, exception) {
        (Some(dimension), _) => (PluginOutcome::Skipped(dimension), dimension.as_str()),
        (None, Exception::Holds(exception)) if exception.effect == Effect::Skip => {
            (excepted(exception, None), exception.name.as_str())
        }
        (None, _) => return None,
    };
    pod_event!(
        debug,
        PodFields::of(request, pass.mode),
        plugin = plugin.name,
        outcome = outcome.as_str(),
        dimension = reason,
        "plugin run"
    );
    Some(outcome)
}

/// What exceptions say about a plugin and a pod.
enum Exception {
    None,
    Holds(PodException),
    /// The chain does not allow it. For the user.
    Refused(String),
}

impl Exception {
    /// One under which the plugin does not run comes first.
    fn of(plugin: &Plugin, request: &PodRequest) -> Self {
        let named = request.exceptions.iter();
        let named = named.filter(|it| it.plugins.contains(&plugin.name));
        let (mut holds, mut refused) = (None, Self::None);
        for exception in named {
            if let Err(why) = plugin.excepts(exception.lasts) {
                let name = &exception.name;
                refused = Self::Refused(format!("ChainException {name} does not hold: {why}"));
            } else if holds.is_none() || exception.effect == Effect::Skip {
                holds = Some(exception);
            }
        }
        holds.map_or(refused, |exception| Self::Holds(exception.clone()))
    }

    /// What becomes of a denial.
    fn of_denial(&self, reason: String) -> PluginOutcome {
        match self {
            Self::None => PluginOutcome::Denied(reason),
            Self::Holds(exception) => excepted(exception, Some(reason)),
            Self::Refused(why) => PluginOutcome::Denied(format!("{reason} ({why})")),
        }
    }
}

fn excepted(exception: &PodException, denial: Option<String>) -> PluginOutcome {
    PluginOutcome::Excepted {
        by: exception.name.clone(),
        until: exception.until.clone(),
        denial,
    }
}

/// The JSON Patch that turns the pod as it came into what the plugins made of it. It is made from the recorded writes. It does not
/// touch managedFields, so the client that applies it keeps them.
fn patch(runs: &[PluginRun], traces: &[Trace]) -> Patch {
    let mut patch = Patch::within(PATCH_BYTES);
    let writes = runs.iter().flat_map(|run| &run.writes);
    for (write, trace) in writes.zip(traces) {
        patch.write(write, trace);
    }
    patch
}

fn not_a_pod(problem: &'static str) -> RejectedPod {
    PodRejection::Broken(format!("not a pod: {problem}")).into()
}

/// Commits the writes of a plugin, or rolls them back. A denial rejects the pod whatever the failure policy is.
fn settle(
    plugin: &Plugin,
    transaction: Transaction,
    called: PluginRun,
    pass: &mut Pass,
) -> PluginRun {
    let mut run = PluginRun {
        refused_writes: transaction.refused_writes(),
        reads: transaction.reads(),
        refused_reads: transaction.refused_reads(),
        usage: transaction.usage().map(Box::new),
        ..of_plugin(plugin, called)
    };
    if run.outcome != PluginOutcome::Unchanged {
        pass.pod = transaction.rollback();
        run.outcome = match run.outcome {
            PluginOutcome::Failed(failure)
                if plugin.failure_policy == FailurePolicy::Ignore && !failure.is_of_the_host() =>
            {
                PluginOutcome::Ignored(failure)
            }
            outcome => outcome,
        };
        return run;
    }
    pass.held = transaction.held();
    let (pod, writes, traces) = transaction.commit_traced();
    pass.pod = pod;
    pass.traces.extend(traces);
    if !writes.is_empty() {
        run.outcome = PluginOutcome::Mutated;
    }
    run.writes = writes;
    run
}

fn not_called(plugin: &Plugin, outcome: PluginOutcome) -> PluginRun {
    let run = PluginRun {
        outcome,
        ..PluginRun::default()
    };
    of_plugin(plugin, run)
}

fn of_plugin(plugin: &Plugin, run: PluginRun) -> PluginRun {
    PluginRun {
        plugin: plugin.name.clone(),
        version: plugin.description.version.clone(),
        sha256: plugin.sha256.clone(),
        ..run
    }
}

fn label<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Refuses a pod before any work is done for it that grows with its containers.
fn check_containers(pod: &Value) -> Result<(), RejectedPod> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let list = |list: &str| pod.get("spec")?.get(list)?.as_array();
    let count = lists.into_iter().filter_map(list).map(Vec::len).sum();
    match count {
        0..=CONTAINERS => Ok(()),
        count => {
            let reason = format!(
                "the pod has {count} containers; at most {CONTAINERS} pass the plugin chain"
            );
            Err(PodRejection::Denied(reason).into())
        }
    }
}

/// Removes the values of all writes. What is not there cannot be shown.
fn hide_values(result: &mut Result<MutatedPod, RejectedPod>) {
    let runs = match result {
        Ok(mutated) => &mut mutated.runs,
        Err(rejected) => &mut rejected.runs,
    };
    for write in runs.iter_mut().flat_map(|run| &mut run.writes) {
        (write.old, write.new) = (None, None);
    }
}

/// Logs paths and counts at debug, and values, which may be secret, at trace only.
fn log(run: &PluginRun, pod: PodFields<'_>, lines: Option<&Lines>) {
    let (plugin, outcome) = (run.plugin.as_str(), run.outcome.as_str());
    let ignored = "plugin failed and was ignored";
    if let PluginOutcome::Ignored(failure) = &run.outcome
        && pod.may_log(lines, plugin, ignored)
    {
        pod_event!(warn, pod, plugin, outcome, error.type = failure.reason(), error = %failure, "{ignored}");
    }
    pod_event!(
        debug,
        pod,
        plugin,
        outcome,
        writes = run.writes.len(),
        refused = run.refused_writes,
        reads = run.reads,
        refused_reads = run.refused_reads,
        "plugin run"
    );
    if tracing::enabled!(tracing::Level::DEBUG) {
        for write in &run.writes {
            pod_event!(debug, pod, plugin, path = write.path, "plugin wrote");
            pod_event!(trace, pod, plugin, path = write.path, old = ?write.old, new = ?write.new, "plugin wrote");
        }
    }
}
