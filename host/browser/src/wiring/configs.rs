//! BrowserConfigs, watched once for both controllers.
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
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use podloom_api::BrowserConfigObject;
use podloom_engine::read::edition;
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::Wiring;

use super::changes::{Affected, Changes, changes};
use crate::config::BrowserConfigKind;

type Configs = Readable<BrowserConfigObject>;

/// What comes of watching the BrowserConfigs of a scope.
pub(super) struct Watch {
    pub(super) store: Store<Configs>,
    /// Resolves when the store is filled.
    pub(super) filled: Shared<BoxFuture<'static, ()>>,
    /// The namespaces in which some changed that Browsers may wait for.
    pub(super) changes: BoxStream<'static, Affected>,
    /// What their own controller stands on. Running it fills the store.
    pub(super) wiring: Wiring<BrowserConfigKind>,
}

/// Watches the BrowserConfigs of a scope.
pub(super) fn watch(scope: &WatchScope, resource: &Arc<ApiResource>) -> Watch {
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
