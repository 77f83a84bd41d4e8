//! The kinds in namespaces, watched in one scope.

use std::sync::Arc;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt};
use kube::core::ApiResource;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::kind::Kind;
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::Wiring;
use serde::de::DeserializeOwned;

use super::hub::{Change, Hub};
use crate::cloud::Clouds;
use crate::cluster::ClusterKind;
use crate::in_use::Resources;
use crate::level::InNamespaces;
use crate::probed::ProbedKind;
use crate::provider::Providers;
use crate::waking::Scope;

/// Resolves when a cache is filled.
pub(super) type Filled = Shared<BoxFuture<'static, ()>>;

/// What fills the caches of a scope.
pub(super) struct Writers {
    pub(super) clusters: Writer<Readable<ClusterObject>>,
    pub(super) clouds: Writer<Readable<CloudObject>>,
    pub(super) providers: Writer<Readable<InfrastructureProviderObject>>,
}

/// What the controllers of a scope stand on.
pub(super) struct Part {
    pub(super) clusters: Wiring<ClusterKind>,
    pub(super) clouds: Wiring<ProbedKind<Clouds, InNamespaces>>,
    pub(super) providers: Wiring<ProbedKind<Providers, InNamespaces>>,
    pub(super) filled: [Filled; 3],
}

/// How a kind is watched.
struct Watched<'a, K: Kind> {
    scope: &'a WatchScope,
    resource: &'a Arc<ApiResource>,
    /// The kind in the plural.
    cache: &'static str,
    /// Where its objects are woken.
    waking: &'a Scope,
    /// Is called with each change.
    changed: fn(&Hub, &Change<'_, K::Object>),
}

impl Writers {
    /// Returns those of new caches.
    pub(super) fn new(resources: &Resources) -> Self {
        Self {
            clusters: Writer::new(Arc::clone(&resources.clusters)),
            clouds: Writer::new(Arc::clone(&resources.clouds.namespaced)),
            providers: Writer::new(Arc::clone(&resources.providers.namespaced)),
        }
    }
}

/// Watches the kinds of a scope, the one of this number.
pub(super) fn watch(
    scope: &WatchScope,
    number: usize,
    writers: Writers,
    resources: &Resources,
    hub: &Hub,
) -> Option<Part> {
    let clusters = Watched::<ClusterKind> {
        scope,
        resource: &resources.clusters,
        cache: "Clusters",
        waking: hub.clusters.0.get(number)?,
        changed: Hub::cluster,
    };
    let (clusters, clusters_filled) = clusters.wired(writers.clusters, hub);
    let clouds = Watched::<ProbedKind<Clouds, InNamespaces>> {
        scope,
        resource: &resources.clouds.namespaced,
        cache: "Clouds",
        waking: hub.clouds.namespaced.0.get(number)?,
        changed: Hub::cloud,
    };
    let (clouds, clouds_filled) = clouds.wired(writers.clouds, hub);
    let providers = Watched::<ProbedKind<Providers, InNamespaces>> {
        scope,
        resource: &resources.providers.namespaced,
        cache: "InfrastructureProviders",
        waking: hub.providers.namespaced.0.get(number)?,
        changed: Hub::provider,
    };
    let (providers, providers_filled) = providers.wired(writers.providers, hub);
    Some(Part {
        clusters,
        clouds,
        providers,
        filled: [clusters_filled, clouds_filled, providers_filled],
    })
}

impl<K: Kind> Watched<'_, K>
where
    Readable<K::Object>: DeserializeOwned,
{
    fn wired(&self, writer: Writer<Readable<K::Object>>, hub: &Hub) -> (Wiring<K>, Filled) {
        let store = writer.as_reader();
        let events = watch_events(
            self.scope.api_of_kind::<K>(self.resource),
            watch_config(),
            |_| {},
            self.scope.on_watch_error(K::TRAITS.kind),
        );
        let events = followed(
            events,
            writer,
            Arc::clone(self.resource),
            hub.clone(),
            self.changed,
        );
        let filled = self.scope.cache_filled(&store, self.cache).shared();
        let mut wiring = Wiring::cached(
            Arc::clone(self.resource),
            store.clone(),
            events.boxed(),
            filled.clone().boxed(),
        );
        wiring.wake(self.waking.taken(store, Arc::clone(self.resource)));
        (wiring, filled)
    }
}

/// Puts events into the cache, then says what changed.
fn followed<K>(
    events: impl Stream<Item = Result<Event<Readable<K>>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Readable<K>>,
    resource: Arc<ApiResource>,
    hub: Hub,
    changed: fn(&Hub, &Change<'_, K>),
) -> impl Stream<Item = Result<Event<Readable<K>>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ApiResource> + Clone + Send + Sync + 'static,
{
    let known = writer.as_reader();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        match event {
            Event::Apply(object) => {
                let before = known.get(&ObjectRef::from_obj_with(object, Arc::clone(&resource)));
                writer.apply_watcher_event(event);
                let change = Change {
                    before: before.as_deref(),
                    after: Some(object),
                };
                changed(&hub, &change);
            }
            Event::Delete(object) => {
                writer.apply_watcher_event(event);
                changed(&hub, &gone(object));
            }
            Event::Init | Event::InitApply(_) => writer.apply_watcher_event(event),
            // What went while the watch was broken shows in no event.
            Event::InitDone => {
                let before = known.state();
                writer.apply_watcher_event(event);
                for object in before {
                    let reference = ObjectRef::from_obj_with(&*object, Arc::clone(&resource));
                    let now = known.get(&reference);
                    if now.is_none_or(|now| now.uid() != object.uid()) {
                        changed(&hub, &gone(&object));
                    }
                }
                hub.all();
            }
        }
    })
}

fn gone<K>(object: &Readable<K>) -> Change<'_, K> {
    Change {
        before: Some(object),
        after: None,
    }
}

#[cfg(test)]
mod tests;
