//! What is different between what two chains make of one pod.

use std::collections::BTreeSet;

use podloom_mutation::{PluginOutcome, PluginRun};
use podloom_pod_path::{ChangeKind, compare};
use serde_json::Value;

use super::outcome::{Admitted, Outcome, Rejection};
use super::writers::Writers;

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
