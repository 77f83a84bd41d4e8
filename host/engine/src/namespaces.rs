//! What namespaces say of themselves, for plugins: metadata alone.
//!
//! What is not known is never "no labels": a plugin that selects pods by a label would be skipped. What was known stays in use while
//! namespaces may not be read.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client};
use podloom_mutation::NamespaceMetadata;

pub use super::kind::UnreadNamespaces;
use super::metrics::EngineMetrics;
use super::optional::{Listener, Optional, OptionalCache, WhenRefused, watch_optional};
use super::scope::WatchScope;

type NamespaceMeta = PartialObjectMeta<Namespace>;

/// The namespaces of the cluster. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct Namespaces {
    cache: OptionalCache<NamespaceMeta>,
    unread: UnreadNamespaces,
}

/// Returns what a namespace says of itself.
pub fn about(metadata: ObjectMeta) -> NamespaceMetadata {
    NamespaceMetadata {
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
    }
}

impl Namespaces {
    /// Returns the namespaces and the work that watches them, which has no end. `seen` is called with each event, once it is known.
    pub fn watch(
        client: &Client,
        unread: UnreadNamespaces,
        seen: Listener<NamespaceMeta>,
        metrics: &EngineMetrics,
    ) -> (Self, BoxFuture<'static, ()>) {
        let namespace = Optional {
            kind: "Namespace",
            dyntype: (),
            label: "",
            prune: |namespace: &mut NamespaceMeta| namespace.metadata.managed_fields = None,
            refused: WhenRefused::Kept,
            seen,
        };
        let (cache, work) = watch_optional(client, Api::all, namespace, metrics);
        (Self { cache, unread }, work)
    }

    /// Returns what a cache has that never changes, for tests.
    pub fn of(cache: OptionalCache<NamespaceMeta>) -> Self {
        Self {
            cache,
            unread: UnreadNamespaces::Refused,
        }
    }

    /// Returns what a namespace says of itself; none if that is not known.
    pub fn get(&self, name: &str) -> Option<NamespaceMetadata> {
        match self.meta(name) {
            Some(found) => Some(about(found.metadata.clone())),
            None if self.were_never_readable() && self.unread == UnreadNamespaces::Allowed => {
                Some(NamespaceMetadata::nothing_but(name))
            }
            None => None,
        }
    }

    /// Returns all metadata of a namespace; none if it is not known.
    pub fn meta(&self, name: &str) -> Option<Arc<NamespaceMeta>> {
        self.cache.store().get(&ObjectRef::new(name))
    }

    fn were_never_readable(&self) -> bool {
        self.cache.was_refused() && !self.cache.was_known()
    }
}

/// Returns whether namespaces may not be read. If the API server gives no answer, that is not so.
pub async fn are_refused(client: &Client) -> bool {
    let api: Api<Namespace> = Api::all(client.clone());
    let listed = api.list_metadata(&ListParams::default().limit(1)).await;
    matches!(listed, Err(kube::Error::Api(status)) if status.is_forbidden())
}

/// Returns the namespaces for the controllers in these scopes once they are known or it is known that they may not be read, and the work
/// that watches them; none if there is no scope. Logs which of the watched namespaces do not exist. `seen` is called with each event, once
/// it is known.
pub async fn watch_for(
    scopes: &[WatchScope],
    seen: Listener<NamespaceMeta>,
) -> Option<(Namespaces, BoxFuture<'static, ()>)> {
    let scope = scopes.first()?;
    let ctx = &scope.ctx;
    let (namespaces, mut work) =
        Namespaces::watch(&ctx.client, ctx.unread_namespaces, seen, &ctx.metrics);
    let cache = &namespaces.cache;
    let awaited = scope.readiness.await_cache("namespaces".to_owned());
    tokio::select! {
        _ = cache.store().wait_until_ready() => {}
        () = &mut work => {}
    }
    drop(awaited);
    let watched = scopes.iter().filter_map(|scope| scope.namespace.as_deref());
    for namespace in missing(cache, watched) {
        tracing::warn!(
            namespace,
            "the watched namespace does not exist: correct --namespace, or create it"
        );
    }
    Some((namespaces, work))
}

/// Returns which of these namespaces do not exist. Returns none without the right to read namespaces: then it cannot be known.
fn missing<'n>(
    cache: &OptionalCache<NamespaceMeta>,
    names: impl IntoIterator<Item = &'n str>,
) -> impl Iterator<Item = &'n str> {
    let known = cache.known();
    names
        .into_iter()
        .filter(move |name| known.is_some_and(|store| store.get(&ObjectRef::new(name)).is_none()))
}

#[cfg(test)]
mod tests;
