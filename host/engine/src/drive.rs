//! Runs the controller of a kind: kube schedules the objects, and each scheduled object gets a pass.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future};
use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, controller, watcher};
use podloom_turns::lock;
use prometheus_client::metrics::gauge::Gauge;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::kind::Kind;
use super::pass::Passes;
use super::permits::PassPermits;
use super::plain::plain;
use super::readable::Readable;

/// How long running passes may go on after a stop. Their requests could take longer, and until they end no other replica may lead.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a controller until `stop`.
pub(super) async fn drive<K: Kind>(
    controller: Controller<Readable<K::Object>>,
    passes: Passes<K>,
    stop: CancellationToken,
) where
    Readable<K::Object>: DeserializeOwned,
    <Readable<K::Object> as Resource>::DynamicType: Eq + Hash + Clone + Debug + Unpin,
{
    let name = K::TRAITS.controller;
    let (queue, permits) = (passes.queue.clone(), passes.permits.clone());
    let caches = passes.caches.clone();
    let stopped = stop.clone();
    let at_work = Arc::new((passes, stop));
    let done = controller.run(
        |object: Arc<Readable<K::Object>>, at_work| async move {
            let (passes, stop): &(Passes<K>, CancellationToken) = &at_work;
            tokio::select! {
                biased;
                // First, since the watches end at a stop too, and then empty caches count as filled.
                () = stop.cancelled() => return Ok(Action::await_change()),
                () = passes.caches.clone() => {}
            }
            Ok::<_, Infallible>(passes.pass(&object).await)
        },
        |_, never, _| match *never {},
        at_work,
    );
    tokio::select! {
        () = drain(name, queue, permits, done) => {}
        () = stopped.cancelled().then(|()| sleep(STOP_TIMEOUT)) => {
            tracing::warn!(controller = name, after = ?STOP_TIMEOUT, "passes did not end in time and are cancelled");
        }
        // In an empty cluster, no pass polls this future, and readiness would report the caches as not filled for ever.
        () = caches.then(|()| future::pending()) => {}
    }
}

/// Consumes the results of the passes. Errors of watches and passes are logged where they occur.
async fn drain<K, S>(name: &'static str, queue: Queue, permits: PassPermits, passes: S)
where
    K: Resource,
    K::DynamicType: Debug,
    S: Stream<Item = Result<(ObjectRef<K>, Action), controller::Error<Infallible, watcher::Error>>>,
{
    let mut passes = std::pin::pin!(passes);
    while let Some(done) = passes.next().await {
        match done {
            Ok(_) | Err(controller::Error::QueueError(_)) => {}
            Err(controller::Error::ObjectNotFound(id)) => {
                queue.taken(id.namespace.as_deref(), &id.name);
                permits.passed_by(id.namespace.as_deref().unwrap_or_default());
                tracing::debug!(controller = name, object = %id, "deleted before its pass");
            }
            Err(error) => tracing::warn!(
                controller = name,
                error = plain(&error),
                "controller failed"
            ),
        }
    }
}

// The number of objects that wait for a pass.

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

    /// Counts objects that a stream wakes.
    pub(super) fn counted_objects<K: Resource>(
        &self,
        objects: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static {
        let queue = self.clone();
        objects.inspect_ok(move |object| queue.woken(object.meta()))
    }

    /// Counts objects that a stream of references wakes.
    pub(super) fn counted<K: Resource>(
        &self,
        objects: impl Stream<Item = ObjectRef<K>> + Send + 'static,
    ) -> impl Stream<Item = ObjectRef<K>> + Send + 'static {
        let queue = self.clone();
        objects.inspect(move |object| queue.woken_ref(object))
    }

    /// Counts all objects of a cache each time that a stream wakes them.
    pub(super) fn counted_lists<K>(
        &self,
        lists: impl Stream<Item = ()> + Send + 'static,
        objects: Store<K>,
    ) -> impl Stream<Item = ()> + Send + 'static
    where
        K: Resource + Clone + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Send + Sync,
    {
        let queue = self.clone();
        lists.inspect(move |()| {
            for object in objects.state() {
                queue.woken(object.meta());
            }
        })
    }

    /// Counts an object that waits for a pass.
    pub(super) fn woken(&self, object: &ObjectMeta) {
        self.insert(
            object.namespace.as_deref(),
            object.name.as_deref().unwrap_or_default(),
        );
    }

    pub(super) fn woken_ref<K: Resource>(&self, object: &ObjectRef<K>) {
        self.insert(object.namespace.as_deref(), &object.name);
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

// Which unreadable objects were reported: each list request shows them all again.

/// How many objects are remembered. With more, some are reported again.
const MOST: usize = 1000;

/// The resourceVersion of each object when it was reported, by UID.
#[derive(Default)]
pub(super) struct Reported(Mutex<HashMap<String, String>>);

impl Reported {
    /// Whether an object was not reported as it is now; from now on it was.
    pub(super) fn is_new(&self, object: &ObjectMeta) -> bool {
        let uid = object.uid.clone().unwrap_or_default();
        let version = object.resource_version.clone().unwrap_or_default();
        let mut versions = lock(&self.0);
        if versions.len() >= MOST && !versions.contains_key(&uid) {
            versions.clear();
        }
        versions.insert(uid, version.clone()) != Some(version)
    }
}

#[cfg(test)]
mod tests;
