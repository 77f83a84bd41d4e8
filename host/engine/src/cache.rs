//! One cache of a kind: what its watches show, whom a change of it concerns, and which of its objects are to be looked at.
//!
//! A [`Cache`] covers all watched namespaces; inside, each of them has a watch and a store of its own. Each event updates the store first,
//! and only then the listeners hear of it, so an object that is woken finds the change in the cache. Some kinds are optional: a right or a
//! CRD may be missing, for now or for ever.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, future, stream};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicResourceScope, NamespaceResourceScope, Status};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use podloom_turns::lock;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, SetOnce};
use tokio::time::{Instant, sleep};

use super::backoff::WatchBackoff;
use super::broken::on_break;
use super::kind::{Kind, ResourceScope};
use super::metrics::EngineMetrics;
use super::plain::plain;
use super::readable::Readable;
use super::readiness::Awaited;
use super::scope::WatchScope;
use super::wakes::{Noted, Wakes};
use super::watch::{watch_config, watch_events};

/// How long to wait at most, twice that with jitter, before it is asked again whether something that was missing is there. It is asked
/// soon at first, since a right may be missing for a moment: while its role binding is replaced.
const LATER: Duration = Duration::from_secs(30);

/// After this time without it, a right that was never there is taken for one that is not given.
const SETTLED: Duration = Duration::from_mins(5);

/// What can be cached.
pub trait Cacheable:
    Resource<DynamicType: Eq + Hash + Clone + Debug + Send + Sync + Unpin>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Cacheable for K where
    K: Resource<DynamicType: Eq + Hash + Clone + Debug + Send + Sync + Unpin>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// What is watched, and how.
pub struct Watch<K: Cacheable> {
    /// The kind, for metrics and logs.
    pub kind: &'static str,
    /// The name of the cache for readiness: the kind in the plural; empty if nobody waits for it.
    pub cache: &'static str,
    /// The dynamic type.
    pub resource: K::DynamicType,
    /// Whether the objects are in namespaces.
    pub scope: ResourceScope,
    /// Returns the API of the objects of a namespace, or of all.
    pub api: fn(Client, Option<&str>, &K::DynamicType) -> Api<K>,
    /// The label selector; empty for all objects.
    pub label: &'static str,
    /// Removes from an object what nothing reads, before it is cached.
    pub prune: fn(&mut K),
    /// What to do while we have no right to read the objects.
    pub refused: WhenRefused,
}

/// What to do while we have no right to read the objects, or their kind is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenRefused {
    /// Wait: the cache is not filled until the first list succeeds.
    Awaited,
    /// Empty the cache, and do not make passes wait.
    Forgotten,
    /// Keep the objects as they were last seen, and do not make passes wait.
    Kept,
}

impl<K: Cacheable + Resource<DynamicType = (), Scope = NamespaceResourceScope>> Watch<K> {
    /// All objects of a kind of Kubernetes.
    pub fn of(kind: &'static str, cache: &'static str) -> Self {
        Self {
            kind,
            cache,
            resource: (),
            scope: ResourceScope::Namespaced,
            api: |client, namespace, ()| match namespace {
                Some(namespace) => Api::namespaced(client, namespace),
                None => Api::all(client),
            },
            label: "",
            prune: |_| {},
            refused: WhenRefused::Awaited,
        }
    }
}

impl<K> Watch<Readable<K>>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    Readable<K>: Cacheable + Resource<DynamicType = Arc<ApiResource>, Scope = DynamicResourceScope>,
{
    /// All objects of the kind that a controller is of.
    pub fn of_kind<C: Kind<Object = K>>(cache: &'static str, resource: &Arc<ApiResource>) -> Self {
        Self {
            scope: C::TRAITS.scope,
            ..Self::ours(C::TRAITS.kind, cache, resource)
        }
    }

    /// All objects of a kind of ours in namespaces.
    pub fn ours(kind: &'static str, cache: &'static str, resource: &Arc<ApiResource>) -> Self {
        Self {
            kind,
            cache,
            resource: Arc::clone(resource),
            scope: ResourceScope::Namespaced,
            api: |client, namespace, resource| match namespace {
                Some(namespace) => Api::namespaced_with(client, namespace, resource),
                None => Api::all_with(client, resource),
            },
            label: "",
            prune: |_| {},
            refused: WhenRefused::Awaited,
        }
    }
}

/// What a watch shows.
pub enum Seen<'a, K> {
    /// An object as it is now. The cache has it in a moment, or at the end of the list that is being read: wake only who does not read it
    /// there.
    Coming(&'a K),
    /// An object came, changed or went, and the cache shows it.
    Changed(Change<'a, K>),
    /// The cache has a new list of this namespace, or of all. Deletions that the watch missed were reported just before.
    Listed(Option<&'a str>),
}

/// What an object was and what it is, as far as there was and is something.
pub struct Change<'a, K> {
    /// The object before.
    pub before: Option<&'a K>,
    /// The object now.
    pub after: Option<&'a K>,
    /// Whether no event said so: a new list lacks what there was. It may still be there, if the list came from an API server that lags.
    pub is_missed: bool,
}

impl<'a, K> Change<'a, K> {
    /// Returns what there was and is.
    pub fn both(&self) -> impl Iterator<Item = &'a K> + use<'a, K> {
        self.before.into_iter().chain(self.after)
    }

    /// Returns what there is, or was last.
    pub fn latest(&self) -> Option<&'a K> {
        self.after.or(self.before)
    }

    /// Returns whether this differs between what there was and is.
    pub fn differs<T: PartialEq>(&self, of: impl Fn(&'a K) -> T) -> bool {
        self.before.map(&of) != self.after.map(of)
    }
}

/// Is called with all that the watches of a cache show.
type Listener<K> = Box<dyn Fn(&Seen<'_, K>) + Send + Sync>;

/// The objects of a kind in all watched namespaces. Cheap to clone; all clones share them.
pub struct Cache<K: Cacheable>(Arc<Inner<K>>);

impl<K: Cacheable> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Inner<K: Cacheable> {
    watch: Watch<K>,
    parts: Vec<Arc<Part<K>>>,
    listeners: Mutex<Vec<Listener<K>>>,
    /// None if nothing is watched, in tests.
    from: Option<(Client, EngineMetrics)>,
}

/// What one watch fills.
pub(super) struct Part<K: Cacheable> {
    /// The namespace; none for all, and for cluster-scoped objects.
    namespace: Option<String>,
    pub(super) store: Store<K>,
    writer: Mutex<Writer<K>>,
    wakes: Wakes,
    is_known: AtomicBool,
    was_known: AtomicBool,
    /// Is set once the objects are known, or it is known that they may not be read. The store's own signal wakes only who asked last.
    filled: SetOnce<()>,
    /// Since when the objects may not be read, or might not be once.
    refused: OnceLock<Instant>,
    /// Reports it as not yet filled.
    awaited: Mutex<Option<Awaited>>,
}

impl<K: Cacheable> Cache<K> {
    /// Returns a cache for the watch scopes. From now on, readiness reports it until it is filled.
    pub fn new(scopes: &[WatchScope], watch: Watch<K>) -> Self {
        let namespaces: Vec<Option<String>> = match watch.scope {
            ResourceScope::Namespaced => scopes.iter().map(|it| it.namespace.clone()).collect(),
            ResourceScope::Cluster => vec![None],
        };
        let Some(scope) = scopes.first() else {
            return Self::unwatched(watch, namespaces);
        };
        let (client, metrics) = (&scope.ctx.client, &scope.ctx.metrics);
        let cache = Self::watching(client, metrics, watch, namespaces);
        let name = cache.0.watch.cache;
        for part in cache.0.parts.iter().filter(|_| !name.is_empty()) {
            let name = match &part.namespace {
                Some(namespace) => format!("{name} of namespace {namespace}"),
                None => name.to_owned(),
            };
            *lock(&part.awaited) = Some(scope.readiness.await_cache(name));
        }
        cache
    }

    /// Returns a cache of these namespaces, or of all, that readiness does not report.
    pub fn watching(
        client: &Client,
        metrics: &EngineMetrics,
        watch: Watch<K>,
        namespaces: impl IntoIterator<Item = Option<String>>,
    ) -> Self {
        Self::with(watch, namespaces, Some((client.clone(), metrics.clone())))
    }

    /// Returns a cache that [`Cache::show`] fills, for tests.
    pub fn unwatched(
        watch: Watch<K>,
        namespaces: impl IntoIterator<Item = Option<String>>,
    ) -> Self {
        Self::with(watch, namespaces, None)
    }

    /// Returns a cache of these objects of all namespaces, for tests.
    pub fn of(watch: Watch<K>, objects: impl IntoIterator<Item = K>) -> Self {
        let cache = Self::unwatched(watch, [None]);
        cache.show(None, &Event::Init);
        for object in objects {
            cache.show(None, &Event::InitApply(object));
        }
        cache.show(None, &Event::InitDone);
        cache
    }

    fn with(
        watch: Watch<K>,
        namespaces: impl IntoIterator<Item = Option<String>>,
        from: Option<(Client, EngineMetrics)>,
    ) -> Self {
        let part = |namespace| {
            let writer = Writer::new(watch.resource.clone());
            Arc::new(Part {
                namespace,
                store: writer.as_reader(),
                writer: Mutex::new(writer),
                wakes: Wakes::default(),
                is_known: AtomicBool::default(),
                was_known: AtomicBool::default(),
                filled: SetOnce::new(),
                refused: OnceLock::default(),
                awaited: Mutex::default(),
            })
        };
        Self(Arc::new(Inner {
            parts: namespaces.into_iter().map(part).collect(),
            watch,
            listeners: Mutex::default(),
            from,
        }))
    }

    /// Has all that the watches show told to a listener. All listeners are there before [`Cache::fill`] is called.
    pub fn listen(&self, listener: impl Fn(&Seen<'_, K>) + Send + Sync + 'static) {
        lock(&self.0.listeners).push(Box::new(listener));
    }

    /// Returns the work that fills the cache and keeps it right. It has no end. Call it once.
    ///
    /// The listeners go with the work: they know other caches, which know this one.
    pub fn fill(&self) -> BoxFuture<'static, ()> {
        let listeners = Arc::new(std::mem::take(&mut *lock(&self.0.listeners)));
        let Some((client, metrics)) = &self.0.from else {
            return future::pending().boxed();
        };
        let parts = self.0.parts.iter().map(|part| {
            let (cache, part, listeners) = (self.clone(), Arc::clone(part), Arc::clone(&listeners));
            follow(cache, part, listeners, client.clone(), metrics.clone())
        });
        let parts: Vec<_> = parts.collect();
        future::join_all(parts).map(drop).boxed()
    }

    /// Resolves when the objects of a namespace, or all, are cached, or whoever waits may do without.
    pub fn filled(&self, namespace: Option<&str>) -> BoxFuture<'static, ()> {
        let parts = self.0.parts.iter().filter(|part| {
            let other = part.namespace.as_deref().zip(namespace);
            other.is_none_or(|(of, wanted)| of == wanted)
        });
        let parts: Vec<_> = parts.map(Arc::clone).collect();
        let filled = async move {
            for part in parts {
                part.filled.wait().await;
            }
        };
        filled.boxed()
    }

    /// Puts an event of the watch of a namespace, or of all, into the cache, and tells the listeners. Watches do so; tests may.
    pub fn show(&self, namespace: Option<&str>, event: &Event<K>) {
        let listeners = lock(&self.0.listeners);
        let mut parts = self.0.parts.iter();
        if let Some(part) = parts.find(|part| part.namespace.as_deref() == namespace) {
            part.apply(&self.0.watch.resource, &listeners, event);
        }
    }

    /// Returns an object. The namespace of a cluster-scoped one is none.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let reference = self.reference(namespace, name);
        let mut parts = self.covering(namespace);
        parts.find_map(|part| part.store.get(&reference))
    }

    /// Returns all objects.
    pub fn all(&self) -> Vec<Arc<K>> {
        let parts = self.0.parts.iter();
        parts.flat_map(|part| part.store.state()).collect()
    }

    /// Returns the objects of a namespace.
    pub fn all_in(&self, namespace: Option<&str>) -> Vec<Arc<K>> {
        let is_in = |it: &K| it.meta().namespace.as_deref() == namespace;
        let parts = self.covering(namespace);
        parts
            .flat_map(|part| part.store.state_filter(is_in))
            .collect()
    }

    /// Returns the objects that a test picks.
    pub fn pick(&self, picks: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let parts = self.0.parts.iter();
        parts
            .flat_map(|part| part.store.state_filter(&picks))
            .collect()
    }

    /// Returns an object that a test picks.
    pub fn find(&self, picks: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        let mut parts = self.0.parts.iter();
        parts.find_map(|part| part.store.find(&picks))
    }

    /// Returns the dynamic type of the objects.
    pub fn resource(&self) -> &K::DynamicType {
        &self.0.watch.resource
    }

    /// Returns what is watched, and how.
    pub fn watch(&self) -> &Watch<K> {
        &self.0.watch
    }

    /// Wakes an object. One that no watch covers is nobody's.
    pub fn wake(&self, namespace: Option<&str>, name: &str) {
        for part in self.covering(namespace) {
            part.wakes.wake(namespace.unwrap_or_default(), name);
        }
    }

    /// Wakes this object.
    pub fn wake_it(&self, object: &K) {
        let metadata = object.meta();
        let name = metadata.name.as_deref().unwrap_or_default();
        self.wake(metadata.namespace.as_deref(), name);
    }

    /// Wakes the objects of a namespace, or all.
    pub fn wake_in(&self, namespace: Option<&str>) {
        for part in &self.0.parts {
            match &part.namespace {
                None => part.wakes.wake_in(namespace),
                Some(of) if namespace.is_none_or(|it| it == of) => part.wakes.wake_in(None),
                Some(_) => {}
            }
        }
    }

    /// Wakes the objects that a test picks.
    pub fn wake_if(&self, picks: impl Fn(&K) -> bool) {
        self.pick(picks)
            .iter()
            .for_each(|object| self.wake_it(object));
    }

    /// Returns whether the objects of a namespace are known; without one, those of a cache of all namespaces or of cluster-scoped objects.
    /// They are not before the first list, and, unless they are kept, not from the loss of the right or the kind to the next one.
    pub fn is_known(&self, namespace: Option<&str>) -> bool {
        self.covering(namespace)
            .any(|part| part.is_known.load(Ordering::Acquire))
    }

    /// Returns whether objects were ever known since this process began.
    pub fn was_known(&self) -> bool {
        let mut parts = self.0.parts.iter();
        parts.any(|part| part.was_known.load(Ordering::Acquire))
    }

    /// Returns whether objects might not be read at some time since this process began.
    pub fn was_refused(&self) -> bool {
        let mut parts = self.0.parts.iter();
        parts.any(|part| part.refused.get().is_some())
    }

    /// Returns whether there may be objects that nobody sees for now: they were known once, or may not be read for a few minutes yet.
    /// A role binding that is only being replaced is back by then.
    pub fn may_be_hidden(&self) -> bool {
        let is_settled = |since: &Instant| since.elapsed() >= SETTLED;
        let mut parts = self.0.parts.iter();
        self.was_known() || parts.any(|part| !part.refused.get().is_some_and(is_settled))
    }

    /// Returns the names of the objects that were woken and not taken, and takes them, for tests.
    pub fn noted(&self) -> Vec<String> {
        let parts = self.0.parts.iter();
        let noted = parts.flat_map(|part| self.references(part, &part.wakes.take()));
        let names: BTreeSet<String> = noted.map(|it| it.name).collect();
        names.into_iter().collect()
    }

    /// Returns what each watch fills, in the order of the watch scopes.
    pub(super) fn parts(&self) -> &[Arc<Part<K>>] {
        &self.0.parts
    }

    /// Returns the objects of a part that were woken. Take it once.
    pub(super) fn woken(
        &self,
        part: &Arc<Part<K>>,
    ) -> impl Stream<Item = ObjectRef<K>> + Send + use<K> {
        let (cache, part) = (self.clone(), Arc::clone(part));
        let taken = part.wakes.taken();
        taken.flat_map(move |noted| stream::iter(cache.references(&part, &noted)))
    }

    fn references(&self, part: &Part<K>, noted: &Noted) -> Vec<ObjectRef<K>> {
        let one = |(namespace, name): &(String, String)| {
            self.reference(Some(namespace.as_str()).filter(|it| !it.is_empty()), name)
        };
        let mut references: Vec<_> = noted.some.iter().map(one).collect();
        if noted.all || !noted.namespaces.is_empty() {
            let others = part.store.state_filter(|it| noted.includes(it.meta()));
            let resource = self.resource();
            let others = others.iter();
            references.extend(others.map(|it| ObjectRef::from_obj_with(&**it, resource.clone())));
        }
        references
    }

    fn reference(&self, namespace: Option<&str>, name: &str) -> ObjectRef<K> {
        let object = ObjectRef::new_with(name, self.0.watch.resource.clone());
        match namespace {
            Some(namespace) => object.within(namespace),
            None => object,
        }
    }

    /// The parts that may have objects of a namespace.
    fn covering(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Part<K>>> {
        let parts = self.0.parts.iter();
        parts.filter(move |part| part.namespace.is_none() || part.namespace.as_deref() == namespace)
    }
}

impl<K: Cacheable> Part<K> {
    /// Puts an event into the store, then tells the listeners. They see first what comes.
    fn apply(&self, resource: &K::DynamicType, listeners: &[Listener<K>], event: &Event<K>) {
        let tell = |seen: &Seen<'_, K>| listeners.iter().for_each(|listener| listener(seen));
        let now = |object: &K| {
            let reference = ObjectRef::from_obj_with(object, resource.clone());
            self.store.get(&reference)
        };
        match event {
            Event::Init => self.put(event),
            Event::InitApply(object) => {
                tell(&Seen::Coming(object));
                self.put(event);
            }
            Event::Apply(object) => {
                tell(&Seen::Coming(object));
                let before = now(object);
                self.put(event);
                tell(&Seen::Changed(Change {
                    before: before.as_deref(),
                    after: Some(object),
                    is_missed: false,
                }));
            }
            Event::Delete(object) => {
                self.put(event);
                tell(&Seen::Changed(Change {
                    before: Some(object),
                    after: None,
                    is_missed: false,
                }));
            }
            // What went while the watch was broken shows in no event.
            Event::InitDone => {
                let before = self.store.state();
                self.put(event);
                self.was_known.store(true, Ordering::Release);
                self.is_known.store(true, Ordering::Release);
                self.release();
                for object in &before {
                    if now(object).is_none_or(|now| now.meta().uid != object.meta().uid) {
                        tell(&Seen::Changed(Change {
                            before: Some(&**object),
                            after: None,
                            is_missed: true,
                        }));
                    }
                }
                tell(&Seen::Listed(self.namespace.as_deref()));
            }
        }
    }

    fn put(&self, event: &Event<K>) {
        lock(&self.writer).apply_watcher_event(event);
    }

    /// Notes that the objects may not be read.
    fn refuse(&self, refused: WhenRefused) {
        self.refused.get_or_init(Instant::now);
        if refused == WhenRefused::Kept && self.is_known.load(Ordering::Acquire) {
            return;
        }
        self.is_known.store(false, Ordering::Release);
        // What was there must not take memory for ever. Whoever waits for the cache goes on.
        self.put(&Event::Init);
        self.put(&Event::InitDone);
        self.release();
    }

    /// Lets go on whoever waits for the cache.
    fn release(&self) {
        // After the first time it is set.
        let _ = self.filled.set(());
        drop(lock(&self.awaited).take());
    }
}

/// Fills a part. While its objects may not be read, or their kind does not exist, asks again from time to time.
async fn follow<K: Cacheable>(
    cache: Cache<K>,
    part: Arc<Part<K>>,
    listeners: Arc<Vec<Listener<K>>>,
    client: Client,
    metrics: EngineMetrics,
) {
    let watch = &cache.0.watch;
    let api = |client| (watch.api)(client, part.namespace.as_deref(), &watch.resource);
    let config = match watch.label {
        "" => watch_config(),
        label => watch_config().labels(label),
    };
    let said: Arc<dyn Fn(&watcher::Error) + Send + Sync> =
        Arc::new(on_break(&metrics, watch.kind, part.namespace.clone()));
    let is_optional = watch.refused != WhenRefused::Awaited;
    let mut waits = WatchBackoff::up_to(LATER);
    loop {
        if is_optional {
            let asked = api(client.clone());
            until_readable(&asked, watch.kind, &mut waits, || {
                part.refuse(watch.refused)
            })
            .await;
        }
        // From here on its age is measured: before, there is no watch.
        let watched = api(metrics.watch_client(&client, watch.kind));
        let refusal = Arc::new(Notify::new());
        let events = watch_events(
            watched,
            config.clone(),
            watch.prune,
            noting(&said, &refusal),
        );
        let filling = events.for_each(|event| {
            if let Ok(event) = event {
                part.apply(&watch.resource, &listeners, &event);
            }
            future::ready(())
        });
        tokio::select! {
            () = filling => {}
            // Where lists are allowed and watches are not, this is how often there is a list.
            () = refusal.notified(), if is_optional => wait(&mut waits).await,
        }
    }
}

/// Says that a watch broke, and notes a refusal.
fn noting(
    said: &Arc<dyn Fn(&watcher::Error) + Send + Sync>,
    refusal: &Arc<Notify>,
) -> impl Fn(&watcher::Error) + Send + 'static + use<> {
    let (said, refusal) = (Arc::clone(said), Arc::clone(refusal));
    move |error| {
        said(error);
        if is_refusal(error) {
            refusal.notify_one();
        }
    }
}

/// Whether a watch broke because the objects may not be read, or their kind does not exist. Then only a new question shows whether
/// the cache is still right; kube would repeat the watch for ever.
fn is_refusal(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) =
        error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if is_missing(status))
}

fn is_missing(status: &Status) -> bool {
    // By the code: the answer about a kind that is not installed need not have the reason NotFound.
    status.is_forbidden() || status.code == 404
}

async fn wait(waits: &mut WatchBackoff) {
    sleep(waits.next().unwrap_or(LATER)).await;
}

/// Waits until objects of a kind may be read. If they may not, it calls `forget` once.
async fn until_readable<K>(
    api: &Api<K>,
    kind: &'static str,
    waits: &mut WatchBackoff,
    forget: impl FnOnce(),
) where
    K: Clone + DeserializeOwned + Debug,
{
    let mut forget = Some(forget);
    let mut unanswered = WatchBackoff::default();
    loop {
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if is_missing(&status) => {
                if let Some(forget) = forget.take() {
                    forget();
                }
                // Whoever looks for missing rights and kinds has said it.
                let error = status.message;
                tracing::debug!(kind, error, "cannot be read for now");
                wait(waits).await;
            }
            Err(error) => {
                tracing::debug!(kind, error = plain(&error), "could not list, trying again");
                wait(&mut unanswered).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
