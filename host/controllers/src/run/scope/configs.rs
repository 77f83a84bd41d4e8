//! BrowserConfigs, watched once for both controllers, and their own controller.
//!
//! Each is woken by itself, and by a neighbour that comes, goes or changes its spec, since the older of two serves what both
//! define. A status wakes only its own BrowserConfig: with a hundred of them, each status write would wake all hundred.

use std::sync::Arc;

use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::core::ApiResource;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Config, Controller};
use kube::{Resource, ResourceExt};
use podloom_api::Kind;

use super::super::{BROWSER_CONFIG, Setup};
use super::changes::{Changes, Place, changes};
use super::{Configs, Scope};
use crate::backoff::Backoff;
use crate::browser_config::BrowserConfigController;
use crate::drive::{Driven, drive, watched, watching};
use crate::live::edition;

/// The BrowserConfigs of a scope.
#[derive(Clone)]
pub(super) struct Cache {
    pub(super) store: Store<Configs>,
    /// Resolves when the store is filled.
    pub(super) filled: Shared<BoxFuture<'static, ()>>,
}

/// What comes of watching them.
pub(super) struct Watch {
    pub(super) cache: Cache,
    /// Where some changed that Browsers may wait for.
    pub(super) of_browsers: BoxStream<'static, Place>,
    pub(super) own: Wakes,
}

/// What wakes their own controller. Polling the events fills the cache.
pub(super) struct Wakes {
    events: BoxStream<'static, Result<Event<Configs>, watcher::Error>>,
    of_neighbours: BoxStream<'static, Place>,
}

/// Watches the BrowserConfigs of a scope.
pub(super) fn watch(scope: &Scope, setup: &Setup) -> Watch {
    let resource = Arc::new(setup.api.resource(Kind::BrowserConfig));
    let events = watched(
        scope.api::<Configs>(&resource, Kind::BrowserConfig),
        watching(),
        |_| {},
        scope.broke("BrowserConfig"),
    );
    let (of_neighbours, neighbours) = changes();
    let (of_browsers, browsers) = changes();
    let writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    let filled = scope.filled(&store, "BrowserConfigs").boxed().shared();
    let events = cached(events, writer, resource, vec![of_neighbours, of_browsers]);
    Watch {
        cache: Cache { store, filled },
        of_browsers: browsers.boxed(),
        own: Wakes {
            events: events.boxed(),
            of_neighbours: neighbours.boxed(),
        },
    }
}

/// Runs the controller until it is stopped.
pub(super) fn run(
    scope: &Scope,
    setup: &Setup,
    cache: Cache,
    wakes: Wakes,
) -> impl Future<Output = ()> + Send + use<> {
    let resource = Arc::new(setup.api.resource(Kind::BrowserConfig));
    let Cache { store, filled } = cache;
    let queue = scope.ctx.metrics.queue(BROWSER_CONFIG);
    let (beside, of_place) = (store.clone(), resource.clone());
    let neighbours = wakes
        .of_neighbours
        .flat_map(move |place| stream::iter(all_in(&beside, &place, &of_place)));
    let neighbours = queue.counted(neighbours);
    let own = queue.counted_objects(wakes.events.applied_objects());
    let (places, free) = scope.places(&resource, setup.concurrency);
    let controller = Controller::for_stream_with(own, store.clone(), resource.clone())
        .with_config(Config::default().concurrency(setup.concurrency))
        .reconcile_on(neighbours)
        .reconcile_on(free)
        .graceful_shutdown_on(scope.stop.clone().cancelled_owned());
    let driven = Driven {
        name: BROWSER_CONFIG,
        resource: resource.clone(),
        ctx: scope.ctx.clone(),
        controller: BrowserConfigController {
            resource,
            configs: store,
        },
        caches: filled,
        backoff: Backoff::new(),
        queue,
        places,
    };
    drive(controller, driven, scope.stop.clone())
}

/// Puts events into the cache, then notes where they changed what others depend on.
fn cached(
    events: impl Stream<Item = Result<Event<Configs>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Configs>,
    resource: Arc<ApiResource>,
    mut listeners: Vec<Changes>,
) -> impl Stream<Item = Result<Event<Configs>, watcher::Error>> + Send + 'static {
    let known = writer.as_reader();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        let place = changed(&known, event, &resource);
        writer.apply_watcher_event(event);
        if let Some(place) = place {
            for listener in &mut listeners {
                listener.note(place.clone());
            }
        }
    })
}

/// Where an event changes what others depend on, given what was known before it.
fn changed(
    known: &Store<Configs>,
    event: &Event<Configs>,
    resource: &Arc<ApiResource>,
) -> Option<Place> {
    let place = |config: &Configs| Place::Namespace(config.namespace().unwrap_or_default());
    match event {
        Event::Apply(config) => {
            let before = known.get(&ObjectRef::from_obj_with(config, resource.clone()));
            let is_same =
                before.is_some_and(|before| edition(before.meta()) == edition(config.meta()));
            (!is_same).then(|| place(config))
        }
        Event::Delete(config) => Some(place(config)),
        // What went while the watch was broken shows in no event, and what came is in the cache only now.
        Event::InitDone => Some(Place::Everywhere),
        Event::Init | Event::InitApply(_) => None,
    }
}

fn all_in(
    configs: &Store<Configs>,
    place: &Place,
    resource: &Arc<ApiResource>,
) -> Vec<ObjectRef<Configs>> {
    configs
        .state_filter(|config| place.includes(config.meta().namespace.as_deref()))
        .iter()
        .map(|config| ObjectRef::from_obj_with(&**config, resource.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
