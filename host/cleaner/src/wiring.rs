//! What wakes Cleaners: themselves, and their targets.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, future, stream};
use kube::core::ApiResource;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use podloom_api::Cleaner;
use podloom_cel::Evaluator;
use podloom_engine::kind::Kind;
use podloom_engine::metrics::{UNREADABLE, phases};
use podloom_engine::outbound::SystemResolver;
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::{self, Wiring};
use tokio::sync::Semaphore;

use super::act::Hands;
use super::alarms::{Alarms, ScopeWakes};
use super::delivery::{Delivery, SinkSettings, Wake};
use super::discovery::Discovery;
use super::helm::CHARTS;
use super::kind::CleanerKind;
use super::look::Eyes;
use super::memory::Memory;
use super::metrics::{CONTROLLER, CleanerMetrics, phase};
use super::objects::Objects;
use super::read::Reader;
use super::settings::CleanerSetup;
use super::stored::StoredCleaner;
use super::watches::Watches;
use super::who::CleanerId;

/// How many Cleaners of a namespace are reconciled at once at least: one that waits for its targets must not hold up the others.
const WORKERS_MIN: u16 = 8;

/// A Cleaner in a cache.
type Cached = Readable<StoredCleaner>;

/// Returns the work of the controller in all scopes until it is stopped.
pub fn begin(
    scopes: &[WatchScope],
    setup: &CleanerSetup,
    metrics: &CleanerMetrics,
) -> BoxFuture<'static, ()> {
    let Some(first) = scopes.first() else {
        return future::ready(()).boxed();
    };
    let client = first.ctx.client.clone();
    let memory = Memory::default();
    let namespaces = scopes.iter().map(|scope| scope.namespace.clone());
    let alarms = Alarms::new(memory.clone(), namespaces);
    let is_wide = first.namespace.is_none();
    let watches = Watches::new(client.clone(), is_wide, alarms.clone(), metrics.clone());
    let sinks = SinkSettings {
        allows_loopback: setup.settings.allow_loopback_sinks,
        resolver: Arc::new(SystemResolver::with_proxies()),
        outbound: metrics.outbound.clone(),
    };
    let clock = first.ctx.clock.clone();
    let (delivery, delivering) =
        Delivery::start(&sinks, clock, metrics.delivery.clone(), waking(&alarms));
    let hands = Hands {
        resource: Arc::new(Cleaner::resource()),
        eyes: Eyes {
            reader: Reader {
                discovery: Discovery::new(client.clone()),
                objects: Objects::new(client),
                settings: Arc::clone(&setup.settings),
            },
            watches,
            memory,
        },
        evaluator: Evaluator::new(setup.evaluation_threads),
        delivery,
        charts: Arc::new(Semaphore::new(CHARTS.into())),
        metrics: metrics.clone(),
    };
    let controllers = scopes.iter().zip(alarms.scopes()).map(|(scope, wakes)| {
        let scope = scope.with_passes(setup.workers, WORKERS_MIN);
        of_scope(&scope, wakes, &hands)
    });
    let controllers: Vec<_> = controllers.collect();
    let controllers = future::join_all(controllers);
    future::select(controllers, delivering).map(drop).boxed()
}

/// Wakes a Cleaner when its CloudEvent was sent, or can be.
fn waking(alarms: &Alarms) -> Wake {
    let alarms = alarms.clone();
    Arc::new(move |id| alarms.wake(&id.namespace, &id.name))
}

/// The controller of one scope.
fn of_scope(scope: &WatchScope, wakes: &ScopeWakes, hands: &Hands) -> BoxFuture<'static, ()> {
    let resource = &hands.resource;
    let writer = Writer::new(Arc::clone(resource));
    let store = writer.as_reader();
    let events = watch_events(
        scope.api_of_kind::<CleanerKind>(resource),
        watch_config(),
        |_| {},
        scope.on_watch_error(CleanerKind::TRAITS.kind),
    );
    let events = cached(events, writer, Arc::clone(resource), hands.clone());
    let filled = scope.cache_filled(&store, "Cleaners");
    let mut wiring = Wiring::cached(Arc::clone(resource), store.clone(), events.boxed(), filled);
    wiring.wake(woken(wakes, Arc::clone(resource)));
    let counted = scope
        .ctx
        .metrics
        .objects
        .count(CONTROLLER, phases(store, UNREADABLE, phase));
    let kind = CleanerKind {
        hands: hands.clone(),
    };
    let work = wiring::run(scope, kind, wiring);
    work.map(move |()| drop(counted)).boxed()
}

/// The Cleaners whose targets have changed.
fn woken(
    scope: &ScopeWakes,
    resource: Arc<ApiResource>,
) -> impl Stream<Item = ObjectRef<Cached>> + Send + use<> {
    scope.wakes.taken().flat_map(move |noted| {
        let of = |(namespace, name): &(String, String)| {
            ObjectRef::new_with(name, Arc::clone(&resource)).within(namespace)
        };
        let cleaners: Vec<_> = noted.some.iter().map(of).collect();
        stream::iter(cleaners)
    })
}

/// Puts events into the cache, and forgets Cleaners that are gone: most have no finalizer, so no pass learns of it.
fn cached(
    events: impl Stream<Item = Result<Event<Cached>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Cached>,
    resource: Arc<ApiResource>,
    hands: Hands,
) -> impl Stream<Item = Result<Event<Cached>, watcher::Error>> + Send + 'static {
    let known = writer.as_reader();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        if let Event::Apply(cleaner) | Event::InitApply(cleaner) = event {
            let id = CleanerId::of(cleaner.meta());
            hands.eyes.memory.know(&id.uid);
        }
        match event {
            Event::Delete(cleaner) => {
                writer.apply_watcher_event(event);
                hands.forget(&CleanerId::of(cleaner.meta()));
            }
            // What went while the watch was broken shows in no event.
            Event::InitDone => {
                let before = known.state();
                writer.apply_watcher_event(event);
                for cleaner in before {
                    if is_gone(&known, &cleaner, &resource) {
                        hands.forget(&CleanerId::of(cleaner.meta()));
                    }
                }
            }
            Event::Apply(cleaner) => {
                let reference = ObjectRef::from_obj_with(cleaner, Arc::clone(&resource));
                let before = known.get(&reference);
                writer.apply_watcher_event(event);
                if let Some(before) = before.filter(|before| before.uid() != cleaner.uid()) {
                    hands.forget(&CleanerId::of(before.meta()));
                }
            }
            Event::Init | Event::InitApply(_) => writer.apply_watcher_event(event),
        }
    })
}

/// Whether there is no Cleaner of that name and UID any more.
fn is_gone(known: &Store<Cached>, cleaner: &Cached, resource: &Arc<ApiResource>) -> bool {
    let reference = ObjectRef::from_obj_with(cleaner, Arc::clone(resource));
    let now = known.get(&reference);
    now.is_none_or(|now| now.uid() != cleaner.uid())
}
