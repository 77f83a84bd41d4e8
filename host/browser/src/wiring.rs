//! What wakes Browsers and BrowserConfigs: themselves, pods, and the BrowserConfigs of their namespace.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, future, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use podloom_api::{BrowserConfigObject, BrowserObject, Phase, SelenosisApi, SelenosisKind, names};
use podloom_engine::metrics::{NONE, phases};
use podloom_engine::namespaces::Namespaces;
use podloom_engine::read::edition;
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::{Other, Wiring};
use podloom_engine::{namespaces, wiring};
use podloom_mutation::PodMutator;
use podloom_turns::lock;

use super::config::BrowserConfigKind;
use super::kind::{BrowserKind, Caches, Resources};
use super::memory::Memory;
use super::metrics::{BrowserMetrics, CONTROLLER, phase};
use super::pod::SeenPod;
use super::world::Timeouts;

/// Browsers in a cache. One that cannot be read hides no other.
type Browsers = Readable<BrowserObject>;

/// What the controllers of Browsers and BrowserConfigs run with.
#[derive(Clone)]
pub struct BrowserSetup {
    /// The API groups that our kinds are served in.
    pub api: SelenosisApi,
    /// The chain of plugins.
    pub mutator: Arc<dyn PodMutator>,
    /// How long the steps of a session may take.
    pub timeouts: Timeouts,
}

/// What the controllers in all scopes share.
struct Duty {
    setup: BrowserSetup,
    namespaces: Namespaces,
    metrics: BrowserMetrics,
}

/// Returns, once the cache of namespaces is filled, the work of both controllers in each scope until they are stopped.
///
/// The other caches are awaited from then on, not from the work's first poll.
pub async fn begin(
    scopes: &[WatchScope],
    setup: BrowserSetup,
    metrics: &BrowserMetrics,
) -> BoxFuture<'static, ()> {
    let watched = namespaces::watch_for(scopes, Box::new(|_| {})).await;
    let Some((namespaces, watch_namespaces)) = watched else {
        return future::ready(()).boxed();
    };
    let duty = Duty {
        setup,
        namespaces,
        metrics: metrics.clone(),
    };
    let controllers: Vec<_> = scopes.iter().map(|scope| run_in(scope, &duty)).collect();
    // A watch has no end.
    let work = future::select(future::join_all(controllers), watch_namespaces);
    work.map(drop).boxed()
}

fn run_in(scope: &WatchScope, duty: &Duty) -> impl Future<Output = ()> + Send + use<> {
    let config = Arc::new(duty.setup.api.resource(SelenosisKind::BrowserConfig));
    let configs = watch(scope, &config);
    let resource = Arc::new(duty.setup.api.resource(SelenosisKind::Browser));
    let mut browsers = Wiring::<BrowserKind>::of(scope, resource.clone(), "Browsers");
    let memory = Memory::default();
    let pods = Other {
        api: scope.api::<SeenPod>("Pod"),
        kind: "Pod",
        cache: "Pods",
        label: names::label::BROWSER,
        // Reading one drops it.
        prune: |_| {},
    };
    let pods = browsers.own(scope, pods, remembering(&memory));
    browsers.await_cache(configs.filled.clone().boxed());
    let counted = scope
        .ctx
        .metrics
        .objects
        .count(CONTROLLER, phases(browsers.store(), NONE, phase));
    browsers.wake(waiting(configs.changes, &browsers.store(), &resource));
    let kind = BrowserKind {
        api: duty.setup.api,
        resources: Resources {
            browser: resource,
            config: config.clone(),
            pod: ApiResource::erase::<Pod>(&()),
        },
        caches: Caches {
            configs: configs.store.clone(),
            pods,
            namespaces: duty.namespaces.clone(),
        },
        mutator: Arc::clone(&duty.setup.mutator),
        timeouts: duty.setup.timeouts.clone(),
        memory,
        metrics: duty.metrics.clone(),
    };
    // Its Browsers are counted while it runs, and no longer, however it ends.
    let browsers = wiring::run(scope, kind, browsers).map(move |()| drop(counted));
    let kind = BrowserConfigKind {
        resource: config,
        configs: configs.store,
    };
    let configs = wiring::run(scope, kind, configs.wiring);
    future::join(browsers, configs).map(drop)
}

/// Notes how pods ended: by the time their Browsers are looked at, the cache no longer has them.
fn remembering(memory: &Memory) -> impl Fn(&watcher::Event<SeenPod>) + Send + use<> {
    let memory = memory.clone();
    move |event| {
        if let watcher::Event::Delete(pod) = event {
            memory.pod_went(pod);
        }
    }
}

/// The Browsers that wait in namespaces whose BrowserConfigs changed.
fn waiting(
    changes: BoxStream<'static, Affected>,
    browsers: &Store<Browsers>,
    resource: &Arc<ApiResource>,
) -> impl Stream<Item = ObjectRef<Browsers>> + Send + use<> {
    let (browsers, resource) = (browsers.clone(), resource.clone());
    changes.flat_map(move |affected| stream::iter(waiting_in(&browsers, &affected, &resource)))
}

/// The Browsers in affected namespaces that have no pod yet.
fn waiting_in(
    browsers: &Store<Browsers>,
    affected: &Affected,
    resource: &Arc<ApiResource>,
) -> Vec<ObjectRef<Browsers>> {
    let waits = |browser: &BrowserObject| {
        let status = browser.status.as_ref();
        let ended = |phase| matches!(phase, Phase::Failed | Phase::Succeeded);
        status.is_none_or(|status| status.pod_uid.is_none() && !status.phase.is_some_and(ended))
    };
    let waiting = browsers.state_filter(|browser| {
        affected.includes(browser.meta().namespace.as_deref())
            && browser.0.as_ref().is_ok_and(waits)
    });
    waiting
        .iter()
        .map(|browser| ObjectRef::from_obj_with(&**browser, resource.clone()))
        .collect()
}

// The namespaces in which something changed, until they are taken.

/// Which namespaces a change affects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Affected {
    /// The namespace of this name.
    Namespace(String),
    /// Perhaps every namespace.
    All,
}

impl Affected {
    fn includes(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Namespace(name) => namespace == Some(name),
            Self::All => true,
        }
    }
}

/// Where changes are noted. Changes of one namespace count once until they are taken, so there are never more than namespaces.
#[derive(Clone)]
struct Changes {
    affected: Arc<Mutex<BTreeSet<Affected>>>,
    bell: mpsc::Sender<()>,
}

/// Returns where to note changes, and the stream of them.
fn changes() -> (Changes, impl Stream<Item = Affected> + Send + use<>) {
    let affected: Arc<Mutex<BTreeSet<Affected>>> = Arc::default();
    let (bell, rings) = mpsc::channel(1);
    let noted = Arc::clone(&affected);
    let taken = rings.flat_map(move |()| stream::iter(take(&noted)));
    (Changes { affected, bell }, taken)
}

impl Changes {
    fn note(&mut self, change: Affected) {
        let mut affected = lock(&self.affected);
        affected.insert(change);
        drop(affected);
        // If it is full, it has rung and nothing was taken yet.
        let _ = self.bell.try_send(());
    }
}

fn take(affected: &Mutex<BTreeSet<Affected>>) -> BTreeSet<Affected> {
    std::mem::take(&mut *lock(affected))
}

// BrowserConfigs, watched once for both controllers.
//
// Each is woken by itself, and by a neighbour that comes, goes or changes its spec, since the older of two serves what both
// define. A status wakes only its own BrowserConfig: with a hundred of them, each status write would wake all hundred.

type Configs = Readable<BrowserConfigObject>;

/// What comes of watching the BrowserConfigs of a scope.
struct Watch {
    store: Store<Configs>,
    /// Resolves when the store is filled.
    filled: Shared<BoxFuture<'static, ()>>,
    /// The namespaces in which some changed that Browsers may wait for.
    changes: BoxStream<'static, Affected>,
    /// What their own controller stands on. Running it fills the store.
    wiring: Wiring<BrowserConfigKind>,
}

/// Watches the BrowserConfigs of a scope.
fn watch(scope: &WatchScope, resource: &Arc<ApiResource>) -> Watch {
    let events = watch_events(
        scope.api_of_kind::<BrowserConfigKind>(resource),
        watch_config(),
        |_| {},
        scope.on_watch_error("BrowserConfig"),
    );
    let (of_neighbours, neighbours) = changes();
    let (of_browsers, changes) = changes();
    let writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    let filled = scope.cache_filled(&store, "BrowserConfigs").shared();
    let listeners = vec![of_neighbours, of_browsers];
    let events = cached(events, writer, resource.clone(), listeners);
    let mut wiring = Wiring::cached(
        resource.clone(),
        store.clone(),
        events.boxed(),
        filled.clone().boxed(),
    );
    let (beside, of_kind) = (store.clone(), resource.clone());
    wiring.wake(
        neighbours.flat_map(move |affected| stream::iter(all_in(&beside, &affected, &of_kind))),
    );
    Watch {
        store,
        filled,
        changes: changes.boxed(),
        wiring,
    }
}

/// Puts events into the cache, then notes the namespaces in which they changed what others depend on.
fn cached(
    events: impl Stream<Item = Result<Event<Configs>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Configs>,
    resource: Arc<ApiResource>,
    mut listeners: Vec<Changes>,
) -> impl Stream<Item = Result<Event<Configs>, watcher::Error>> + Send + 'static {
    let known = writer.as_reader();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        let affected = changed(&known, event, &resource);
        writer.apply_watcher_event(event);
        if let Some(affected) = affected {
            for listener in &mut listeners {
                listener.note(affected.clone());
            }
        }
    })
}

/// Returns the namespaces in which an event changes what others depend on, given what was known before it.
fn changed(
    known: &Store<Configs>,
    event: &Event<Configs>,
    resource: &Arc<ApiResource>,
) -> Option<Affected> {
    let affected = |config: &Configs| Affected::Namespace(config.namespace().unwrap_or_default());
    match event {
        Event::Apply(config) => {
            let before = known.get(&ObjectRef::from_obj_with(config, resource.clone()));
            let is_same =
                before.is_some_and(|before| edition(before.meta()) == edition(config.meta()));
            (!is_same).then(|| affected(config))
        }
        Event::Delete(config) => Some(affected(config)),
        // What went while the watch was broken shows in no event, and what came is in the cache only now.
        Event::InitDone => Some(Affected::All),
        Event::Init | Event::InitApply(_) => None,
    }
}

fn all_in(
    configs: &Store<Configs>,
    affected: &Affected,
    resource: &Arc<ApiResource>,
) -> Vec<ObjectRef<Configs>> {
    configs
        .state_filter(|config| affected.includes(config.meta().namespace.as_deref()))
        .iter()
        .map(|config| ObjectRef::from_obj_with(&**config, resource.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
