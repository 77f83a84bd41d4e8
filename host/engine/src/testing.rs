//! For tests of kinds: single passes, without watches and without a queue.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, future};
use kube::Client;
use kube::core::ApiResource;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::backoff::Backoff;
use crate::blocking::BlockingThreads;
use crate::clock::Clock;
use crate::events::{self, Events};
use crate::kind::{Context, Kind};
use crate::metrics::EngineMetrics;
use crate::namespaces::UnreadNamespaces;
use crate::pass::Passes;
use crate::pass::Reported;
use crate::permits::PassPermits;
use crate::queue::Queue;

/// Returns the passes of a kind without watches, as if all caches were filled.
pub fn alone<K: Kind>(kind: Arc<K>, resource: &Arc<ApiResource>, ctx: Context) -> Passes<K> {
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
        recent: Arc::default(),
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
