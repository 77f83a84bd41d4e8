//! What this process wrote and its caches may not show yet.
//!
//! Watches lag behind writes. A plan made on an older object than the one just written would undo or repeat what was done,
//! and, worst of all, make a second pod. So a Browser is left alone until its cache shows our last write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::core::ObjectMeta;

use crate::pod::SeenPod;

/// After this time a cache that does not show a write never will, and what it shows is the truth.
/// It outlasts a watch that breaks and begins anew a few times.
const PATIENCE: Duration = Duration::from_secs(30);
/// A pod that its watch does not show for so long may be gone, or hide: the API server knows.
const POD_PATIENCE: Duration = Duration::from_secs(5);

/// The last writes of each Browser, by its UID, until the caches show them.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<String, Entry>>);

struct Entry {
    /// The resourceVersion that our last write of the Browser gave it.
    version: Option<u64>,
    /// The pod that we created.
    pod: Option<Arc<SeenPod>>,
    at: Instant,
}

impl Memory {
    /// Returns whether the cached Browser is older than our last write of it.
    pub(crate) fn is_ahead_of(&self, cached: &ObjectMeta) -> bool {
        self.with(cached, |entry| entry.version > version(cached))
            .unwrap_or_default()
    }

    /// Returns the pod that we created for a Browser and that the cache may not show yet.
    pub(crate) fn created_pod(&self, browser: &ObjectMeta) -> Option<Arc<SeenPod>> {
        self.with(browser, |entry| {
            let is_fresh = entry.at.elapsed() < POD_PATIENCE;
            entry.pod.clone().filter(|_| is_fresh)
        })
        .flatten()
    }

    /// Notes that we wrote the Browser, and that it is now like this.
    pub(crate) fn wrote(&self, browser: &ObjectMeta) {
        self.note(browser, |entry| entry.version = version(browser));
    }

    /// Notes that we created a pod for the Browser.
    pub(crate) fn created(&self, browser: &ObjectMeta, pod: Arc<SeenPod>) {
        self.note(browser, |entry| entry.pod = Some(pod));
    }

    /// Notes that the cache shows the pod of the Browser, so that its absence from now on means that it is gone.
    pub(crate) fn pod_is_cached(&self, browser: &ObjectMeta) {
        self.note_if_known(browser, |entry| entry.pod = None);
    }

    /// Forgets a Browser that is gone, and whatever nobody asked about for long.
    pub(crate) fn forget(&self, browser: &ObjectMeta) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(uid(browser));
        entries.retain(|_, entry| entry.at.elapsed() < PATIENCE);
        if entries.is_empty() {
            entries.shrink_to_fit();
        }
    }

    fn with<T>(&self, browser: &ObjectMeta, ask: impl FnOnce(&Entry) -> T) -> Option<T> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(uid(browser))?;
        (entry.at.elapsed() < PATIENCE).then(|| ask(entry))
    }

    fn note(&self, browser: &ObjectMeta, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.entry(uid(browser).to_owned()).or_insert(Entry {
            version: None,
            pod: None,
            at: Instant::now(),
        });
        entry.at = Instant::now();
        change(entry);
    }

    fn note_if_known(&self, browser: &ObjectMeta, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(uid(browser)) {
            change(entry);
        }
        let is_settled = |entry: &Entry| entry.pod.is_none() && entry.version <= version(browser);
        if entries.get(uid(browser)).is_some_and(is_settled) {
            entries.remove(uid(browser));
        }
    }
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// Resource versions of one kind are numbers that grow (KEP-5504); one that is no number compares as the oldest.
fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
