//! A look at a cluster: which workloads have pods that should be replaced.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;

use kube::Client;
use podloom_webhook::OwnerKind;

use super::workload::Workload;
use crate::drift::{Expected, Judge, Need, Pod, Scope, Unwanted, each_pod};
use crate::error::CommandError;
use crate::evict::{Fate, Target};
use crate::feed::Skipped;

/// How many workloads are kept of one namespace, and of all: anyone may write ownerReferences. A later look finds others,
/// once these are done.
const OF_NAMESPACE: usize = 1_000;
const OF_ALL: usize = 10_000;

/// What a look has found.
pub(crate) struct Found {
    pub(crate) judge: Judge,
    /// How many pods should be replaced, and why.
    pub(crate) pods: BTreeMap<Need, u64>,
    /// Those of them that have no controller that is known to replace them.
    pub(crate) manual: u64,
    /// Those of all others, in the order in which they are started.
    pub(crate) workloads: Vec<Workload>,
    /// What could not be read.
    pub(crate) skipped: Vec<Skipped>,
}

impl Found {
    /// Adds what was found in another namespace.
    pub(crate) fn add(&mut self, other: Self) {
        self.judge.namespaces.extend(other.judge.namespaces);
        for (need, pods) in other.pods {
            *self.pods.entry(need).or_default() += pods;
        }
        self.manual += other.manual;
        self.workloads.extend(other.workloads);
        self.skipped.extend(other.skipped);
    }
}

/// What is kept while pods are read.
#[derive(Default)]
struct Kept {
    /// By namespace and UID.
    workloads: HashMap<Id, Workload>,
    /// Those with a pod that is on its way: somebody has begun with them, or their rollout has not ended.
    started: HashSet<Id>,
    /// How many of both each namespace has.
    numbers: HashMap<String, [usize; 2]>,
    pods: BTreeMap<Need, u64>,
    manual: u64,
}

/// A namespace, and a UID in it.
type Id = [String; 2];

/// Looks at the pods of a cluster, one after the other.
pub(crate) async fn look(
    client: &Client,
    scope: &Scope,
    expected: Option<Expected>,
    unwanted: &Unwanted,
    others: &[OwnerKind],
) -> Result<Found, CommandError> {
    let mut kept = Kept::default();
    let take = |judge: &Judge, pod: &Pod<'_>| kept.add(pod, judge.need(pod, unwanted), others);
    let (judge, skipped) = each_pod(client, scope, expected, take).await?;
    Ok(Found {
        judge,
        pods: mem::take(&mut kept.pods),
        manual: kept.manual,
        workloads: kept.in_order(),
        skipped,
    })
}

impl Kept {
    fn add(&mut self, pod: &Pod<'_>, need: Option<Need>, others: &[OwnerKind]) {
        let is_on_its_way = pod.is_being_deleted() || (!pod.is_over() && !pod.is_ready());
        if need.is_none() && !is_on_its_way {
            return;
        }
        let target = Target::of(pod);
        let is_manual = matches!(target.fate(others), Fate::Manual(_));
        if let Some(need) = need {
            *self.pods.entry(need).or_default() += 1;
            self.manual += u64::from(is_manual);
        }
        if is_manual {
            return;
        }
        let id = [target.namespace.clone(), target.owner.uid.clone()];
        let numbers = self.numbers.entry(target.namespace.clone()).or_default();
        let [workloads, started] = numbers;
        if need.is_none() {
            let has_room = *started < OF_NAMESPACE && self.started.len() < OF_ALL;
            if has_room && self.started.insert(id) {
                *started += 1;
            }
            return;
        }
        if !self.workloads.contains_key(&id) {
            if *workloads >= OF_NAMESPACE || self.workloads.len() >= OF_ALL {
                return;
            }
            *workloads += 1;
        }
        let workload = self.workloads.entry(id);
        workload.or_insert_with(|| Workload::of(target)).pods += 1;
    }

    /// The first one of each namespace comes first, and of a namespace one that somebody has begun with.
    fn in_order(self) -> Vec<Workload> {
        let mut all: Vec<_> = self
            .workloads
            .into_iter()
            .map(|(id, workload)| (!self.started.contains(&id), workload))
            .collect();
        all.sort_by_cached_key(|(is_new, workload)| (*is_new, workload.name()));
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut ranked: Vec<_> = all
            .into_iter()
            .map(|(_, workload)| {
                let number = numbers.entry(workload.namespace.clone()).or_default();
                *number += 1;
                (*number, workload)
            })
            .collect();
        // Stable, so that the order of a namespace stays.
        ranked.sort_by_key(|(number, _)| *number);
        ranked.into_iter().map(|(_, workload)| workload).collect()
    }
}

#[cfg(test)]
mod tests;
