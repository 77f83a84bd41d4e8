//! The controllers of one namespace, or of all.

mod browsers;
mod changes;
mod configs;

use std::hash::Hash;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt, future};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ApiResource, DynamicResourceScope, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use podloom_api::{BrowserConfigObject, BrowserObject, Kind};
use tokio_util::sync::CancellationToken;

use super::{Readiness, Setup};
use crate::drive::{Context, Places};
use crate::readable::Readable;

/// Objects as caches hold them: one that cannot be read hides no other.
type Browsers = Readable<BrowserObject>;
type Configs = Readable<BrowserConfigObject>;

/// A namespace that is one of all gets this part of the passes at once.
const SHARE: u16 = 4;

/// A namespace of its own, or all of them.
pub(super) struct Scope {
    pub(super) namespace: Option<String>,
    pub(super) ctx: Arc<Context>,
    pub(super) namespaces: Option<Store<PartialObjectMeta<Namespace>>>,
    pub(super) readiness: Readiness,
    pub(super) stop: CancellationToken,
}

/// Runs both controllers of a scope until they are stopped. Their caches are awaited from this call on, not from its first poll.
pub(super) fn run(scope: &Scope, setup: &Setup) -> impl Future<Output = ()> + Send + use<> {
    let watch = configs::watch(scope, setup);
    let browsers = browsers::run(scope, setup, watch.cache.clone(), watch.of_browsers);
    let configs = configs::run(scope, setup, watch.cache, watch.own);
    future::join(browsers, configs).map(drop)
}

impl Scope {
    /// The objects of a kind of ours in this scope, for one watch.
    fn api<K>(&self, resource: &Arc<ApiResource>, kind: Kind) -> Api<K>
    where
        K: Resource<DynamicType = Arc<ApiResource>, Scope = DynamicResourceScope>,
    {
        let client = self.watching(kind.name());
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        }
    }

    /// A client for one watch.
    fn watching(&self, kind: &'static str) -> Client {
        self.ctx.metrics.pulses.client(&self.ctx.client, kind)
    }

    /// The places of each namespace among the passes, and what wakes those that found none. Where there is one namespace, it has all.
    fn places<K>(
        &self,
        resource: &Arc<ApiResource>,
        concurrency: u16,
    ) -> (Places, impl Stream<Item = ObjectRef<K>> + Send + use<K>)
    where
        K: Resource<DynamicType = Arc<ApiResource>>,
    {
        let each = match self.namespace {
            Some(_) => concurrency,
            None => (concurrency / SHARE).max(1),
        };
        let (places, woken) = Places::new(usize::from(each));
        let resource = Arc::clone(resource);
        let woken = woken.map(move |(namespace, name)| {
            ObjectRef::new_with(&name, Arc::clone(&resource)).within(&namespace)
        });
        (places, woken)
    }

    /// Logs that a watch broke, here and nowhere else; it restarts after a while.
    fn broke(&self, kind: &'static str) -> impl Fn(&watcher::Error) + Send + use<> {
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

    /// Resolves when a cache is filled; until then the cache is told to be awaited.
    fn filled<K>(&self, store: &Store<K>, name: &str) -> impl Future<Output = ()> + Send + use<K>
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
        async move {
            // A cache whose watch has ended is filled no more. That happens at a stop alone, after which no pass begins.
            let _ended = store.wait_until_ready().await;
            drop(awaited);
        }
    }
}
