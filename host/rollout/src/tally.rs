//! What becomes of the pods that passed a chain: whether they become Ready, and whether their containers restart.
//!
//! The pods that were seen last are remembered one by one; those before are only numbers. Bad pods of one owner count once: otherwise a
//! single Deployment that creates its pods again and again would decide for all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use podloom_api::names::annotation;
use podloom_engine::plan::later;
use podloom_turns::lock;

use crate::pod::{WatchedPod, WatchedStatus};

/// How many pods are remembered one by one.
const PODS: usize = 20_000;
/// At most so many bad owners are remembered. A limit is reached long before that.
const OWNERS: usize = 10_000;
/// How many hexadecimal digits a digest has.
const DIGITS: usize = 64;

/// What became of the pods of both chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lives {
    pub(crate) serving: Life,
    pub(crate) candidate: Life,
    /// Whether the right to watch pods is missing, so that nothing is known.
    pub(crate) is_blind: bool,
}

/// What became of the pods of one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Pods that became Ready in time.
    pub(crate) ready: i64,
    /// Owners with a pod that did not, or failed.
    pub(crate) unready: i64,
    /// Owners with a pod of which a container restarted.
    pub(crate) restarted: i64,
    /// All pods that are judged by one of these.
    pub(crate) pods: i64,
}

/// Which pods are counted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    /// Which rollout of which ChainRollout it is: of another one, nothing is remembered.
    pub(crate) rollout: (String, i64),
    /// The digests of the two chains.
    pub(crate) serving: String,
    pub(crate) candidate: String,
    /// Pods that were created before it began do not count.
    pub(crate) since: Timestamp,
    /// In this time they have to be Ready.
    pub(crate) within: Duration,
}

/// The pods that were seen. Cheap to clone; all clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    pods: HashMap<String, SeenPod>,
    /// Their UIDs, the oldest first. Some are gone already.
    order: VecDeque<String>,
    /// The pods of a rollout that are remembered no longer, by their chains.
    past: BTreeMap<String, Sum>,
    counting: Option<Counting>,
    /// How often each watch has begun with a list.
    lists: BTreeMap<usize, u64>,
    /// Pods that were created until then are remembered no longer.
    forgotten: Option<Timestamp>,
    /// The watches that may not see pods.
    blind: BTreeSet<usize>,
}

/// A pod with a stamp.
struct SeenPod {
    chain: String,
    /// A hash of its controller's UID, or of its own.
    owner: u64,
    created: Timestamp,
    ready_at: Option<Timestamp>,
    has_failed: bool,
    has_restarted: bool,
    /// Which watch has shown it, and in or after which of its lists.
    list: (usize, u64),
}

/// A [`Life`] to which pods are added.
#[derive(Clone, Default)]
struct Sum {
    ready: i64,
    pods: i64,
    unready: HashSet<u64>,
    restarted: HashSet<u64>,
}

impl Sum {
    fn add(&mut self, pod: &SeenPod, counting: &Counting, now: Timestamp) {
        let last = later(pod.created, counting.within);
        let is_in_time = pod.ready_at.is_some_and(|at| at <= last);
        let is_bad = pod.has_failed || (!is_in_time && last <= now);
        if !is_bad && !is_in_time && !pod.has_restarted {
            // It still has time.
            return;
        }
        // A bad pod of an owner that has one already is no further case, and no further pod either: a controller makes them without end.
        let mut is_case = !is_bad && !pod.has_restarted;
        for (bad, is_so) in [
            (&mut self.unready, is_bad),
            (&mut self.restarted, pod.has_restarted),
        ] {
            is_case |= is_so && bad.len() < OWNERS && bad.insert(pod.owner);
        }
        if is_case {
            self.pods += 1;
            self.ready += i64::from(is_in_time && !is_bad);
        }
    }

    fn life(&self) -> Life {
        let number = |owners: &HashSet<u64>| i64::try_from(owners.len()).unwrap_or(i64::MAX);
        Life {
            ready: self.ready,
            unready: number(&self.unready),
            restarted: number(&self.restarted),
            pods: self.pods,
        }
    }
}

impl Tally {
    /// Takes an event of one of the watches of pods.
    pub(crate) fn see(&self, watch: usize, event: &Event<WatchedPod>, now: Timestamp) {
        let mut seen = lock(&self.0);
        match event {
            Event::Init => *seen.lists.entry(watch).or_default() += 1,
            Event::Apply(pod) | Event::InitApply(pod) => seen.see(watch, pod, now),
            Event::Delete(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                seen.let_go(uid, now);
            }
            Event::InitDone => seen.listed(watch, now),
        }
    }

    /// A watch lacks the right to see pods.
    pub(crate) fn blind(&self, watch: usize) {
        lock(&self.0).blind.insert(watch);
    }

    /// Returns what became of the pods of a rollout.
    pub(crate) fn lives(&self, counting: &Counting, now: Timestamp) -> Lives {
        let mut seen = lock(&self.0);
        let before = seen.counting.as_ref().map(|it| &it.rollout);
        if before != Some(&counting.rollout) {
            seen.past.clear();
        }
        seen.counting = Some(counting.clone());
        let past = |chain: &String| seen.past.get(chain).cloned().unwrap_or_default();
        let (mut serving, mut candidate) = (past(&counting.serving), past(&counting.candidate));
        for pod in seen.pods.values() {
            if pod.created < counting.since {
                continue;
            }
            if pod.chain == counting.candidate {
                candidate.add(pod, counting, now);
            } else if pod.chain == counting.serving {
                serving.add(pod, counting, now);
            }
        }
        Lives {
            serving: serving.life(),
            candidate: candidate.life(),
            is_blind: !seen.blind.is_empty(),
        }
    }
}

impl Seen {
    fn see(&mut self, watch: usize, pod: &WatchedPod, now: Timestamp) {
        let ObjectMeta {
            uid: Some(uid),
            annotations: Some(annotations),
            creation_timestamp: Some(created),
            owner_references,
            deletion_timestamp,
            ..
        } = &pod.metadata
        else {
            return;
        };
        // Anybody may write one.
        let is_digest =
            |it: &&String| it.len() == DIGITS && it.bytes().all(|it| it.is_ascii_hexdigit());
        let Some(chain) = annotations.get(annotation::CHAIN).filter(is_digest) else {
            return;
        };
        let list = (watch, self.lists.get(&watch).copied().unwrap_or_default());
        let (status, is_deleted) = (&pod.status, deletion_timestamp.is_some());
        if let Some(known) = self.pods.get_mut(uid) {
            known.list = list;
            known.update(status, is_deleted);
            return;
        }
        let since = self.counting.as_ref().map(|it| it.since);
        if since.is_some_and(|since| created.0 < since) || self.forgotten >= Some(created.0) {
            return;
        }
        let mut owners = owner_references.iter().flatten();
        let controller = owners.find(|it| it.controller == Some(true));
        let mut pod = SeenPod {
            chain: chain.clone(),
            owner: hash(controller.map_or(uid, |it| &it.uid)),
            created: created.0,
            ready_at: None,
            has_failed: false,
            has_restarted: false,
            list,
        };
        pod.update(status, is_deleted);
        self.pods.insert(uid.clone(), pod);
        self.order.push_back(uid.clone());
        while self.order.len() > PODS {
            let oldest = self.order.pop_front().unwrap_or_default();
            let created = self.pods.get(&oldest).map(|pod| pod.created);
            self.forgotten = self.forgotten.max(created);
            self.let_go(&oldest, now);
        }
    }

    /// A watch has listed all pods: the others are gone.
    fn listed(&mut self, watch: usize, now: Timestamp) {
        self.blind.remove(&watch);
        let list = (watch, self.lists.get(&watch).copied().unwrap_or_default());
        let is_gone = |pod: &SeenPod| pod.list.0 == watch && pod.list != list;
        let gone = self.pods.iter().filter(|(_, pod)| is_gone(pod));
        let gone: Vec<String> = gone.map(|(uid, _)| uid.clone()).collect();
        for uid in gone {
            self.let_go(&uid, now);
        }
    }

    /// Remembers a pod only as a number.
    fn let_go(&mut self, uid: &str, now: Timestamp) {
        let Some(pod) = self.pods.remove(uid) else {
            return;
        };
        if let Some(counting) = &self.counting
            && pod.created >= counting.since
            && [&counting.serving, &counting.candidate].contains(&&pod.chain)
        {
            let sum = self.past.entry(pod.chain.clone()).or_default();
            sum.add(&pod, counting, now);
        }
    }
}

impl SeenPod {
    fn update(&mut self, status: &WatchedStatus, is_deleted: bool) {
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|it| it.type_ == "Ready" && it.status == "True");
        if self.ready_at.is_none() {
            // One that has succeeded need not have been Ready.
            let at = ready.map(|it| {
                let since = it.last_transition_time.as_ref();
                since.map_or(self.created, |it| it.0)
            });
            self.ready_at = at.or_else(|| (status.phase == "Succeeded").then_some(self.created));
        }
        // A pod that is being deleted often ends with an error.
        self.has_failed |= status.phase == "Failed" && !is_deleted;
        let all = [&status.container_statuses, &status.init_container_statuses];
        let mut all = all.into_iter().flatten();
        self.has_restarted |= all.any(|it| it.restart_count > 0);
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
