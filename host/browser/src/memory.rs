//! What this process knows of Browsers beyond its caches: the pod that it created, how a pod ended, and when it first saw a
//! Browser.
//!
//! Watches lag behind writes. A plan that did not know of a pod which was just created would create a second one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_turns::lock;
use tokio::time::Instant;

use super::cause;
use super::cause::Disruption;
use super::pod::SeenPod;
use super::warm::WarmMemory;

/// A pod that the watch has not shown for this long may be gone, or have lost our label: the API server is asked.
const POD_PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before rejected labels are tried again.
const LABELS_PAUSE: Duration = Duration::from_secs(30);
/// Browsers that disappear unnoticed, as when somebody removes our finalizer, are forgotten after this time.
const FORGET: Duration = Duration::from_hours(1);

/// What is known of each Browser, by its UID.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    /// What is known of warm pods.
    pub(crate) warm: WarmMemory,
}

#[derive(Clone, Default)]
struct Entry {
    /// The pod that we created, and when.
    pod: Option<(Arc<SeenPod>, Instant)>,
    /// When this process first saw the Browser without a pod.
    first_seen: Option<Timestamp>,
    /// When a container of its pod was first seen without its Secret or ConfigMap.
    lacks_config: Option<Timestamp>,
    /// When its pod was first found to be late.
    late: Option<Instant>,
    /// The UID of its last pod that was shown to be gone.
    gone: Option<String>,
    /// Why its pod was evicted or preempted, from the pod's last state.
    disruption: Option<Disruption>,
    /// Why the API server last rejected our labels, and when.
    labels_rejected: Option<(String, Instant)>,
    /// When it was changed last.
    at: Option<Instant>,
}

impl Memory {
    /// Returns the pod that we created for a Browser and that the cache did not show yet, and whether that was so long ago that it may
    /// be gone.
    pub(crate) fn created_pod(&self, browser: &ObjectMeta) -> Option<(Arc<SeenPod>, bool)> {
        self.change(browser, |entry| {
            let (pod, created) = entry.pod.clone()?;
            Some((pod, created.elapsed() >= POD_PATIENCE))
        })
        .flatten()
    }

    /// Returns when this process first saw a Browser that has no pod: now, if this is the first time.
    pub(crate) fn first_seen(&self, browser: &ObjectMeta, now: Timestamp) -> Timestamp {
        // It still waits, so it must not be forgotten.
        self.note(browser, |entry| *entry.first_seen.get_or_insert(now))
    }

    /// Notes that we created a pod for the Browser.
    pub(crate) fn created(&self, browser: &ObjectMeta, pod: Arc<SeenPod>) {
        self.note(browser, |entry| entry.pod = Some((pod, Instant::now())));
    }

    /// Notes that the cache and the status show the pod of the Browser, so that its absence from now on means that it is gone.
    pub(crate) fn pod_is_cached(&self, browser: &ObjectMeta, pod: &SeenPod) {
        self.change(browser, |entry| {
            entry.pod = None;
            entry.first_seen = None;
            if cause::lacks_config(pod).is_none() {
                entry.lacks_config = None;
            }
            if !pod.is_pending() {
                entry.late = None;
            }
        });
    }

    /// Notes that a container of the Browser's pod lacks its configuration, and returns since when: now, if it is new.
    pub(crate) fn lacks_config(&self, browser: &ObjectMeta, now: Timestamp) -> Timestamp {
        self.note(browser, |entry| *entry.lacks_config.get_or_insert(now))
    }

    /// Notes that the API server says that the Browser's pod is late, and returns for how long that is known.
    pub(crate) fn late_for(&self, browser: &ObjectMeta) -> Duration {
        self.note(browser, |entry| {
            entry.late.get_or_insert_with(Instant::now).elapsed()
        })
    }

    /// Notes that the watch shows a pod of the Browser no more, and why it went: the Browser may learn it nowhere else.
    ///
    /// It is gone if an event said so, and it had no grace period left: the API server marks a pod like this before it removes it. That a
    /// list lacks it is no proof, and a pod that loses our label is gone from the watch alone.
    pub(crate) fn pod_went(&self, browser: &ObjectMeta, pod: &SeenPod, is_missed: bool) {
        self.note(browser, |entry| {
            if !is_missed && pod.metadata.deletion_grace_period_seconds == Some(0) {
                entry.gone.clone_from(&pod.metadata.uid);
            }
            entry.disruption = cause::of_disruption(pod);
        });
    }

    /// Returns whether the watch has shown that this pod of the Browser is gone.
    pub(crate) fn saw_go(&self, browser: &ObjectMeta, pod: &str) -> bool {
        self.change(browser, |entry| entry.gone.as_deref() == Some(pod))
            .unwrap_or(false)
    }

    /// Returns why the pod of a Browser was evicted or preempted.
    pub(crate) fn disruption(&self, browser: &ObjectMeta) -> Option<Disruption> {
        self.change(browser, |entry| entry.disruption.clone())
            .flatten()
    }

    /// Notes that the API server rejected our labels.
    pub(crate) fn labels_rejected(&self, browser: &ObjectMeta, sentence: &str) {
        let refused = Some((sentence.to_owned(), Instant::now()));
        self.note(browser, |entry| entry.labels_rejected = refused);
    }

    /// Returns why the API server rejected our labels, if that was a moment ago.
    pub(crate) fn labels_were_rejected(&self, browser: &ObjectMeta) -> Option<String> {
        self.change(browser, |entry| {
            entry.labels_rejected = entry
                .labels_rejected
                .take()
                .filter(|(_, at)| at.elapsed() < LABELS_PAUSE);
            let (sentence, _) = entry.labels_rejected.as_ref()?;
            Some(sentence.clone())
        })
        .flatten()
    }

    /// Forgets a Browser that is gone, and those that disappeared unnoticed.
    pub(crate) fn forget(&self, browser: &ObjectMeta) {
        let mut entries = lock(&self.entries);
        entries.remove(uid(browser));
        self.warm.settled(uid(browser));
        entries.retain(|_, entry| entry.at.is_some_and(|at| at.elapsed() < FORGET));
        if entries.is_empty() {
            entries.shrink_to_fit();
        }
    }

    fn note<T>(&self, browser: &ObjectMeta, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = lock(&self.entries);
        let entry = entries.entry(uid(browser).to_owned()).or_default();
        entry.at = Some(Instant::now());
        change(entry)
    }

    /// Changes an entry, if there is one, and drops it once nothing is left in it.
    fn change<T>(&self, browser: &ObjectMeta, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entries = lock(&self.entries);
        let entry = entries.get_mut(uid(browser))?;
        let changed = change(entry);
        if entry.is_empty() {
            entries.remove(uid(browser));
        }
        Some(changed)
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.pod.is_none()
            && self.first_seen.is_none()
            && self.lacks_config.is_none()
            && self.late.is_none()
            && self.gone.is_none()
            && self.disruption.is_none()
            && self.labels_rejected.is_none()
    }
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
