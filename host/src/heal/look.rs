//! A look at a cluster: which workloads have pods that should be replaced.

use std::collections::{BTreeMap, HashMap};

use kube::Client;
use podloom_webhook::OwnerKind;

use super::workload::Workload;
use crate::drift::{Expected, Judge, Need, Pod, Scope, Unwanted, each_pod};
use crate::error::CommandError;
use crate::evict::{Fate, Target};
use crate::feed::Skipped;

/// How many workloads are kept of one namespace, and of all: anyone may write ownerReferences. The next look finds the others.
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
    /// By namespace and UID, and whether a pod of it is on its way.
    workloads: HashMap<[String; 2], (Workload, bool)>,
    /// How many of them each namespace has.
    numbers: HashMap<String, usize>,
    pods: BTreeMap<Need, u64>,
    manual: u64,
}

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
        pods: kept.pods,
        manual: kept.manual,
        workloads: in_order(kept.workloads.into_values()),
        skipped,
    })
}

impl Kept {
    fn add(&mut self, pod: &Pod<'_>, need: Option<Need>, others: &[OwnerKind]) {
        let is_on_its_way = pod.is_being_deleted() || (!pod.is_over() && !pod.is_ready());
        if let Some(need) = need {
            *self.pods.entry(need).or_default() += 1;
        } else if !is_on_its_way {
            return;
        }
        let target = Target::of(pod);
        if let Fate::Manual(_) = target.fate(others) {
            self.manual += u64::from(need.is_some());
            return;
        }
        let key = [target.namespace.clone(), target.owner.uid.clone()];
        if !self.workloads.contains_key(&key) {
            let number = self.numbers.entry(target.namespace.clone()).or_default();
            if *number >= OF_NAMESPACE || self.workloads.len() >= OF_ALL {
                return;
            }
            *number += 1;
        }
        let workload = self.workloads.entry(key);
        let (workload, is_started) = workload.or_insert_with(|| (Workload::of(target), false));
        workload.pods += u64::from(need.is_some());
        // Somebody has begun with it, or its rollout has not ended.
        *is_started |= need.is_none() && is_on_its_way;
    }
}

/// Those that somebody has begun with come first, and then the first one of each namespace.
fn in_order(workloads: impl Iterator<Item = (Workload, bool)>) -> Vec<Workload> {
    let mut all: Vec<_> = workloads.filter(|(it, _)| it.pods > 0).collect();
    all.sort_by(|(a, a_started), (b, b_started)| (b_started, a.name()).cmp(&(a_started, b.name())));
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut ranked: Vec<_> = all
        .into_iter()
        .map(|(workload, is_started)| {
            let number = numbers.entry(workload.namespace.clone()).or_default();
            *number += 1;
            ((!is_started, *number), workload)
        })
        .collect();
    // Stable, so that names stay in order.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, workload)| workload).collect()
}
