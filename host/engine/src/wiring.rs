//! What wakes the objects of a kind: their own changes, those of objects that they own, and those of others that they depend on.

use std::sync::Arc;

use futures::future::{self, BoxFuture};
use futures::{FutureExt, stream};
use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Config, Controller};
use serde::de::DeserializeOwned;

use super::backoff::Backoff;
use super::cache::{Cache, Cacheable, Change, Seen};
use super::kind::{Kind, ResourceScope};
use super::metrics::Phases;
use super::pass::Passes;
use super::pass::Reported;
use super::pass::drive;
use super::readable::Readable;
use super::recent::Recent;
use super::scope::WatchScope;

/// The cache of a kind.
type Own<K> = Cache<Readable<<K as Kind>::Object>>;

/// Returns what passes in a watch scope of this namespace, or of all, wait for.
type Filled = Box<dyn Fn(Option<&str>) -> BoxFuture<'static, ()> + Send>;

/// A controller before it runs: what wakes its objects, and what its passes wait for.
///
/// Whoever made the caches fills them, beside the work that [`Wiring::run`] returns.
#[must_use]
pub struct Wiring<K: Kind>
where
    Readable<K::Object>: DeserializeOwned,
{
    own: Own<K>,
    recent: Arc<Recent>,
    caches: Vec<Filled>,
    phases: Option<Phases>,
}

impl<K: Kind> Wiring<K>
where
    Readable<K::Object>: DeserializeOwned,
{
    /// The objects of this cache wake themselves when they change, but for our own writes that need no pass. After a list, all are woken:
    /// what went meanwhile has no event, and what came has one before the cache has it.
    pub fn new(own: &Own<K>) -> Self {
        Self::with(own, Arc::default())
    }

    /// Does the same for a controller that has made writes already.
    pub(super) fn with(own: &Own<K>, recent: Arc<Recent>) -> Self {
        let (woken, writes) = (own.clone(), Arc::clone(&recent));
        own.listen(move |seen| match seen {
            Seen::Coming(_) => {}
            Seen::Changed(change) => {
                if let Some(object) = change.after.filter(|it| !writes.is_idle(it.meta())) {
                    woken.wake_it(object);
                }
            }
            Seen::Listed(namespace) => woken.wake_in(*namespace),
        });
        let wiring = Self {
            own: own.clone(),
            recent,
            caches: Vec::new(),
            phases: None,
        };
        wiring.awaits_in_scope(own)
    }

    /// Objects of another cache wake their controller owners; one that gets another owner wakes both.
    pub fn owns<C: Cacheable>(self, other: &Cache<C>) -> Self {
        let resource = Arc::clone(self.own.resource());
        self.watches(other, move |own, change| {
            // One that gets another owner concerns both.
            let is_handed_over = change.differs(|it| &it.meta().owner_references);
            let before = change.before.filter(|_| is_handed_over);
            for object in before.into_iter().chain(change.after) {
                if let Some(owner) = owner_of::<K, C>(object, &resource) {
                    own.wake(owner.namespace.as_deref(), &owner.name);
                }
            }
        })
    }

    /// Changes of another cache wake objects, and after each list of it all are woken. Passes wait for it.
    pub fn watches<C: Cacheable>(
        self,
        other: &Cache<C>,
        wake: impl Fn(&Own<K>, &Change<'_, C>) + Send + Sync + 'static,
    ) -> Self {
        self.hears(other, wake).awaits_in_scope(other)
    }

    /// Does the same, but passes do not wait.
    pub fn hears<C: Cacheable>(
        self,
        other: &Cache<C>,
        wake: impl Fn(&Own<K>, &Change<'_, C>) + Send + Sync + 'static,
    ) -> Self {
        let own = self.own.clone();
        other.listen(move |seen| match seen {
            Seen::Coming(_) => {}
            Seen::Changed(change) => wake(&own, change),
            Seen::Listed(namespace) => match K::TRAITS.scope {
                ResourceScope::Namespaced => own.wake_in(*namespace),
                ResourceScope::Cluster => own.wake_in(None),
            },
        });
        self
    }

    /// Passes wait for what another cache has of their watch scope.
    pub fn awaits_in_scope<C: Cacheable>(mut self, other: &Cache<C>) -> Self {
        let other = other.clone();
        self.caches
            .push(Box::new(move |namespace| other.filled(namespace)));
        self
    }

    /// Passes wait for this.
    pub fn awaits(mut self, filled: impl Future<Output = ()> + Send + 'static) -> Self {
        let filled = filled.boxed().shared();
        self.caches.push(Box::new(move |_| filled.clone().boxed()));
        self
    }

    /// The objects are counted by phase while the controller runs, and no longer, however it ends.
    pub fn counts(
        mut self,
        unreadable: &'static str,
        phase: fn(&K::Object) -> &'static str,
    ) -> Self {
        self.phases = Some(phases(self.own.clone(), unreadable, phase));
        self
    }

    /// Runs the controller in the scopes of its cache until they are stopped.
    pub fn run(self, scopes: &[WatchScope], kind: K) -> impl Future<Output = ()> + Send + use<K> {
        let counted = scopes.first().zip(self.phases).map(|(scope, phases)| {
            let objects = &scope.ctx.metrics.objects;
            objects.count(K::TRAITS.controller, phases)
        });
        let scopes: Vec<WatchScope> = match K::TRAITS.scope {
            ResourceScope::Namespaced => scopes.to_vec(),
            ResourceScope::Cluster => scopes.iter().take(1).map(WatchScope::of_cluster).collect(),
        };
        let (kind, own, recent) = (Arc::new(kind), self.own, self.recent);
        let awaited = self.caches;
        let controllers = scopes.into_iter().zip(own.parts()).map(|(scope, part)| {
            let queue = scope.ctx.metrics.queue(K::TRAITS.controller);
            let (permits, free) = scope.permits(own.resource());
            let resource = own.resource();
            let caches = awaited
                .iter()
                .map(|filled| filled(scope.namespace.as_deref()));
            let caches = future::join_all(caches.collect::<Vec<_>>());
            // All that wakes objects is noted in the cache.
            let never = stream::pending();
            let controller =
                Controller::for_stream_with(never, part.store.clone(), resource.clone())
                    .with_config(Config::default().concurrency(scope.pace.concurrency))
                    .reconcile_on(queue.counted(own.woken(part)))
                    .reconcile_on(free)
                    .graceful_shutdown_on(scope.stop.clone().cancelled_owned());
            let passes = Passes {
                kind: Arc::clone(&kind),
                resource: Arc::clone(resource),
                ctx: scope.ctx,
                caches: caches.map(drop).boxed().shared(),
                queue,
                permits,
                resync: scope.pace.resync,
                backoff: Backoff::new(K::TRAITS.backoff),
                recent: Arc::clone(&recent),
                reported: Reported::default(),
            };
            drive(controller, passes, scope.stop)
        });
        let controllers: Vec<_> = controllers.collect();
        future::join_all(controllers).map(move |_| drop(counted))
    }
}

/// Returns the phase of each object of a cache, for as long as it is asked.
pub fn phases<K>(
    cache: Cache<Readable<K>>,
    unreadable: &'static str,
    phase: fn(&K) -> &'static str,
) -> Phases
where
    Readable<K>: Cacheable,
{
    let of = move |object: &Arc<Readable<K>>| object.0.as_ref().map_or(unreadable, phase);
    Arc::new(move || cache.all().iter().map(of).collect())
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
