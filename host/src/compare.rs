//! What is different between what two chains make of pods. Pure.
//!
//! `outcome` is what a chain made of a pod, `difference` compares two of these, and `groups` collects the differences of many pods.
//! `podloom chain diff` and the candidate of the operator use this.

pub(crate) mod groups;

use std::collections::BTreeSet;

use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod};
use podloom_pod_path::{ChangeKind, PodChange, compare};
use serde_json::{Map, Value};

use crate::stamp;

// What is different between what two chains make of one pod.

/// The lists of containers whose names belong to the pod.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// What is different between what two chains make of one pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) verdict: Verdict,
    /// What is different in the pod; empty unless both chains admit it.
    pub(crate) changes: Vec<Change>,
}

/// What a difference means; the worst first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The new chain denies the pod.
    DeniedNow(Rejection),
    /// A plugin of the new chain fails, so the pod is rejected.
    FailsNow(Rejection),
    /// A plugin of the new chain fails, and the pod is admitted without its writes.
    IgnoredNow { plugin: String, failure: String },
    /// Both chains reject the pod, for other reasons.
    RejectedOtherwise { old: Rejection, new: Rejection },
    /// The old chain denied the pod.
    AllowedNow(Rejection),
    /// A plugin of the old chain failed, so the pod was rejected.
    FailsNoMore(Rejection),
    /// Another pod comes out.
    Changed,
    /// The same pod comes out, with other warnings of these plugins.
    WarnedOtherwise(BTreeSet<String>),
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
                    let name = name.replace('~', "~0").replace('/', "~1");
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
            (Outcome::Admitted(old), Outcome::Admitted(new)) => Self::of_pods(own, &old, &new),
            (Outcome::Rejected(old), Outcome::Rejected(new)) => {
                let verdict = match (old.is_denial, new.is_denial) {
                    _ if old == new => return None,
                    (false, true) => Verdict::DeniedNow(new),
                    (true, false) => Verdict::FailsNow(new),
                    _ => Verdict::RejectedOtherwise { old, new },
                };
                Some(verdict.into())
            }
            (Outcome::Admitted(_), Outcome::Rejected(new)) => Some(match new.is_denial {
                true => Verdict::DeniedNow(new).into(),
                false => Verdict::FailsNow(new).into(),
            }),
            (Outcome::Rejected(old), Outcome::Admitted(_)) => Some(match old.is_denial {
                true => Verdict::AllowedNow(old).into(),
                false => Verdict::FailsNoMore(old).into(),
            }),
        }
    }

    fn of_pods(own: &OwnContainers, old: &Admitted, new: &Admitted) -> Option<Self> {
        let changes = match old.pod == new.pod {
            true => Vec::new(),
            false => changes(own, old, new),
        };
        if let Some(verdict) = ignored_now(&old.runs, &new.runs) {
            return Some(Self { verdict, changes });
        }
        if !changes.is_empty() {
            let verdict = Verdict::Changed;
            return Some(Self { verdict, changes });
        }
        let (old, new) = (warnings(&old.runs), warnings(&new.runs));
        // The order counts too.
        if old == new {
            return None;
        }
        let others = |one: &[(String, String)], other: &[(String, String)]| {
            let others = one.iter().filter(|it| !other.contains(it));
            others.map(|(plugin, _)| plugin.clone()).collect::<Vec<_>>()
        };
        let plugins = others(&old, &new).into_iter().chain(others(&new, &old));
        Some(Verdict::WarnedOtherwise(plugins.collect()).into())
    }
}

impl From<Verdict> for Difference {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            changes: Vec::new(),
        }
    }
}

fn changes(own: &OwnContainers, old: &Admitted, new: &Admitted) -> Vec<Change> {
    let writes = |runs| -> Vec<String> {
        let runs: std::slice::Iter<'_, PluginRun> = runs;
        let writes = runs.flat_map(|run| &run.writes);
        writes.map(|write| write.path.clone()).collect()
    };
    let mut written = writes(old.runs.iter());
    written.extend(writes(new.runs.iter()));
    // In the order of their segments, so that what is below a path comes right after it.
    let below = |path: &str| format!("{path}/");
    written.sort();
    let splits = |path: &str| {
        let below = below(path);
        let first = written.partition_point(|it| it.as_str() < below.as_str());
        written.get(first).is_some_and(|it| it.starts_with(&below))
    };
    let changes = compare(&old.pod, &new.pod, &splits).into_iter();
    let changes = changes.map(|change| Change {
        writers: Writers::of(&change, &old.runs, &new.runs),
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
fn ignored_now(old: &[PluginRun], new: &[PluginRun]) -> Option<Verdict> {
    let failure = |run: &PluginRun| match &run.outcome {
        PluginOutcome::Ignored(failure) => Some((run.plugin.clone(), failure.to_string())),
        _ => None,
    };
    let before: Vec<String> = old.iter().filter_map(failure).map(|it| it.0).collect();
    let mut now = new.iter().filter_map(failure);
    let (plugin, failure) = now.find(|(plugin, _)| !before.contains(plugin))?;
    Some(Verdict::IgnoredNow { plugin, failure })
}

/// What the webhook warns of, and which plugin is meant.
fn warnings(runs: &[PluginRun]) -> Vec<(String, String)> {
    let ignored = runs.iter().filter_map(|run| match &run.outcome {
        PluginOutcome::Ignored(failure) => Some((run.plugin.clone(), failure.to_string())),
        _ => None,
    });
    let notes = runs.iter().flat_map(|run| {
        let notes = run.notes.iter();
        notes.map(|note| (run.plugin.clone(), note.text.clone()))
    });
    ignored.chain(notes).collect()
}

// What one chain makes of one pod.

/// What one chain makes of one pod.
#[derive(Clone)]
pub(crate) enum Outcome {
    /// The pod is admitted.
    Admitted(Admitted),
    /// The pod is rejected.
    Rejected(Rejection),
}

/// A pod that a chain let pass.
#[derive(Clone)]
pub(crate) struct Admitted {
    /// Without the chain's stamp.
    pub(crate) pod: Value,
    pub(crate) runs: Vec<PluginRun>,
}

/// Why a chain rejects a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rejection {
    /// Whether a plugin denied it; if not, a plugin failed.
    pub(crate) is_denial: bool,
    /// None if no plugin is to blame.
    pub(crate) plugin: Option<String>,
    /// The plugin's own reason.
    pub(crate) reason: String,
}

impl Outcome {
    pub(crate) fn of(result: Result<MutatedPod, RejectedPod>) -> Self {
        match result {
            Ok(MutatedPod { mut pod, runs, .. }) => {
                remove_stamp(&mut pod);
                Self::Admitted(Admitted { pod, runs })
            }
            Err(rejected) => Self::Rejected(Rejection::of(rejected)),
        }
    }
}

impl Rejection {
    fn of(rejected: RejectedPod) -> Self {
        let last = rejected.runs.into_iter().last();
        let (is_denial, plugin, reason) = match last.map(|run| (run.plugin, run.outcome)) {
            Some((plugin, PluginOutcome::Denied(reason))) => (true, Some(plugin), reason),
            Some((plugin, PluginOutcome::Failed(failure))) => {
                (false, Some(plugin), failure.to_string())
            }
            _ => (false, None, rejected.rejection.message().to_owned()),
        };
        Self {
            is_denial,
            plugin,
            reason,
        }
    }
}

/// Removes what is different between any two chains: their stamps, and what was only made to hold them. managedFields go too, which
/// a chain drops, and which no answer touches.
fn remove_stamp(pod: &mut Value) {
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

// Finds which plugins made a change.

/// Which plugins made a change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Writers {
    /// Whose plugins they are.
    pub(crate) chain: Whose,
    /// In the order of the chain; usually one.
    pub(crate) plugins: Vec<String>,
}

/// One of the two chains.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Whose {
    /// The old one: its plugins do not write this any more.
    Old,
    /// The new one: its plugins write this.
    New,
}

/// How the path of a write lies to the path of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lies {
    /// The write is there, or above: it decides about all of it.
    Over,
    /// The write is this many segments below.
    Below(usize),
}

impl Writers {
    /// The plugins of the new chain that wrote there last; if none did, those of the old chain.
    pub(crate) fn of(change: &PodChange<'_>, old: &[PluginRun], new: &[PluginRun]) -> Self {
        let plugins = writers(change, new, Whose::New);
        if !plugins.is_empty() {
            return Self {
                chain: Whose::New,
                plugins,
            };
        }
        Self {
            chain: Whose::Old,
            plugins: writers(change, old, Whose::Old),
        }
    }
}

fn writers(change: &PodChange<'_>, runs: &[PluginRun], whose: Whose) -> Vec<String> {
    let mut plugins: Vec<String> = Vec::new();
    for run in runs {
        for write in &run.writes {
            match lies(&write.path, &change.path) {
                // Whatever was written before is gone.
                Some(Lies::Over) => plugins = vec![run.plugin.clone()],
                Some(Lies::Below(depth))
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

/// How a write lies to a change; none if they have nothing to do with each other.
fn lies(write: &str, change: &str) -> Option<Lies> {
    let (mut writes, mut changes) = (segments(write), segments(change));
    loop {
        match (writes.next(), changes.next()) {
            (None, _) => return Some(Lies::Over),
            (Some(_), None) => return Some(Lies::Below(1 + writes.count())),
            (Some(left), Some(right)) if is_alike(left, right) => {}
            _ => return None,
        }
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// Whether two segments can mean the same. An element may have got its name after it was written by its index, and an index
/// stands for the element that was appended.
fn is_alike(write: &str, change: &str) -> bool {
    let is_index = |segment: &str| segment.bytes().all(|byte| byte.is_ascii_digit());
    let is_place = |segment: &str| segment == "-" || segment.starts_with('[');
    write == change || is_index(write) && is_place(change) || is_place(write) && is_index(change)
}
