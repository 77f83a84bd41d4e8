use std::fmt::Write;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;

use podloom_turns::lock;
use tokio::time::Instant;

use super::{Entry, LABELS_PAUSE, Memory};
use crate::pod::SeenPod;
use podloom_model::process::Hashed;
use podloom_model::whole;

/// For the search through all histories.
impl Memory {
    /// Returns a copy that changes independently. Times are whole seconds.
    pub(crate) fn copied(&self) -> Self {
        let copied = |(uid, entry): (&String, &Entry)| {
            let entry = Entry {
                first_seen: entry.first_seen.map(whole),
                lacks_config: entry.lacks_config.map(whole),
                ..entry.clone()
            };
            (uid.clone(), entry)
        };
        let entries = lock(&self.entries).iter().map(copied).collect();
        Self {
            entries: Arc::new(Mutex::new(entries)),
            warm: self.warm.copied(),
        }
    }

    /// Hashes what is known. What was long ago is the same for all of its pauses.
    pub(crate) fn hash(&self, now: Instant, hasher: &mut DefaultHasher) {
        let entries = lock(&self.entries);
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_unstable_by_key(|(uid, _)| *uid);
        let is_old = |at: Instant| now.saturating_duration_since(at) >= LABELS_PAUSE;
        for (uid, entry) in entries {
            let Entry {
                pod,
                first_seen,
                lacks_config,
                late,
                gone,
                disruption,
                labels_rejected,
                at: _,
            } = entry;
            let pod = pod.as_ref().map(|(pod, at)| (pod, is_old(*at)));
            let late = late.map(is_old);
            let labels = labels_rejected.as_ref().map(|(why, at)| (why, is_old(*at)));
            let (first_seen, lacks_config) = (first_seen.map(whole), lacks_config.map(whole));
            let _ = write!(
                Hashed(hasher),
                "{uid}{pod:?}{first_seen:?}{lacks_config:?}{late:?}{gone:?}{disruption:?}{labels:?}"
            );
        }
        self.warm.hash(hasher);
    }
}

fn browser(uid: &str, version: &str) -> ObjectMeta {
    ObjectMeta {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    }
}

#[test]
fn a_created_pod_is_known_until_the_cache_shows_it() {
    let memory = Memory::default();
    let seen = browser("a", "10");
    memory.created(&seen, Arc::new(SeenPod::default()));
    assert!(matches!(memory.created_pod(&seen), Some((_, false))));
    memory.pod_is_cached(&seen, &SeenPod::default());
    assert!(memory.created_pod(&seen).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_created_pod_that_no_cache_shows_is_not_forgotten() {
    let memory = Memory::default();
    let seen = browser("a", "10");
    memory.created(&seen, Arc::new(SeenPod::default()));
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(matches!(memory.created_pod(&seen), Some((_, true))));
}

#[tokio::test(start_paused = true)]
async fn a_browser_is_first_seen_once() {
    let memory = Memory::default();
    let (seen, now) = (browser("a", "10"), Timestamp::UNIX_EPOCH);
    assert_eq!(memory.first_seen(&seen, now), now);
    assert_eq!(memory.first_seen(&seen, Timestamp::MAX), now);
    memory.pod_is_cached(&seen, &SeenPod::default());
    assert!(memory.entries.lock().unwrap().is_empty());
}

#[test]
fn a_missing_secret_is_first_seen_once_until_it_comes() {
    let memory = Memory::default();
    let (seen, now) = (browser("a", "10"), Timestamp::UNIX_EPOCH);
    assert_eq!(memory.lacks_config(&seen, now), now);
    let without: SeenPod = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "a" },
        "status": { "phase": "Pending", "containerStatuses": [
            { "name": "browser", "image": "i", "restartCount": 0, "state": { "waiting": { "reason": "CreateContainerConfigError" } } },
        ] },
    }))
    .unwrap();
    memory.pod_is_cached(&seen, &without);
    assert_eq!(memory.lacks_config(&seen, Timestamp::MAX), now);
    memory.pod_is_cached(&seen, &SeenPod::default());
    assert!(memory.entries.lock().unwrap().is_empty());
}

/// Somebody may take our finalizer off, and then we never hear of the end.
#[tokio::test(start_paused = true)]
async fn browsers_that_vanish_are_forgotten() {
    let memory = Memory::default();
    memory.created(&browser("a", "10"), Arc::new(SeenPod::default()));
    tokio::time::advance(Duration::from_hours(2)).await;
    memory.forget(&browser("b", "1"));
    assert!(memory.entries.lock().unwrap().is_empty());
}

#[test]
fn the_reason_of_an_eviction_is_known_when_the_pod_is_gone() {
    let pod = |conditions: serde_json::Value| -> SeenPod {
        serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "a",
                "ownerReferences": [
                    { "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": "a", "uid": "a", "controller": true },
                ],
            },
            "status": { "conditions": conditions },
        }))
        .unwrap()
    };
    let memory = Memory::default();
    memory.pod_went(&browser("a", "10"), &pod(serde_json::json!([])), false);
    assert_eq!(memory.disruption(&browser("a", "10")), None);
    let evicted = pod(serde_json::json!([
        { "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists" },
    ]));
    memory.pod_went(&browser("a", "10"), &evicted, true);
    let cause = memory.disruption(&browser("a", "10")).unwrap();
    assert_eq!(cause.reason, "DeletionByPodGC");
    assert_eq!(memory.disruption(&browser("b", "10")), None);
}

/// A grace may be longer than anything is remembered; forgotten, it would start over for ever.
#[tokio::test(start_paused = true)]
async fn a_browser_that_waits_for_hours_is_first_seen_once() {
    let memory = Memory::default();
    let (seen, now) = (browser("a", "10"), Timestamp::UNIX_EPOCH);
    memory.first_seen(&seen, now);
    for _ in 0..20 {
        assert_eq!(memory.first_seen(&seen, Timestamp::MAX), now);
        tokio::time::advance(Duration::from_mins(10)).await;
        memory.forget(&browser("b", "1"));
    }
}
