//! What becomes of the pods that passed a chain: whether they become Ready, and whether their containers restart.
//!
//! Only the youngest pods are remembered one by one, a few bytes each; older ones are only numbers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use podloom_api::names::annotation;
use podloom_engine::plan::later;
use podloom_turns::lock;

/// How many pods are remembered one by one.
const PODS: usize = 20_000;

/// What became of the pods of both chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lives {
    pub(crate) serving: Life,
    pub(crate) candidate: Life,
}

/// What became of the pods of one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) ready: i64,
    pub(crate) unready: i64,
    pub(crate) restarted: i64,
    /// Those of which a container restarted before they could be one of the first two.
    pub(crate) early: i64,
}

/// Which pods are counted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    /// Which rollout it is: of another one, nothing is remembered.
    pub(crate) rollout: i64,
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
    past: BTreeMap<String, Life>,
    counting: Option<Counting>,
}

/// A pod with a stamp.
struct SeenPod {
    chain: String,
    created: Timestamp,
    is_ready: bool,
    has_failed: bool,
    has_restarted: bool,
}

impl Life {
    /// How many pods are judged by whether they became Ready.
    pub(crate) fn decided(&self) -> i64 {
        self.ready.saturating_add(self.unready)
    }

    /// How many pods are judged by whether a container restarted.
    pub(crate) fn lived(&self) -> i64 {
        self.decided().saturating_add(self.early)
    }

    fn add(&mut self, pod: &SeenPod, counting: &Counting, now: Timestamp) {
        let is_late = later(pod.created, counting.within) <= now;
        match (pod.is_ready, pod.has_failed || is_late) {
            (true, false) => self.ready += 1,
            (false, true) => self.unready += 1,
            // It was Ready first, and failed then.
            (true, true) if pod.has_failed => self.unready += 1,
            (true, true) => self.ready += 1,
            // It still has time.
            (false, false) => self.early += i64::from(pod.has_restarted),
        }
        self.restarted += i64::from(pod.has_restarted);
    }
}

impl Tally {
    /// Takes an event of the watch of pods.
    pub(crate) fn see(&self, event: &Event<Pod>, now: Timestamp) {
        let mut seen = lock(&self.0);
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => seen.see(pod),
            Event::Delete(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                seen.let_go(uid, now);
            }
            Event::Init | Event::InitDone => {}
        }
    }

    /// Returns what became of the pods of a rollout.
    pub(crate) fn lives(&self, counting: &Counting, now: Timestamp) -> Lives {
        let mut seen = lock(&self.0);
        let before = seen.counting.as_ref().map(|it| it.rollout);
        if before != Some(counting.rollout) {
            seen.past.clear();
        }
        seen.counting = Some(counting.clone());
        let past = |chain: &String| seen.past.get(chain).copied().unwrap_or_default();
        let mut lives = Lives {
            serving: past(&counting.serving),
            candidate: past(&counting.candidate),
        };
        let young = seen.pods.values().filter(|it| it.created >= counting.since);
        for pod in young {
            if pod.chain == counting.candidate {
                lives.candidate.add(pod, counting, now);
            } else if pod.chain == counting.serving {
                lives.serving.add(pod, counting, now);
            }
        }
        lives
    }
}

impl Seen {
    fn see(&mut self, pod: &Pod) {
        let ObjectMeta {
            uid: Some(uid),
            annotations: Some(annotations),
            creation_timestamp: Some(created),
            ..
        } = &pod.metadata
        else {
            return;
        };
        let Some(chain) = annotations.get(annotation::CHAIN) else {
            return;
        };
        let status = pod.status.as_ref();
        if let Some(known) = self.pods.get_mut(uid) {
            known.update(status);
            return;
        }
        let mut pod = SeenPod {
            chain: chain.clone(),
            created: created.0,
            is_ready: false,
            has_failed: false,
            has_restarted: false,
        };
        pod.update(status);
        self.pods.insert(uid.clone(), pod);
        self.order.push_back(uid.clone());
        while self.order.len() > PODS {
            let oldest = self.order.pop_front().unwrap_or_default();
            self.let_go(&oldest, created.0);
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
            let life = self.past.entry(pod.chain.clone()).or_default();
            life.add(&pod, counting, now);
        }
    }
}

impl SeenPod {
    fn update(&mut self, status: Option<&PodStatus>) {
        let Some(status) = status else {
            return;
        };
        let mut conditions = status.conditions.iter().flatten();
        let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
        let phase = status.phase.as_deref().unwrap_or_default();
        self.is_ready |= is_ready || phase == "Succeeded";
        self.has_failed |= phase == "Failed";
        let all = [&status.container_statuses, &status.init_container_statuses];
        let mut all = all.into_iter().flatten().flatten();
        self.has_restarted |= all.any(|it: &ContainerStatus| it.restart_count > 0);
    }
}

/// Keeps what [`Tally`] reads of a pod.
pub(crate) fn prune(pod: &mut Pod) {
    let metadata = std::mem::take(&mut pod.metadata);
    let stamp = metadata
        .annotations
        .and_then(|mut it| it.remove_entry(annotation::CHAIN));
    pod.metadata = ObjectMeta {
        uid: metadata.uid,
        name: metadata.name,
        namespace: metadata.namespace,
        resource_version: metadata.resource_version,
        creation_timestamp: metadata.creation_timestamp,
        annotations: stamp.map(|stamp| BTreeMap::from([stamp])),
        ..ObjectMeta::default()
    };
    pod.spec = None;
}

#[cfg(test)]
mod tests;
