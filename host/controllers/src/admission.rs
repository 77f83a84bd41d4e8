//! What the admission webhooks know of the cluster: BrowserConfigs, TunnelClasses, and what namespaces say of themselves.

use std::hash::Hash;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};
use podloom_api::{
    BrowserConfigObject, SelenosisApi, SelenosisKind, TunnelClass, TunnelClassObject,
};
use podloom_browser::render::ConfigRef;
use podloom_engine::metrics::EngineMetrics;
use podloom_engine::namespaces::{Namespaces, UnreadNamespaces};
use podloom_engine::optional::{Optional, OptionalCache, WhenRefused, watch_optional};
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
    /// One for each watched namespace, or one for all.
    configs: Arc<[(Option<String>, OptionalCache<Config>)]>,
    classes: OptionalCache<Class>,
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
        let scopes: Vec<Option<&str>> = match namespaces {
            [] => vec![None],
            some => some.iter().map(|name| Some(name.as_str())).collect(),
        };
        let (mut configs, mut work) = (Vec::new(), Vec::new());
        for scope in scopes {
            let (store, watch) = watch_configs(client, api, scope, metrics);
            configs.push((scope.map(str::to_owned), store));
            work.push(watch);
        }
        let class = Optional {
            kind: "TunnelClass",
            dyntype: Arc::new(TunnelClass::resource()),
            label: "",
            refused: WhenRefused::Forgotten,
            seen: Box::new(|_| {}),
            prune: prune_class,
        };
        let all = |client| Api::all_with(client, &Arc::new(TunnelClass::resource()));
        let (classes, watch) = watch_optional(client, all, class, metrics);
        work.push(watch);
        let (namespaces, watch) = Namespaces::watch(client, unread, Box::new(|_| {}), metrics);
        work.push(watch);
        let caches = Self {
            configs: configs.into(),
            classes,
            namespaces,
        };
        (caches, future::join_all(work).map(drop).boxed())
    }

    /// Returns caches of what never changes, for tests.
    pub fn of(
        configs: impl IntoIterator<Item = BrowserConfigObject>,
        classes: impl IntoIterator<Item = TunnelClassObject>,
        namespaces: impl IntoIterator<Item = ObjectMeta>,
    ) -> Self {
        let resource = Arc::new(SelenosisApi::default().resource(SelenosisKind::BrowserConfig));
        let configs = configs.into_iter().map(|config| Readable(Ok(config)));
        let class = Arc::new(TunnelClass::resource());
        let classes = classes.into_iter().map(|class| Readable(Ok(class)));
        let namespaces = namespaces.into_iter().map(|metadata| PartialObjectMeta {
            metadata,
            ..PartialObjectMeta::default()
        });
        Self {
            configs: [(None, filled(resource, configs))].into(),
            classes: filled(class, classes),
            namespaces: Namespaces::of(filled((), namespaces)),
        }
    }

    /// Returns the BrowserConfigs of a namespace that are not being deleted; none if they are not known.
    pub fn configs(&self, namespace: &str) -> Option<Vec<Arc<Config>>> {
        let includes = |scope: &Option<String>| scope.as_deref().is_none_or(|it| it == namespace);
        let (_, cache) = self.configs.iter().find(|(scope, _)| includes(scope))?;
        let is_there = |config: &Config| {
            let metadata = config.meta();
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.deletion_timestamp.is_none()
        };
        cache.known().map(|store| store.state_filter(is_there))
    }

    /// Returns all TunnelClasses; none if they are not known.
    pub fn classes(&self) -> Option<Vec<Arc<Class>>> {
        self.classes.known().map(|store| store.state())
    }

    /// Returns what a namespace says of itself; none if that is not known.
    pub fn namespace(&self, name: &str) -> Option<NamespaceMetadata> {
        self.namespaces.get(name)
    }
}

fn watch_configs(
    client: &Client,
    api: SelenosisApi,
    namespace: Option<&str>,
    metrics: &EngineMetrics,
) -> (OptionalCache<Config>, BoxFuture<'static, ()>) {
    let resource = Arc::new(api.resource(SelenosisKind::BrowserConfig));
    let config = Optional {
        kind: "BrowserConfig",
        dyntype: Arc::clone(&resource),
        label: "",
        prune,
        refused: WhenRefused::Forgotten,
        seen: Box::new(|_| {}),
    };
    let namespace = namespace.map(str::to_owned);
    let configs = move |client| match &namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    watch_optional(client, configs, config, metrics)
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

fn filled<K>(dyntype: K::DynamicType, objects: impl Iterator<Item = K>) -> OptionalCache<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let mut writer = Writer::new(dyntype);
    let store = writer.as_reader();
    writer.apply_watcher_event(&Event::Init);
    for object in objects {
        writer.apply_watcher_event(&Event::InitApply(object));
    }
    writer.apply_watcher_event(&Event::InitDone);
    OptionalCache::of(store)
}

#[cfg(test)]
mod tests;
