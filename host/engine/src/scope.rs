//! What a controller watches: one namespace, or all and the cluster-scoped objects.

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

use super::broken::on_break;
use super::kind::{Context, Kind, ResourceScope};
use super::permits::PassPermits;
use super::readable::Readable;
use super::readiness::Readiness;

/// If all namespaces are watched, one gets at most this part of the concurrent passes.
const SHARE: u16 = 4;

/// One namespace or all of them, and what the controllers in it share.
#[derive(Clone)]
pub struct WatchScope {
    /// The namespace; none means all namespaces and the cluster-scoped objects.
    pub namespace: Option<String>,
    /// What every controller needs.
    pub ctx: Arc<Context>,
    /// Reports which caches are not yet filled.
    pub readiness: Readiness,
    /// Stops the controllers gracefully.
    pub stop: CancellationToken,
    /// Concurrency and resync interval.
    pub pace: Pace,
}

/// Concurrency and resync interval of controllers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many objects of a kind are reconciled at once, in each scope.
    pub concurrency: u16,
    /// Resync interval.
    pub resync: Duration,
}

impl WatchScope {
    /// Returns the scope of the whole cluster, for what is watched once whatever the namespaces are.
    #[must_use]
    pub fn of_cluster(&self) -> Self {
        Self {
            namespace: None,
            ..self.clone()
        }
    }

    /// Returns the same scope with so many passes at once, and at least so many for each namespace.
    #[must_use]
    pub fn with_passes(&self, concurrency: u16, for_each: u16) -> Self {
        let least = match self.namespace {
            Some(_) => for_each,
            None => for_each.saturating_mul(SHARE),
        };
        Self {
            pace: Pace {
                concurrency: concurrency.max(least),
                ..self.pace
            },
            ..self.clone()
        }
    }

    /// Returns the API of the objects of a kind of ours in this scope, for one watch. Cluster-scoped objects are the same in each scope.
    pub fn api_of_kind<K: Kind>(&self, resource: &Arc<ApiResource>) -> Api<Readable<K::Object>> {
        let client = self.watch_client(K::TRAITS.kind);
        match &self.namespace {
            Some(namespace) if K::TRAITS.scope == ResourceScope::Namespaced => {
                Api::namespaced_with(client, namespace, resource)
            }
            _ => Api::all_with(client, resource),
        }
    }

    /// Returns the API of the objects of another namespaced kind in this scope, for one watch.
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

    /// Returns a client for one watch of a kind, whose age is measured.
    pub fn watch_client(&self, kind: &'static str) -> Client {
        self.ctx.metrics.watch_client(&self.ctx.client, kind)
    }

    /// Returns a function that counts and logs the errors of one watch in this scope.
    pub fn on_watch_error(&self, kind: &'static str) -> impl Fn(&watcher::Error) + Send + use<> {
        on_break(&self.ctx.metrics, kind, self.namespace.clone())
    }

    /// Returns a future that resolves when a cache is filled. Until then, from this call on, readiness reports the cache by its name.
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
            // The cache of a watch that ended never fills. That happens only at a stop, after which no pass starts.
            let _ended = store.wait_until_ready().await;
            drop(awaited);
        };
        filled.boxed()
    }

    /// Returns the permits for passes, and the stream of parked objects to wake. A single namespace may use all permits, and so may
    /// cluster-scoped objects.
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

#[cfg(test)]
mod tests;
