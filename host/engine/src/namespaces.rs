//! What namespaces say of themselves, for plugins: metadata alone.
//!
//! What is not known is never "no labels": a plugin that selects pods by a label would be skipped. What was known stays in use while
//! namespaces may not be read.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Client};
use podloom_mutation::NamespaceMetadata;

use super::cache::{Cache, Seen, Watch, WhenRefused};
use super::kind::ResourceScope;
pub use super::kind::UnreadNamespaces;
use super::metrics::EngineMetrics;
use super::scope::WatchScope;

type NamespaceMeta = PartialObjectMeta<Namespace>;

/// The namespaces of the cluster. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct Namespaces {
    cache: Cache<NamespaceMeta>,
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
    /// Returns the namespaces; nothing is known of them until [`Namespaces::fill`] is at work.
    pub fn watch(client: &Client, unread: UnreadNamespaces, metrics: &EngineMetrics) -> Self {
        let cache = Cache::watching(client, metrics, metadata(), [None]);
        Self { cache, unread }
    }

    /// Returns those of a cache, for tests.
    pub fn of(cache: Cache<NamespaceMeta>) -> Self {
        Self {
            cache,
            unread: UnreadNamespaces::Refused,
        }
    }

    /// Returns the work that watches them, which has no end. Call it once.
    pub fn fill(&self) -> BoxFuture<'static, ()> {
        self.cache.fill()
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
        self.cache.get(None, name)
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

/// How namespaces are watched.
pub fn metadata() -> Watch<NamespaceMeta> {
    Watch {
        kind: "Namespace",
        cache: "namespaces",
        resource: (),
        scope: ResourceScope::Cluster,
        api: |client, _, ()| Api::all(client),
        label: "",
        prune: |namespace| namespace.metadata.managed_fields = None,
        refused: WhenRefused::Kept,
    }
}

/// Returns the namespaces for the controllers in these scopes once they are known or it is known that they may not be read, and the work
/// that watches them; none if there is no scope. Logs which of the watched namespaces do not exist. `listener` is called with all that the
/// watch shows.
pub async fn watch_for(
    scopes: &[WatchScope],
    listener: impl Fn(&Seen<'_, NamespaceMeta>) + Send + Sync + 'static,
) -> Option<(Namespaces, BoxFuture<'static, ()>)> {
    let namespaces = Namespaces {
        cache: Cache::new(scopes, metadata()),
        unread: scopes.first()?.ctx.unread_namespaces,
    };
    let cache = &namespaces.cache;
    cache.listen(listener);
    let mut work = cache.fill();
    tokio::select! {
        () = cache.filled(None) => {}
        () = &mut work => {}
    }
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
    cache: &Cache<NamespaceMeta>,
    names: impl IntoIterator<Item = &'n str>,
) -> impl Iterator<Item = &'n str> {
    let is_known = cache.is_known(None);
    names
        .into_iter()
        .filter(move |name| is_known && cache.get(None, name).is_none())
}

#[cfg(test)]
mod tests;
