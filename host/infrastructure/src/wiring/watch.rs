//! The watches: what fills the caches, and says what changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::core::ApiResource;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use podloom_api::{CloudObject, InfrastructureProviderObject};
use podloom_engine::kind::Kind;
use podloom_engine::optional::{Listener, Optional, OptionalCache, WhenRefused, watch_optional};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::{WatchEvents, Wiring};
use podloom_turns::lock;
use serde::de::DeserializeOwned;

use super::hub::{Change, Hub};
use crate::cloud::Clouds;
use crate::cluster::ClusterKind;
use crate::in_use::Resources;
use crate::probed::{Global, InNamespaces, ProbedKind};
use crate::provider::Providers;
use crate::resolve::{Caches, Twins};
use crate::secrets::{SecretMeta, SecretMetas, SecretMetasOf, prune};
use crate::waking::Scope;

/// What watches tell. They are made before it is, and are polled after it is set.
pub(super) type Knot = Arc<OnceLock<Hub>>;

/// Resolves when a cache is filled.
pub(super) type Filled = Shared<BoxFuture<'static, ()>>;

/// What is called with each change.
type Changed<K> = fn(&Hub, &Change<'_, K>);

/// A kind that is watched: what its controller stands on, and where its objects are woken.
pub(super) struct Watched<K: Kind> {
    pub(super) wiring: Wiring<K>,
    pub(super) waking: Scope,
    pub(super) filled: Filled,
}

/// What is watched in one namespace, or in all of them.
pub(super) struct Place {
    pub(super) scope: WatchScope,
    /// What its objects can name.
    pub(super) caches: Caches,
    pub(super) clusters: Watched<ClusterKind>,
    pub(super) clouds: Watched<ProbedKind<Clouds, InNamespaces>>,
    pub(super) providers: Watched<ProbedKind<Providers, InNamespaces>>,
}

/// The cluster-scoped kinds: watched once for all namespaces, and only if they may be read.
pub(super) struct Everywhere {
    pub(super) clouds: Watched<ProbedKind<Clouds, Global>>,
    pub(super) providers: Watched<ProbedKind<Providers, Global>>,
    cloud_cache: OptionalCache<Readable<CloudObject>>,
    provider_cache: OptionalCache<Readable<InfrastructureProviderObject>>,
}

impl Everywhere {
    /// Watches them. Returns also the work that fills their caches.
    pub(super) fn new(
        scope: &WatchScope,
        resources: &Resources,
        knot: &Knot,
    ) -> (Self, [BoxFuture<'static, ()>; 2]) {
        let clouds = &resources.clouds.global;
        let (clouds, cloud_cache, fill_clouds) =
            Watched::optional(scope, clouds, "GlobalClouds", knot, Hub::cloud);
        let providers = &resources.providers.global;
        let cache = "GlobalInfrastructureProviders";
        let (providers, provider_cache, fill_providers) =
            Watched::optional(scope, providers, cache, knot, Hub::provider);
        let all = Self {
            clouds,
            providers,
            cloud_cache,
            provider_cache,
        };
        (all, [fill_clouds, fill_providers])
    }
}

impl Place {
    /// Watches a scope. `global` is the namespace of the Secrets of cluster-scoped objects.
    pub(super) fn new(
        scope: &WatchScope,
        resources: &Resources,
        everywhere: &Everywhere,
        global: &Arc<str>,
        knot: &Knot,
    ) -> Self {
        let clusters = &resources.clusters;
        let clusters = Watched::new(scope, clusters, "Clusters", knot, Hub::cluster);
        let clouds = &resources.clouds.namespaced;
        let clouds: Watched<ProbedKind<Clouds, InNamespaces>> =
            Watched::new(scope, clouds, "Clouds", knot, Hub::cloud);
        let providers = &resources.providers.namespaced;
        let providers: Watched<ProbedKind<Providers, InNamespaces>> = Watched::new(
            scope,
            providers,
            "InfrastructureProviders",
            knot,
            Hub::provider,
        );
        let caches = Caches {
            clouds: Twins {
                namespaced: clouds.wiring.store(),
                global: everywhere.cloud_cache.clone(),
                resources: resources.clouds.clone(),
            },
            providers: Twins {
                namespaced: providers.wiring.store(),
                global: everywhere.provider_cache.clone(),
                resources: resources.providers.clone(),
            },
            global_secret_namespace: Arc::clone(global),
        };
        Self {
            scope: scope.clone(),
            caches,
            clusters,
            clouds,
            providers,
        }
    }
}

impl<K: Kind> Watched<K>
where
    Readable<K::Object>: DeserializeOwned,
{
    /// Watches a kind in a scope. Its controller fills the cache. `cache` is the kind in the plural.
    fn new(
        scope: &WatchScope,
        resource: &Arc<ApiResource>,
        cache: &str,
        knot: &Knot,
        changed: Changed<K::Object>,
    ) -> Self {
        let writer = Writer::new(Arc::clone(resource));
        let store = writer.as_reader();
        let events = watch_events(
            scope.api_of_kind::<K>(resource),
            watch_config(),
            |_| {},
            scope.on_watch_error(K::TRAITS.kind),
        );
        let resource_of = Arc::clone(resource);
        let events = followed(events, writer, resource_of, Arc::clone(knot), changed);
        Self::of(scope, resource, cache, store, events.boxed())
    }

    /// Watches a kind that perhaps may not be read. Returns also its cache, and the work that fills it.
    fn optional(
        scope: &WatchScope,
        resource: &Arc<ApiResource>,
        cache: &str,
        knot: &Knot,
        changed: Changed<K::Object>,
    ) -> (
        Self,
        OptionalCache<Readable<K::Object>>,
        BoxFuture<'static, ()>,
    ) {
        let optional = Optional {
            kind: K::TRAITS.kind,
            dyntype: Arc::clone(resource),
            label: "",
            prune: |_| {},
            refused: WhenRefused::Forgotten,
            seen: listener(Arc::clone(knot), changed),
        };
        let of = Arc::clone(resource);
        let api = move |client| Api::all_with(client, &of);
        let (objects, fill) = watch_optional(&scope.ctx.client, api, optional, &scope.ctx.metrics);
        let store = objects.store().clone();
        let watched = Self::of(scope, resource, cache, store, stream::pending().boxed());
        (watched, objects, fill)
    }

    fn of(
        scope: &WatchScope,
        resource: &Arc<ApiResource>,
        cache: &str,
        store: Store<Readable<K::Object>>,
        events: WatchEvents<Readable<K::Object>>,
    ) -> Self {
        let filled = scope.cache_filled(&store, cache).shared();
        let ready = filled.clone().boxed();
        let mut wiring = Wiring::cached(Arc::clone(resource), store.clone(), events, ready);
        let waking = Scope::of(scope.namespace.clone());
        wiring.wake(waking.taken(store, Arc::clone(resource)));
        Self {
            wiring,
            waking,
            filled,
        }
    }
}

/// Puts events into the cache, then says what changed.
fn followed<K>(
    events: impl Stream<Item = Result<Event<Readable<K>>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Readable<K>>,
    resource: Arc<ApiResource>,
    knot: Knot,
    changed: Changed<K>,
) -> impl Stream<Item = Result<Event<Readable<K>>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ApiResource> + Clone + Send + Sync + 'static,
{
    let known = writer.as_reader();
    let changed = move |knot: &Knot, before: Option<&Readable<K>>, after: Option<&Readable<K>>| {
        if let Some(hub) = knot.get() {
            changed(hub, &Change { before, after });
        }
    };
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        match event {
            Event::Apply(object) => {
                let before = known.get(&ObjectRef::from_obj_with(object, Arc::clone(&resource)));
                writer.apply_watcher_event(event);
                changed(&knot, before.as_deref(), Some(object));
            }
            Event::Delete(object) => {
                writer.apply_watcher_event(event);
                changed(&knot, Some(object), None);
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
                        changed(&knot, Some(&object), None);
                    }
                }
                if let Some(hub) = knot.get() {
                    hub.all();
                }
            }
        }
    })
}

/// Says what changed of a kind whose cache others fill: it has the event already, so what was before is kept here.
fn listener<K>(knot: Knot, changed: Changed<K>) -> Listener<Readable<K>>
where
    K: Resource<DynamicType = ApiResource> + Clone + Send + Sync + 'static,
{
    // What the watch has shown, and what the list has that is being read.
    let shown = Mutex::new((HashMap::new(), HashMap::new()));
    Box::new(move |event: &Event<Readable<K>>| {
        let Some(hub) = knot.get() else { return };
        let mut shown = lock(&shown);
        let (all, listed) = &mut *shown;
        let (before, after) = match event {
            Event::Apply(object) => (all.insert(object.name_any(), object.clone()), Some(object)),
            Event::Delete(object) => {
                all.remove(&object.name_any());
                (Some(object.clone()), None)
            }
            Event::Init => return listed.clear(),
            Event::InitApply(object) => {
                listed.insert(object.name_any(), object.clone());
                return;
            }
            Event::InitDone => {
                *all = std::mem::take(listed);
                return hub.all();
            }
        };
        let before = before.as_ref();
        changed(hub, &Change { before, after });
    })
}

/// Watches the metadata of the Secrets of all scopes, and of those of cluster-scoped objects, only where it may be read. Returns the
/// caches, and the work that fills them.
pub(super) fn secrets(
    scopes: &[WatchScope],
    global: &str,
    knot: &Knot,
) -> (SecretMetas, Vec<BoxFuture<'static, ()>>) {
    let mut namespaces: Vec<Option<String>> =
        scopes.iter().map(|scope| scope.namespace.clone()).collect();
    let is_covered = |it: &Option<String>| it.as_deref().is_none_or(|it| it == global);
    if !namespaces.iter().any(is_covered) {
        namespaces.push(Some(global.to_owned()));
    }
    let first = scopes.first().into_iter();
    let watched = first.flat_map(|scope| namespaces.iter().map(|it| secrets_of(scope, it, knot)));
    let (caches, work): (Vec<_>, Vec<_>) = watched.unzip();
    (SecretMetas(caches.into()), work)
}

fn secrets_of(
    scope: &WatchScope,
    namespace: &Option<String>,
    knot: &Knot,
) -> (SecretMetasOf, BoxFuture<'static, ()>) {
    let knot = Arc::clone(knot);
    let secrets = Optional {
        kind: "Secret",
        dyntype: (),
        label: "",
        prune,
        refused: WhenRefused::Forgotten,
        seen: Box::new(move |event: &Event<SecretMeta>| {
            let Some(hub) = knot.get() else { return };
            match event {
                Event::Apply(secret) | Event::Delete(secret) => hub.secret(&secret.metadata),
                Event::InitDone => hub.all(),
                Event::Init | Event::InitApply(_) => {}
            }
        }),
    };
    let of = namespace.clone();
    let api = move |client| match &of {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let (cache, work) = watch_optional(&scope.ctx.client, api, secrets, &scope.ctx.metrics);
    let namespace = namespace.clone();
    (SecretMetasOf { namespace, cache }, work)
}

#[cfg(test)]
mod tests;
