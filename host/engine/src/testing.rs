//! For tests of kinds: single passes, without watches and without a queue.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, future};
use kube::Client;
use kube::core::{ApiResource, ObjectMeta};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::blocking::BlockingThreads;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::events::{self, Events};
use crate::kind::{Context, Kind};
use crate::metrics::EngineMetrics;
use crate::namespaces::UnreadNamespaces;
use crate::pass::Passes;
use crate::pass::Reported;
use crate::permits::PassPermits;
use crate::queue::Queue;
use crate::readable::Readable;
use crate::recent::Recent;
use crate::wiring::Wiring;

/// What the engine remembers of its own writes from one pass to the next.
#[derive(Default)]
pub struct OwnWrites(Arc<Recent>);

impl Clone for OwnWrites {
    /// Returns a copy that changes independently.
    fn clone(&self) -> Self {
        Self(Arc::new(self.0.copied()))
    }
}

impl OwnWrites {
    /// Notes that a pass over an object begins.
    pub fn begin(&self, object: &ObjectMeta) {
        self.0.begin(object);
    }

    /// Notes that a pass over an object has ended. Returns whether an event that came meanwhile needs another one.
    pub fn end(&self, object: &ObjectMeta) -> bool {
        self.0.end(object)
    }

    /// Hashes what is remembered at a time: equal ones answer equally.
    pub fn hash(&self, now: Instant, hasher: &mut impl Hasher) {
        self.0.hash(now, hasher);
    }

    /// Returns the wiring of a controller that has made these writes.
    pub fn wiring<K: Kind>(&self, own: &Cache<Readable<K::Object>>) -> Wiring<K>
    where
        Readable<K::Object>: DeserializeOwned,
    {
        Wiring::with(own, Arc::clone(&self.0))
    }
}

/// Returns the passes of a kind without watches, as if all caches were filled.
pub fn alone<K: Kind>(kind: Arc<K>, resource: &Arc<ApiResource>, ctx: Context) -> Passes<K> {
    after(&OwnWrites::default(), kind, resource, ctx)
}

/// Returns the passes of a process that has made these writes, and notes its next ones there.
pub fn after<K: Kind>(
    writes: &OwnWrites,
    kind: Arc<K>,
    resource: &Arc<ApiResource>,
    ctx: Context,
) -> Passes<K> {
    let caches: Shared<BoxFuture<'static, ()>> = future::ready(()).boxed().shared();
    Passes {
        kind,
        resource: Arc::clone(resource),
        ctx: Arc::new(ctx),
        caches,
        queue: Queue::new(Gauge::default()),
        permits: PassPermits::new(usize::MAX, usize::MAX).0,
        resync: Duration::from_mins(10),
        backoff: Backoff::new(K::TRAITS.backoff),
        recent: Arc::clone(&writes.0),
        reported: Reported::default(),
    }
}

/// Returns what passes need, with this client. Events are not sent.
pub fn context(client: Client) -> Context {
    let mut registry = Registry::default();
    let metrics = events::metrics(&mut registry);
    let (events, _unsent) = Events::new(&client, None, "Reconcile", metrics);
    Context {
        client,
        events,
        clock: Clock::new(),
        metrics: EngineMetrics::collected(&mut registry),
        blocking: BlockingThreads::new(),
        unread_namespaces: UnreadNamespaces::Refused,
    }
}
