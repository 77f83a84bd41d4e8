//! What the admission webhooks know of the cluster: BrowserConfigs, TunnelClasses, and what namespaces say of themselves.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Client, Resource};
use podloom_api::{
    BrowserConfigObject, SelenosisApi, SelenosisKind, TunnelClass, TunnelClassObject,
};
use podloom_browser::render::ConfigRef;
use podloom_engine::cache::{Cache, Watch, WhenRefused};
use podloom_engine::namespaces::{self, Namespaces, UnreadNamespaces};
use podloom_engine::readable::Readable;
use podloom_mutation::NamespaceMetadata;
use podloom_portal::Candidate;

use crate::metrics::ControllerMetrics;

/// A BrowserConfig in a cache, without its status, labels and annotations.
type Config = Readable<BrowserConfigObject>;
/// A TunnelClass in a cache, without its status.
type Class = Readable<TunnelClassObject>;

/// Caches for the admission webhooks. Cheap to clone; all clones share the caches.
///
/// Nothing waits for them: until they are filled, and while a right or a CRD is missing, they know nothing.
#[derive(Clone)]
pub struct AdmissionCaches {
    configs: Cache<Config>,
    classes: Cache<Class>,
    namespaces: Namespaces,
}

/// Returns TunnelClasses as they are chosen from.
pub fn candidates(classes: &[Arc<Class>]) -> Vec<Candidate<'_>> {
    classes.iter().map(|class| (&**class).into()).collect()
}

/// Returns the BrowserConfigs that our types can hold.
pub fn config_refs(configs: &[Arc<Config>]) -> Vec<ConfigRef<'_>> {
    let readable = configs.iter().filter_map(|config| config.0.as_ref().ok());
    readable.map(ConfigRef::from).collect()
}

impl AdmissionCaches {
    /// Returns the caches and the work that fills them. The work has no end; to drop it ends the watches.
    ///
    /// Without namespaces, the BrowserConfigs of all namespaces are watched.
    pub fn watch(
        client: &Client,
        api: SelenosisApi,
        namespaces: &[String],
        unread: UnreadNamespaces,
        metrics: &ControllerMetrics,
    ) -> (Self, BoxFuture<'static, ()>) {
        let metrics = &metrics.engine;
        let scopes = match namespaces {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        let caches = Self {
            configs: Cache::watching(client, metrics, configs(api), scopes),
            classes: Cache::watching(client, metrics, classes(), [None]),
            namespaces: Namespaces::watch(client, unread, metrics),
        };
        let work = future::join3(
            caches.configs.fill(),
            caches.classes.fill(),
            caches.namespaces.fill(),
        );
        (caches, work.map(drop).boxed())
    }

    /// Returns caches of what never changes, for tests.
    pub fn of(
        configs: impl IntoIterator<Item = BrowserConfigObject>,
        classes: impl IntoIterator<Item = TunnelClassObject>,
        namespaces: impl IntoIterator<Item = ObjectMeta>,
    ) -> Self {
        let all_configs = configs.into_iter().map(|config| Readable(Ok(config)));
        let all_classes = classes.into_iter().map(|class| Readable(Ok(class)));
        let all_namespaces = namespaces.into_iter().map(|metadata| PartialObjectMeta {
            metadata,
            ..PartialObjectMeta::default()
        });
        Self {
            configs: Cache::of(self::configs(SelenosisApi::default()), all_configs),
            classes: Cache::of(self::classes(), all_classes),
            namespaces: Namespaces::of(Cache::of(namespaces::metadata(), all_namespaces)),
        }
    }

    /// Returns the BrowserConfigs of a namespace that are not being deleted; none if they are not known.
    pub fn configs(&self, namespace: &str) -> Option<Vec<Arc<Config>>> {
        self.configs.is_known(Some(namespace)).then(|| {
            let mut configs = self.configs.all_in(Some(namespace));
            configs.retain(|config| config.meta().deletion_timestamp.is_none());
            configs
        })
    }

    /// Returns all TunnelClasses; none if they are not known.
    pub fn classes(&self) -> Option<Vec<Arc<Class>>> {
        self.classes.is_known(None).then(|| self.classes.all())
    }

    /// Returns what a namespace says of itself; none if that is not known.
    pub fn namespace(&self, name: &str) -> Option<NamespaceMetadata> {
        self.namespaces.get(name)
    }
}

/// How BrowserConfigs are watched. Nobody waits for them.
fn configs(api: SelenosisApi) -> Watch<Config> {
    let resource = Arc::new(api.resource(SelenosisKind::BrowserConfig));
    Watch {
        prune,
        refused: WhenRefused::Forgotten,
        ..Watch::ours("BrowserConfig", "", &resource)
    }
}

/// How TunnelClasses are watched.
fn classes() -> Watch<Class> {
    Watch {
        prune: prune_class,
        refused: WhenRefused::Forgotten,
        ..Watch::ours("TunnelClass", "", &Arc::new(TunnelClass::resource()))
    }
}

/// Removes what no check reads.
fn prune(config: &mut Config) {
    if let Ok(config) = &mut config.0 {
        config.status = None;
    }
    let metadata = config.meta_mut();
    (metadata.labels, metadata.annotations) = (None, None);
}

/// Removes what no check reads.
fn prune_class(class: &mut Class) {
    if let Ok(class) = &mut class.0 {
        class.status = None;
    }
    class.meta_mut().labels = None;
}

#[cfg(test)]
mod tests;
