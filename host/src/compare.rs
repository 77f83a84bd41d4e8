//! What is different between what two chains make of pods. Pure.
//!
//! `groups` collects the differences of many pods. `podloom chain diff` and the candidate of the operator use this.

pub(crate) mod groups;

use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod};
use podloom_pod_path::{ChangeKind, PodChange, compare};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::manifest::escape;
use crate::stamp;

/// The lists of containers whose names belong to the pod.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// What one chain makes of one pod: the pod without the chain's stamp, or why it is rejected.
pub(crate) type Outcome = Result<MutatedPod, Rejection>;

/// Why a chain, or an API server, rejects a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rejection {
    /// Whether a plugin denied it; if not, a plugin failed.
    is_denial: bool,
    /// None if no plugin is to blame.
    plugin: Option<String>,
    /// The plugin's own reason.
    reason: String,
}

/// What is different between what two chains make of one pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) verdict: Verdict,
    /// The plugin that rejects the pod now, or did; the plugins that warn otherwise.
    pub(crate) plugins: Vec<String>,
    /// What the plugin said.
    pub(crate) reason: Option<String>,
    /// What is different in the pod; empty unless both chains admit it.
    pub(crate) changes: Vec<Change>,
}

/// What a difference means; the worst first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Verdict {
    /// The new chain denies the pod.
    DeniedNow,
    /// A plugin of the new chain fails, so the pod is rejected.
    FailsNow,
    /// A plugin of the new chain fails, and the pod is admitted without its writes.
    IgnoredNow,
    /// Both chains reject the pod, for other reasons.
    RejectedOtherwise,
    /// The old chain denied the pod.
    AllowedNow,
    /// A plugin of the old chain failed, so the pod was rejected.
    FailsNoMore,
    /// Another pod comes out.
    Changed,
    /// The same pod comes out, with other warnings.
    WarnedOtherwise,
}

/// One difference between the two pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) path: String,
    /// The path without the names of the pod's own containers, as `/spec/containers/*/image`: the same in many pods.
    pub(crate) general: String,
    pub(crate) writers: Writers,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
    /// How many of the objects and lists around a removed value go with it.
    pub(crate) parents: usize,
}

/// The names of a pod's containers before any chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnContainers(Vec<(&'static str, String)>);

impl OwnContainers {
    pub(crate) fn of(pod: &Value) -> Self {
        let mut own = Vec::new();
        for list in CONTAINERS {
            let containers = pod.get("spec").and_then(|spec| spec.get(list)?.as_array());
            for container in containers.into_iter().flatten() {
                if let Some(Value::String(name)) = container.get("name") {
                    let name = escape(name);
                    own.push((list, format!("/spec/{list}/[name={name}]")));
                }
            }
        }
        Self(own)
    }

    fn general(&self, path: &str) -> String {
        for (list, element) in &self.0 {
            match path.strip_prefix(element) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    return format!("/spec/{list}/*{rest}");
                }
                _ => {}
            }
        }
        path.to_owned()
    }
}

impl Difference {
    /// Returns what is different; none if nothing is.
    pub(crate) fn between(own: &OwnContainers, old: Outcome, new: Outcome) -> Option<Self> {
        match (old, new) {
            (Ok(old), Ok(new)) => Self::of_pods(own, &old, &new),
            (old, new) => Self::of_rejections(old.err(), new.err()),
        }
    }

    /// The same for a pod that not both admit.
    pub(crate) fn of_rejections(old: Option<Rejection>, new: Option<Rejection>) -> Option<Self> {
        let (verdict, rejection) = match (old, new) {
            (None, None) => return None,
            (Some(old), Some(new)) if old == new => return None,
            (Some(old), Some(new)) if old.is_denial == new.is_denial => {
                let mut plugins: Vec<String> = old.plugin.into_iter().chain(new.plugin).collect();
                plugins.dedup();
                let reason = format!("{} (before: {})", new.reason, old.reason);
                return Some(Self::of(Verdict::RejectedOtherwise, plugins, Some(reason)));
            }
            (_, Some(new)) if new.is_denial => (Verdict::DeniedNow, new),
            (_, Some(new)) => (Verdict::FailsNow, new),
            (Some(old), None) if old.is_denial => (Verdict::AllowedNow, old),
            (Some(old), None) => (Verdict::FailsNoMore, old),
        };
        let plugins = rejection.plugin.into_iter().collect();
        Some(Self::of(verdict, plugins, Some(rejection.reason)))
    }

    fn of_pods(own: &OwnContainers, old: &MutatedPod, new: &MutatedPod) -> Option<Self> {
        let changes = match old.pod == new.pod {
            true => Vec::new(),
            false => changes(own, old, new),
        };
        let difference = match ignored_now(&old.runs, &new.runs) {
            Some((plugin, failure)) => Self::of(Verdict::IgnoredNow, vec![plugin], Some(failure)),
            None if !changes.is_empty() => Self::of(Verdict::Changed, Vec::new(), None),
            None => {
                let (old, new) = (warnings(&old.runs), warnings(&new.runs));
                // The order counts too.
                if old == new {
                    return None;
                }
                let only_new = new.iter().filter(|it| !old.contains(it));
                let others = old.iter().filter(|it| !new.contains(it)).chain(only_new);
                let mut plugins: Vec<String> = others.map(|(plugin, _)| plugin.clone()).collect();
                plugins.sort();
                plugins.dedup();
                Self::of(Verdict::WarnedOtherwise, plugins, None)
            }
        };
        Some(Self {
            changes,
            ..difference
        })
    }

    pub(crate) fn of(verdict: Verdict, plugins: Vec<String>, reason: Option<String>) -> Self {
        let changes = Vec::new();
        Self {
            verdict,
            plugins,
            reason,
            changes,
        }
    }
}

fn changes(own: &OwnContainers, old: &MutatedPod, new: &MutatedPod) -> Vec<Change> {
    let writes = old.runs.iter().chain(&new.runs).flat_map(|run| &run.writes);
    let mut written: Vec<&str> = writes.map(|write| write.path.as_str()).collect();
    // In the order of their segments, so that what is below a path comes right after it.
    written.sort_unstable();
    let splits = |path: &str| {
        let below = format!("{path}/");
        let first = written.partition_point(|it| *it < below.as_str());
        written.get(first).is_some_and(|it| it.starts_with(&below))
    };
    changes_by(own, compare(&old.pod, &new.pod, &splits), |change| {
        Writers::of(change, &old.runs, &new.runs)
    })
}

/// What is different between two pods of which nobody knows who wrote what. It is split as far as it can be, so that a label is the same
/// change whether the pod had other labels or none.
pub(crate) fn unclaimed_changes(own: &OwnContainers, old: &Value, new: &Value) -> Vec<Change> {
    changes_by(own, compare(old, new, &|_| true), |_| Writers {
        chain: Whose::New,
        plugins: Vec::new(),
    })
}

fn changes_by(
    own: &OwnContainers,
    changes: Vec<PodChange<'_>>,
    by: impl Fn(&PodChange<'_>) -> Writers,
) -> Vec<Change> {
    let changes = changes.into_iter().map(|change| Change {
        writers: by(&change),
        general: own.general(&change.path),
        kind: change.kind,
        old: change.old.cloned(),
        new: change.new.cloned(),
        parents: change.parents,
        path: change.path,
    });
    changes.collect()
}

/// The first plugin whose failure is ignored now, and was not before.
fn ignored_now(old: &[PluginRun], new: &[PluginRun]) -> Option<(String, String)> {
    let before: Vec<String> = old.iter().filter_map(ignored).map(|it| it.0).collect();
    let mut now = new.iter().filter_map(ignored);
    now.find(|(plugin, _)| !before.contains(plugin))
}

/// The plugin and its failure, if that was ignored.
fn ignored(run: &PluginRun) -> Option<(String, String)> {
    match &run.outcome {
        PluginOutcome::Ignored(failure) => Some((run.plugin.clone(), failure.to_string())),
        _ => None,
    }
}

/// What the webhook warns of, and which plugin is meant.
fn warnings(runs: &[PluginRun]) -> Vec<(String, String)> {
    let notes = runs.iter().flat_map(|run| {
        let notes = run.notes.iter();
        notes.map(|note| (run.plugin.clone(), note.text.clone()))
    });
    let ignored = runs.iter().filter_map(ignored);
    let excepted = runs.iter().filter_map(excepted);
    ignored.chain(excepted).chain(notes).collect()
}

/// The plugin and its denial, if an exception lets the pod pass.
fn excepted(run: &PluginRun) -> Option<(String, String)> {
    match &run.outcome {
        PluginOutcome::Excepted {
            by,
            denial: Some(reason),
            ..
        } => {
            let text = format!("denies it, but for ChainException {by}: {reason}");
            Some((run.plugin.clone(), text))
        }
        _ => None,
    }
}

/// What a chain made of a pod, to be compared.
pub(crate) fn outcome(result: Result<MutatedPod, RejectedPod>) -> Outcome {
    let mut mutated = result.map_err(Rejection::of)?;
    remove_stamp(&mut mutated.pod);
    Ok(mutated)
}

impl Rejection {
    pub(crate) const fn new(is_denial: bool, by: Option<String>, reason: String) -> Self {
        Self {
            is_denial,
            plugin: by,
            reason,
        }
    }

    fn of(rejected: RejectedPod) -> Self {
        let last = rejected.runs.into_iter().last();
        let (is_denial, plugin, reason) = match last.map(|run| (run.plugin, run.outcome)) {
            Some((plugin, PluginOutcome::Denied(reason))) => (true, Some(plugin), reason),
            Some((plugin, PluginOutcome::Failed(failure))) => {
                (false, Some(plugin), failure.to_string())
            }
            _ => (false, None, rejected.rejection.message().to_owned()),
        };
        Self::new(is_denial, plugin, reason)
    }
}

/// Removes what is different between any two chains: their stamps, and what was only made to hold them. managedFields go too, which
/// a chain drops, and which no answer touches.
pub(crate) fn remove_stamp(pod: &mut Value) {
    stamp::remove(pod);
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    if annotations.is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
    if metadata.is_empty()
        && let Some(pod) = pod.as_object_mut()
    {
        pod.remove("metadata");
    }
}

/// Which plugins made a change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Writers {
    /// Whose plugins they are.
    pub(crate) chain: Whose,
    /// In the order of the chain; usually one.
    pub(crate) plugins: Vec<String>,
}

/// One of the two chains.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
pub(crate) enum Whose {
    /// The old one: its plugins do not write this any more.
    Old,
    /// The new one: its plugins write this.
    New,
}

impl Writers {
    /// The plugins of the new chain that wrote there last; if none did, those of the old chain.
    fn of(change: &PodChange<'_>, old: &[PluginRun], new: &[PluginRun]) -> Self {
        let of = |runs, chain| Self {
            chain,
            plugins: writers(change, runs, chain),
        };
        Some(of(new, Whose::New))
            .filter(|writers| !writers.plugins.is_empty())
            .unwrap_or_else(|| of(old, Whose::Old))
    }
}

fn writers(change: &PodChange<'_>, runs: &[PluginRun], whose: Whose) -> Vec<String> {
    let mut plugins: Vec<String> = Vec::new();
    for run in runs {
        for write in &run.writes {
            match depth(&write.path, &change.path) {
                // Whatever was written before is gone.
                Some(0) => plugins = vec![run.plugin.clone()],
                Some(depth)
                    if counts(change.kind, depth, whose) && !plugins.contains(&run.plugin) =>
                {
                    plugins.push(run.plugin.clone());
                }
                _ => {}
            }
        }
    }
    plugins
}

/// Whether a write below the path of a change can have made it.
fn counts(kind: ChangeKind, depth: usize, whose: Whose) -> bool {
    match kind {
        ChangeKind::Added | ChangeKind::Changed => true,
        // A new value in it does not take it away.
        ChangeKind::Removed => whose == Whose::Old,
        // Only elements that come and go change the order.
        ChangeKind::Reordered => depth == 1,
    }
}

/// How many segments a write is below the path of a change: 0 if it is there or above, so that it decides about all of it; none if they
/// have nothing to do with each other.
fn depth(write: &str, change: &str) -> Option<usize> {
    let (mut writes, mut changes) = (write.split('/').skip(1), change.split('/').skip(1));
    loop {
        match (writes.next(), changes.next()) {
            (None, _) => return Some(0),
            (Some(_), None) => return Some(1 + writes.count()),
            (Some(left), Some(right)) if is_alike(left, right) => {}
            _ => return None,
        }
    }
}

/// Whether two segments can mean the same. An element may have got its name after it was written by its index, and an index
/// stands for the element that was appended.
fn is_alike(write: &str, change: &str) -> bool {
    let is_index = |segment: &str| segment.bytes().all(|byte| byte.is_ascii_digit());
    let is_place = |segment: &str| segment == "-" || segment.starts_with('[');
    write == change || is_index(write) && is_place(change) || is_place(write) && is_index(change)
}
