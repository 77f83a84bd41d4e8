//! TunnelClasses, watched once for their own controller and for the PortalExposes of all scopes.

use std::sync::Arc;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use podloom_api::{TunnelClass, TunnelClassObject, asks_to_be_default};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wakes::Wakes;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::Wiring;

use super::super::class_kind::ClassKind;
use super::exposes::Exposes;

type Class = Readable<TunnelClassObject>;

/// What comes of watching the TunnelClasses.
pub(super) struct Watch {
    pub(super) resource: Arc<ApiResource>,
    pub(super) store: Store<Class>,
    /// Resolves when the store is filled.
    pub(super) filled: Shared<BoxFuture<'static, ()>>,
    /// What their own controller stands on. Running it fills the store.
    pub(super) wiring: Wiring<ClassKind>,
}

/// Watches the TunnelClasses of the cluster.
pub(super) fn watch(scope: &WatchScope, exposes: Exposes) -> Watch {
    let resource = Arc::new(TunnelClass::resource());
    let events = watch_events(
        scope.api_of_kind::<ClassKind>(&resource),
        watch_config(),
        |_| {},
        scope.on_watch_error("TunnelClass"),
    );
    let writer = Writer::new(Arc::clone(&resource));
    let store = writer.as_reader();
    let filled = scope.cache_filled(&store, "TunnelClasses").shared();
    let others = Wakes::default();
    let events = cached(
        events,
        writer,
        Arc::clone(&resource),
        exposes,
        others.clone(),
    );
    let mut wiring = Wiring::cached(
        Arc::clone(&resource),
        store.clone(),
        events.boxed(),
        filled.clone().boxed(),
    );
    let (beside, of_kind) = (store.clone(), Arc::clone(&resource));
    wiring.wake(others.taken().flat_map(move |_| {
        let all = beside.state();
        let all = all.iter();
        let all = all.map(|class| ObjectRef::from_obj_with(&**class, Arc::clone(&of_kind)));
        stream::iter(all.collect::<Vec<_>>())
    }));
    Watch {
        resource,
        store,
        filled,
        wiring,
    }
}

/// Puts events into the cache, then wakes whom they matter to.
fn cached(
    events: impl Stream<Item = Result<Event<Class>, watcher::Error>> + Send + 'static,
    mut writer: Writer<Class>,
    resource: Arc<ApiResource>,
    exposes: Exposes,
    classes: Wakes,
) -> impl Stream<Item = Result<Event<Class>, watcher::Error>> + Send + 'static {
    let known = writer.as_reader();
    events.inspect(move |event| {
        let Ok(event) = event else { return };
        let before = match event {
            Event::Apply(class) | Event::Delete(class) => {
                known.get(&ObjectRef::from_obj_with(class, Arc::clone(&resource)))
            }
            _ => None,
        };
        writer.apply_watcher_event(event);
        let (class, is_there) = match event {
            Event::Apply(class) => (class, true),
            Event::Delete(class) => (class, false),
            // What went while the watch was broken shows in no event.
            Event::InitDone => {
                exposes.wake_all();
                return classes.wake_all();
            }
            Event::Init | Event::InitApply(_) => return,
        };
        let before = before.as_ref().map(|before| edition(before.meta()));
        let now = edition(class.meta());
        if is_there && before == Some(now) {
            return;
        }
        let is_default = |edition: Option<Edition<'_>>| edition.is_some_and(|(.., it)| it);
        let matters_to_all = is_default(before) || is_default(Some(now));
        if matters_to_all {
            classes.wake_all();
        }
        let name = class.name_any();
        exposes.wake_if(|expose| match expose.spec.class_name() {
            Some(wanted) => wanted == name,
            None => matters_to_all,
        });
    })
}

/// What changes when anything changes that others depend on. A status changes nothing of it.
type Edition<'a> = (Option<&'a str>, Option<i64>, bool);

fn edition(class: &ObjectMeta) -> Edition<'_> {
    let is_default = asks_to_be_default(class);
    (class.uid.as_deref(), class.generation, is_default)
}

#[cfg(test)]
mod tests;
