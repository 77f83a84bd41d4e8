//! The namespaces that a controller watches: one of its own, or all; objects without a namespace are seen in all.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use kube::core::{ApiResource, NamespaceResourceScope};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

use super::kind::{Context, Kind, ResourceScope};
use super::permits::PassPermits;
use super::readable::Readable;
use super::readiness::Readiness;

/// A namespace that is one of all gets this part of the passes at once.
const SHARE: u16 = 4;

/// A namespace of its own, or all of them, and what all controllers in it share.
#[derive(Clone)]
pub struct WatchScope {
    /// The namespace; none means all, and what is cluster-scoped.
    pub namespace: Option<String>,
    /// What every controller needs.
    pub ctx: Arc<Context>,
    /// Where caches that are not yet filled are noted.
    pub readiness: Readiness,
    /// Ends the controllers gracefully.
    pub stop: CancellationToken,
    /// How passes are bounded, and when all objects are looked at again.
    pub pace: Pace,
}

/// How much is done at once, and how often without a cause.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many objects of a kind are worked on at once, in each scope.
    pub concurrency: u16,
    /// Resync interval.
    pub resync: Duration,
}

impl WatchScope {
    /// Returns the whole cluster, for what is seen once however many namespaces are watched.
    #[must_use]
    pub fn of_cluster(&self) -> Self {
        Self {
            namespace: None,
            ..self.clone()
        }
    }

    /// Returns the objects of a kind of ours in this scope, for one watch; those of a cluster-scoped kind are in none and in all.
    pub fn api_of_kind<K: Kind>(&self, resource: &Arc<ApiResource>) -> Api<Readable<K::Object>> {
        let client = self.watch_client(K::TRAITS.kind);
        match &self.namespace {
            Some(namespace) if K::TRAITS.scope == ResourceScope::Namespaced => {
                Api::namespaced_with(client, namespace, resource)
            }
            _ => Api::all_with(client, resource),
        }
    }

    /// Returns the objects of another kind in this scope, for one watch.
    pub fn api<K>(&self, kind: &'static str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let client = self.watch_client(kind);
        match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }

    /// A client for one watch.
    fn watch_client(&self, kind: &'static str) -> Client {
        self.ctx.metrics.pulses.client(&self.ctx.client, kind)
    }

    /// Returns what logs that a watch broke, here and nowhere else; it restarts after a while.
    pub fn on_watch_error(&self, kind: &'static str) -> impl Fn(&watcher::Error) + Send + use<> {
        let metrics = self.ctx.metrics.clone();
        let namespace = self.namespace.clone();
        move |error| {
            metrics.watch_broke(kind);
            tracing::warn!(
                kind,
                namespace,
                error = error as &dyn std::error::Error,
                "watch broke, restarting"
            );
        }
    }

    /// Returns what resolves when a cache is filled. From this call on until then the cache is noted as awaited, by its name.
    pub fn cache_filled<K>(&self, store: &Store<K>, name: &str) -> BoxFuture<'static, ()>
    where
        K: Resource + Clone + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Send + Sync,
    {
        let cache = match &self.namespace {
            Some(namespace) => format!("{name} of namespace {namespace}"),
            None => name.to_owned(),
        };
        let awaited = self.readiness.await_cache(cache);
        let store = store.clone();
        let filled = async move {
            // A cache whose watch has ended is filled no more. That happens at a stop alone, after which no pass begins.
            let _ended = store.wait_until_ready().await;
            drop(awaited);
        };
        filled.boxed()
    }

    /// The permits of each namespace among the passes, and what wakes those that found none. One namespace alone has all, and so
    /// have the objects that have none.
    pub(super) fn permits<K>(
        &self,
        resource: &Arc<ApiResource>,
    ) -> (
        PassPermits,
        impl Stream<Item = ObjectRef<K>> + Send + use<K>,
    )
    where
        K: Resource<DynamicType = Arc<ApiResource>>,
    {
        let concurrency = self.pace.concurrency;
        let share = match self.namespace {
            Some(_) => concurrency,
            None => (concurrency / SHARE).max(1),
        };
        let (permits, woken) = PassPermits::new(usize::from(share), usize::from(concurrency));
        let resource = Arc::clone(resource);
        let woken = woken.map(move |(namespace, name)| {
            let object = ObjectRef::new_with(&name, Arc::clone(&resource));
            match namespace.as_str() {
                "" => object,
                namespace => object.within(namespace),
            }
        });
        (permits, woken)
    }
}
