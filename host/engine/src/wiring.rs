//! What wakes the objects of a kind: their own changes, those of objects that they own, and those of others that they depend on.

use std::fmt::Debug;
use std::sync::Arc;

use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future};
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Config, Controller};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::backoff::Backoff;
use super::kind::{Kind, ResourceScope};
use super::pass::Passes;
use super::pass::Reported;
use super::pass::drive;
use super::queue::Queue;
use super::readable::Readable;
use super::recent::Recent;
use super::scope::WatchScope;
use super::watch::{signal_lists, watch_config, watch_into_cache};

/// The events of one watch.
pub type WatchEvents<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// How other objects are watched into a cache.
pub struct Other<K> {
    /// The API of these objects.
    pub api: Api<K>,
    /// The kind, for metrics and logs.
    pub kind: &'static str,
    /// The name of the cache for readiness: the kind in the plural.
    pub cache: &'static str,
    /// The label selector of the watch; empty for all objects.
    pub label: &'static str,
    /// Removes from an object what nothing reads, before it is cached.
    pub prune: fn(&mut K),
}

/// The watches of a kind's controller.
pub struct Wiring<K: Kind> {
    resource: Arc<ApiResource>,
    store: Store<Readable<K::Object>>,
    events: WatchEvents<Readable<K::Object>>,
    caches: Vec<BoxFuture<'static, ()>>,
    triggers: Vec<Trigger<K::Object>>,
    listed: mpsc::Sender<()>,
    lists: mpsc::Receiver<()>,
}

/// Adds a stream to a controller that wakes its objects.
type Trigger<O> =
    Box<dyn FnOnce(Controller<Readable<O>>, &Queue) -> Controller<Readable<O>> + Send>;

impl<K: Kind> Wiring<K>
where
    Readable<K::Object>: DeserializeOwned,
{
    /// Watches the kind in a scope. `cache` is the name of its cache for readiness: the kind in the plural.
    #[must_use]
    pub fn of(scope: &WatchScope, resource: Arc<ApiResource>, cache: &str) -> Self {
        let scope = &match K::TRAITS.scope {
            ResourceScope::Namespaced => scope.clone(),
            ResourceScope::Cluster => scope.of_cluster(),
        };
        let (store, events) = watch_into_cache(
            scope.api_of_kind::<K>(&resource),
            watch_config(),
            resource.clone(),
            |_| {},
            scope.on_watch_error(K::TRAITS.kind),
        );
        let filled = scope.cache_filled(&store, cache);
        Self::cached(resource, store, events.boxed(), filled)
    }

    /// Uses a watch of the caller's, whose cache others read too. Polling the events must fill the cache.
    #[must_use]
    pub fn cached(
        resource: Arc<ApiResource>,
        store: Store<Readable<K::Object>>,
        events: WatchEvents<Readable<K::Object>>,
        filled: BoxFuture<'static, ()>,
    ) -> Self {
        let (listed, lists) = mpsc::channel(1);
        Self {
            resource,
            store,
            events,
            caches: vec![filled],
            triggers: Vec::new(),
            listed,
            lists,
        }
    }

    /// Returns the cache of the kind.
    #[must_use]
    pub fn store(&self) -> Store<Readable<K::Object>> {
        self.store.clone()
    }

    /// Makes passes wait for one more cache.
    pub fn await_cache(&mut self, filled: BoxFuture<'static, ()>) {
        self.caches.push(filled);
    }

    /// Wakes the objects of a stream.
    pub fn wake(
        &mut self,
        objects: impl Stream<Item = ObjectRef<Readable<K::Object>>> + Send + 'static,
    ) {
        self.triggers.push(Box::new(move |controller, queue| {
            controller.reconcile_on(queue.counted(objects))
        }));
    }

    /// Watches objects that those of the kind own, and wakes their controller owners. Returns the cache of the owned objects. `also` is
    /// called with each event before objects are woken.
    pub fn own<C>(
        &mut self,
        scope: &WatchScope,
        other: Other<C>,
        also: impl Fn(&Event<C>) + Send + 'static,
    ) -> Store<C>
    where
        C: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let resource = Arc::clone(&self.resource);
        self.attach(scope, other, also, move |object| {
            owner_of::<K, C>(object, &resource).into_iter().collect()
        })
    }

    /// Watches other objects that those of the kind depend on, and wakes the objects that `wakes` returns for each. Returns the cache of
    /// the others.
    pub fn depend_on<C>(
        &mut self,
        scope: &WatchScope,
        other: Other<C>,
        wakes: impl Fn(&C) -> Vec<ObjectRef<Readable<K::Object>>> + Send + Sync + 'static,
    ) -> Store<C>
    where
        C: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.attach(scope, other, |_| {}, wakes)
    }

    fn attach<C>(
        &mut self,
        scope: &WatchScope,
        other: Other<C>,
        also: impl Fn(&Event<C>) + Send + 'static,
        wakes: impl Fn(&C) -> Vec<ObjectRef<Readable<K::Object>>> + Send + Sync + 'static,
    ) -> Store<C>
    where
        C: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let config = match other.label {
            "" => watch_config(),
            label => watch_config().labels(label),
        };
        let broke = scope.on_watch_error(other.kind);
        let (store, events) = watch_into_cache(other.api, config, (), other.prune, broke);
        self.caches.push(scope.cache_filled(&store, other.cache));
        let events = events.inspect_ok(also);
        let events = signal_lists(events, self.listed.clone()).touched_objects();
        self.triggers.push(Box::new(move |controller, queue| {
            let queue = queue.clone();
            controller.watches_stream(events, move |object| {
                let woken = wakes(&object);
                woken.iter().for_each(|object| queue.woken_ref(object));
                woken
            })
        }));
        store
    }
}

/// Runs the controller of a kind in a scope until it is stopped.
pub fn run<K: Kind>(
    scope: &WatchScope,
    kind: K,
    wiring: Wiring<K>,
) -> impl Future<Output = ()> + Send + use<K>
where
    Readable<K::Object>: DeserializeOwned,
{
    let Wiring {
        resource,
        store,
        events,
        caches,
        triggers,
        listed,
        lists,
    } = wiring;
    let queue = scope.ctx.metrics.queue(K::TRAITS.controller);
    let (permits, free) = scope.permits(&resource);
    let recent = Arc::new(Recent::default());
    let events = without_idle(signal_lists(events, listed), Arc::clone(&recent));
    let own = queue.counted_objects(events.applied_objects());
    let lists = queue.counted_lists(lists, store.clone());
    let config = Config::default().concurrency(scope.pace.concurrency);
    let controller = Controller::for_stream_with(own, store, resource.clone())
        .with_config(config)
        .reconcile_all_on(lists)
        .reconcile_on(free)
        .graceful_shutdown_on(scope.stop.clone().cancelled_owned());
    let controller = triggers
        .into_iter()
        .fold(controller, |controller, trigger| {
            trigger(controller, &queue)
        });
    let passes = Passes {
        kind: Arc::new(kind),
        resource,
        ctx: scope.ctx.clone(),
        caches: future::join_all(caches).map(drop).boxed().shared(),
        queue,
        permits,
        resync: scope.pace.resync,
        backoff: Backoff::new(K::TRAITS.backoff),
        recent,
        reported: Reported::default(),
    };
    drive(controller, passes, scope.stop.clone())
}

/// Leaves out the events of our own writes that need no pass. Lists wake all objects in any case.
fn without_idle<K: Resource + Send + 'static>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    recent: Arc<Recent>,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static {
    events.filter(move |event| {
        let is_idle = matches!(event, Ok(Event::Apply(object)) if recent.is_idle(object.meta()));
        future::ready(!is_idle)
    })
}

/// The controller owner of another object, if it is of this kind.
fn owner_of<K: Kind, C: Resource>(
    owned: &C,
    resource: &Arc<ApiResource>,
) -> Option<ObjectRef<Readable<K::Object>>> {
    let metadata = owned.meta();
    let namespace = match K::TRAITS.scope {
        ResourceScope::Namespaced => metadata.namespace.as_deref(),
        ResourceScope::Cluster => None,
    };
    let owners = metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.controller == Some(true))
        .find_map(|owner| ObjectRef::from_owner_ref(namespace, owner, resource.clone()))
}
