//! What became of the pods that the candidate got: counts, and groups of equal differences, in bounded memory.

use std::time::{Duration, SystemTime};

use podloom_mutators::Serving;
use serde_json::{Map, Value, json};

use crate::compare::groups::{Group, Groups, Kept, group};
use crate::compare::{Difference, Verdict};
use crate::run::history::{chain_state, timestamp};

/// The longest path or name that is kept, in bytes. Both may come from a pod that the API server has not checked yet.
const TEXT: usize = 256;

/// The two chains that are compared, by their digests.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// None without a chain.
    pub(super) serving: Option<String>,
    pub(super) candidate: String,
    /// Since when both are there.
    pub(super) since: Option<SystemTime>,
}

/// What the candidate would have made of a pod, compared with the serving chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// The same.
    Same,
    /// Another pod, other warnings, or a pod that the serving chain refuses.
    Different,
    /// A plugin denies it, and the serving chain does not.
    Denied,
    /// A plugin fails on it, and did not in the serving chain.
    Failed,
}

/// What became of pods, since both chains are there.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) pair: Option<Pair>,
    counts: [u64; Compared::ALL.len()],
    pub(super) groups: Groups,
    /// How long the candidate took for all pods.
    took: Duration,
    /// How many pods had been dropped before.
    dropped_before: u64,
}

impl Pair {
    /// None if there is no candidate.
    pub(super) fn of(serving: &Serving, candidate: &Serving) -> Option<Self> {
        let digest = |of: &Serving| Some(of.chain.as_ref()?.digest().to_owned());
        Some(Self {
            serving: digest(serving),
            candidate: digest(candidate)?,
            since: serving.since.max(candidate.since),
        })
    }
}

impl Compared {
    pub(super) const ALL: [Self; 4] = [Self::Same, Self::Different, Self::Denied, Self::Failed];

    /// One word, for programs.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }

    pub(super) fn of(difference: Option<&Difference>) -> Self {
        match difference.map(|difference| difference.verdict) {
            None => Self::Same,
            Some(Verdict::DeniedNow) => Self::Denied,
            Some(Verdict::FailsNow | Verdict::IgnoredNow) => Self::Failed,
            Some(
                Verdict::RejectedOtherwise
                | Verdict::AllowedNow
                | Verdict::FailsNoMore
                | Verdict::Changed
                | Verdict::WarnedOtherwise,
            ) => Self::Different,
        }
    }
}

impl Default for Results {
    fn default() -> Self {
        Self::since(None, 0)
    }
}

impl Results {
    fn since(pair: Option<Pair>, dropped_before: u64) -> Self {
        Self {
            pair,
            counts: Default::default(),
            groups: Groups::new(Kept::OF_THE_OPERATOR),
            took: Duration::ZERO,
            dropped_before,
        }
    }

    /// The results of these two chains; they start again if the chains are others than before. So many pods were dropped in all.
    pub(super) fn of(&mut self, pair: Option<Pair>, dropped: u64) -> &mut Self {
        let digests = |pair: &Option<Pair>| {
            let pair = pair.as_ref();
            pair.map(|pair| (pair.serving.clone(), pair.candidate.clone()))
        };
        if digests(&self.pair) != digests(&pair) {
            *self = Self::since(pair, dropped);
        }
        self
    }

    /// Adds a pod.
    pub(super) fn add(
        &mut self,
        namespace: &str,
        name: &str,
        difference: Option<Difference>,
        took: Duration,
    ) {
        let compared = Compared::of(difference.as_ref());
        if let Some(count) = self.counts.get_mut(compared as usize) {
            *count += 1;
        }
        self.took += took;
        let difference = difference.map(shortened);
        self.groups.add(namespace, &short(name), difference);
    }

    pub(super) fn count(&self, of: Compared) -> u64 {
        self.counts.get(of as usize).copied().unwrap_or_default()
    }

    /// How long the candidate took for a pod on average.
    pub(super) fn mean(&self) -> Option<Duration> {
        let pods = u32::try_from(self.groups.all.pods).ok()?;
        self.took.checked_div(pods)
    }

    /// What `/plugins/candidate` answers: the state of the candidate, and what it would have made of the pods. So many were dropped in
    /// all.
    pub(super) fn answer(&self, candidate: &Serving, dropped: u64) -> Value {
        let pair = self.pair.as_ref();
        let mean = self.mean();
        let mut pods: Map<_, _> = Compared::ALL
            .map(|it| (it.as_str().to_owned(), self.count(it).into()))
            .into_iter()
            .collect();
        let dropped = dropped.saturating_sub(self.dropped_before);
        pods.insert("dropped".to_owned(), dropped.into());
        let groups = self.groups.sorted().into_iter();
        json!({
            "candidate": chain_state(candidate),
            "serving": pair.and_then(|pair| pair.serving.as_deref()),
            "since": pair.and_then(|pair| pair.since).and_then(timestamp),
            "pods": pods,
            "meanMilliseconds": mean.map(|mean| mean.as_secs_f64() * 1000.0),
            "groups": groups.map(without_reasons).collect::<Value>(),
            "notListed": self.groups.rest,
        })
    }
}

fn shortened(mut difference: Difference) -> Difference {
    for change in &mut difference.changes {
        change.path = short(&change.path);
        change.general = short(&change.general);
    }
    difference
}

fn short(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(TEXT);
    format!("{}...", text.get(..end).unwrap_or_default())
}

/// As in the report of `podloom chain diff`.
fn without_reasons(of: &Group) -> Value {
    let mut group = group(of);
    if let Some(fields) = group.as_object_mut() {
        fields.remove("reasons");
        fields.remove("hasMoreReasons");
    }
    group
}

#[cfg(test)]
mod tests;
