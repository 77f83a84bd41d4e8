//! Which chain the pods of an owner pass. Pure: every replica gives the same answer from the same status.

use std::collections::BTreeMap;

use kube::core::{Selector, SelectorExt};
use podloom_api::{ChainRolloutObject, ChainRolloutStatus, RolloutShare};
use podloom_engine::readable::Readable;
use sha2::{Digest, Sha256};

/// How finely owners are divided.
const BUCKETS: u64 = 10_000;
/// How many of these are one percent.
const PERCENT: u64 = BUCKETS / 100;

/// Which owners pass the candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The chain that everybody else passes, by its digest.
    pub serving: String,
    /// The candidate, by its digest.
    pub candidate: String,
    /// Which rollout of its object it is.
    pub rollout: i64,
    shares: Vec<(u64, Option<Selector>)>,
}

impl Route {
    /// Returns the route that a status says; none without two chains.
    #[must_use]
    pub fn of(status: &ChainRolloutStatus) -> Option<Self> {
        let shares: Vec<_> = status.shares.iter().filter_map(share).collect();
        Some(Self {
            serving: status.serving.clone()?,
            candidate: status.candidate.clone()?,
            rollout: status.rollout,
            shares,
        })
    }

    /// Returns whether pods of this owner pass the candidate, if its namespace has these labels; none if they are not known.
    ///
    /// An owner that did with a smaller share does with a larger one too. Another candidate begins with other owners.
    #[must_use]
    pub fn takes(&self, owner: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
        let is_for = |selector: &Option<Selector>| match (selector, labels) {
            (None, _) => true,
            (Some(selector), Some(labels)) => selector.matches(labels),
            (Some(_), None) => false,
        };
        let shares = self.shares.iter().filter(|(_, selector)| is_for(selector));
        let largest = shares.map(|(share, _)| *share).max().unwrap_or_default();
        match largest {
            0 => false,
            all if all >= BUCKETS => true,
            share => bucket(&self.candidate, owner) < share,
        }
    }

    /// Returns whether pods of every owner pass the candidate.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        let mut shares = self.shares.iter();
        shares.any(|(share, selector)| *share >= BUCKETS && selector.is_none())
    }

    /// Returns whether pods of some owners may pass the candidate.
    #[must_use]
    pub fn takes_some(&self) -> bool {
        self.shares.iter().any(|(share, _)| *share > 0)
    }
}

/// What cannot be read gives nothing.
fn share(share: &RolloutShare) -> Option<(u64, Option<Selector>)> {
    let percent = u64::try_from(share.percent).ok()?.min(100);
    let selector = share.namespace_selector.clone();
    let selector = selector.map(Selector::try_from).transpose().ok()?;
    Some((percent * PERCENT, selector))
}

/// The place of an owner among all, the same in every process and version.
fn bucket(candidate: &str, owner: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(candidate);
    hash.update([0]);
    hash.update(owner);
    let digest = hash.finalize();
    let start = digest.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(start) % BUCKETS
}

/// Returns the one ChainRollout that counts: the oldest one, and of these the first by name.
pub fn first<'r>(
    rollouts: impl IntoIterator<Item = &'r Readable<ChainRolloutObject>>,
) -> Option<&'r ChainRolloutObject> {
    let readable = rollouts.into_iter().filter_map(|it| it.0.as_ref().ok());
    readable.min_by_key(|it| {
        let created = it.metadata.creation_timestamp.as_ref().map(|it| it.0);
        (created.is_none(), created, it.metadata.name.clone())
    })
}

#[cfg(test)]
mod tests;
