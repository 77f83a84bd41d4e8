//! What became of the pods that the candidate got: counts, and groups of equal differences, in bounded memory.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use podloom_mutators::Serving;
use serde_json::{Value, json};

use crate::compare::groups::{Group, Groups, Kept, group};
use crate::compare::{Difference, Verdict};
use crate::output::short;
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

/// What the candidate would have made of a pod, compared with the serving chain: the same, another pod or a pod that the serving chain
/// refuses, denied, or failed.
pub(super) const COMPARED: [&str; 4] = ["same", "different", "denied", "failed"];

/// What became of pods, since both chains are there.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) pair: Option<Pair>,
    pub(super) counts: BTreeMap<&'static str, u64>,
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

    fn digests(&self) -> (Option<&str>, &str) {
        (self.serving.as_deref(), &self.candidate)
    }
}

/// Which of these it is.
pub(super) fn compared(difference: Option<&Difference>) -> &'static str {
    match difference.map(|difference| difference.verdict) {
        None => "same",
        Some(Verdict::DeniedNow) => "denied",
        Some(Verdict::FailsNow | Verdict::IgnoredNow) => "failed",
        Some(
            Verdict::RejectedOtherwise
            | Verdict::AllowedNow
            | Verdict::FailsNoMore
            | Verdict::Changed
            | Verdict::WarnedOtherwise,
        ) => "different",
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
            counts: COMPARED.map(|it| (it, 0)).into(),
            groups: Groups::new(Kept::OF_THE_OPERATOR),
            took: Duration::ZERO,
            dropped_before,
        }
    }

    /// The results of these two chains; they start again if the chains are others than before. So many pods were dropped in all.
    ///
    /// The chains must be read while the results are held: those of an earlier moment would end the results of later ones.
    pub(super) fn of(&mut self, pair: Option<Pair>, dropped: u64) -> &mut Self {
        if !self.are_of(pair.as_ref()) {
            *self = Self::since(pair, dropped);
        }
        self
    }

    /// These results, if they are still of these chains: a slow comparison ends after others were loaded.
    pub(super) fn still_of(&mut self, pair: &Pair) -> Option<&mut Self> {
        self.are_of(Some(pair)).then_some(self)
    }

    fn are_of(&self, pair: Option<&Pair>) -> bool {
        self.pair.as_ref().map(Pair::digests) == pair.map(Pair::digests)
    }

    /// Adds a pod.
    pub(super) fn add(
        &mut self,
        namespace: &str,
        name: &str,
        difference: Option<Difference>,
        took: Duration,
    ) {
        *self
            .counts
            .entry(compared(difference.as_ref()))
            .or_default() += 1;
        self.took += took;
        let difference = difference.map(shortened);
        self.groups
            .add(namespace, &short(name, TEXT, "..."), difference);
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
        let mut pods = json!(self.counts);
        pods["dropped"] = dropped.saturating_sub(self.dropped_before).into();
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
        change.path = short(&change.path, TEXT, "...").into_owned();
        change.general = short(&change.general, TEXT, "...").into_owned();
    }
    difference
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
