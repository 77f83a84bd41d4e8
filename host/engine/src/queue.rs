//! The number of objects that wait for a pass.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use podloom_turns::lock;
use prometheus_client::metrics::gauge::Gauge;

/// The capacity that an empty queue keeps, so that a start with thousands of objects does not cost memory for ever.
const KEPT_CAPACITY: usize = 1024;

/// The objects that something woke and whose pass has not started. Those that wait for a backoff or a set time do not count.
#[derive(Clone)]
pub(super) struct Queue(Arc<Inner>);

struct Inner {
    /// Hashes of namespace and name: enough to count, and smaller than names.
    waiting: Mutex<HashSet<u64>>,
    hasher: RandomState,
    depth: Gauge,
}

impl Queue {
    /// Returns a queue that shows its length in the gauge until it is dropped.
    pub(super) fn new(depth: Gauge) -> Self {
        Self(Arc::new(Inner {
            waiting: Mutex::default(),
            hasher: RandomState::new(),
            depth,
        }))
    }

    /// Counts objects that a stream of references wakes.
    pub(super) fn counted<K: Resource>(
        &self,
        objects: impl Stream<Item = ObjectRef<K>> + Send + 'static,
    ) -> impl Stream<Item = ObjectRef<K>> + Send + 'static {
        let queue = self.clone();
        objects.inspect(move |object| queue.insert(object.namespace.as_deref(), &object.name))
    }

    /// Counts an object that waits for a pass.
    pub(super) fn woken(&self, object: &ObjectMeta) {
        self.insert(
            object.namespace.as_deref(),
            object.name.as_deref().unwrap_or_default(),
        );
    }

    /// Removes an object whose pass starts, or that was deleted before.
    pub(super) fn taken(&self, namespace: Option<&str>, name: &str) {
        let mut waiting = lock(&self.0.waiting);
        if waiting.remove(&self.0.hash(namespace, name)) {
            self.0.depth.dec();
        }
        if waiting.is_empty() && waiting.capacity() > KEPT_CAPACITY {
            waiting.shrink_to_fit();
        }
    }

    fn insert(&self, namespace: Option<&str>, name: &str) {
        if lock(&self.0.waiting).insert(self.0.hash(namespace, name)) {
            self.0.depth.inc();
        }
    }
}

impl Inner {
    fn hash(&self, namespace: Option<&str>, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let left = lock(&self.waiting).len();
        self.depth.dec_by(i64::try_from(left).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
