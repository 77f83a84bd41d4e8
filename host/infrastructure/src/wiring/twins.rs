//! The cluster-scoped kinds: watched once for all scopes, and only if they may be read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use podloom_engine::kind::Kind;
use podloom_engine::optional::{Listener, Optional, OptionalCache, WhenRefused, watch_optional};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wiring::Wiring;
use podloom_turns::lock;
use serde::de::DeserializeOwned;

use super::Knot;
use super::hub::{Change, Hub};
use crate::waking::Scope;

/// Returns the cache of a cluster-scoped kind, and the work that fills it. `changed` is called with each change.
pub(super) fn watch<K>(
    scope: &WatchScope,
    resource: &Arc<ApiResource>,
    kind: &'static str,
    knot: &Knot,
    changed: fn(&Hub, &Change<'_, K>),
) -> (OptionalCache<Readable<K>>, BoxFuture<'static, ()>)
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    Readable<K>: DeserializeOwned,
{
    let optional = Optional {
        kind,
        dyntype: Arc::clone(resource),
        label: "",
        prune: |_| {},
        refused: WhenRefused::Forgotten,
        seen: listener(Arc::clone(knot), changed),
    };
    let resource = Arc::clone(resource);
    let api = move |client| Api::all_with(client, &resource);
    watch_optional(&scope.ctx.client, api, optional, &scope.ctx.metrics)
}

/// Returns what the controller of a cluster-scoped kind stands on. Other work fills its cache.
pub(super) fn wired<K: Kind>(
    resource: &Arc<ApiResource>,
    cache: &OptionalCache<Readable<K::Object>>,
    waking: &Scope,
) -> Wiring<K>
where
    Readable<K::Object>: DeserializeOwned,
{
    let store = cache.store().clone();
    let ready = store.clone();
    let filled = async move {
        // The cache of a watch that ended never fills. That happens only at a stop, after which no pass starts.
        let _ended = ready.wait_until_ready().await;
    };
    let mut wiring = Wiring::cached(
        Arc::clone(resource),
        store.clone(),
        stream::pending().boxed(),
        filled.boxed(),
    );
    wiring.wake(waking.taken(store, Arc::clone(resource)));
    wiring
}

/// The objects that a watch has shown.
struct Shown<K> {
    all: HashMap<String, Readable<K>>,
    /// Those of the list that is being read.
    listed: HashMap<String, Readable<K>>,
}

fn listener<K>(knot: Knot, changed: fn(&Hub, &Change<'_, K>)) -> Listener<Readable<K>>
where
    K: Resource<DynamicType = ApiResource> + Clone + Send + Sync + 'static,
{
    let shown = Mutex::new(Shown {
        all: HashMap::new(),
        listed: HashMap::new(),
    });
    Box::new(move |event| {
        let Some(hub) = knot.get() else { return };
        let mut shown = lock(&shown);
        match event {
            Event::Apply(object) => {
                let before = shown.all.insert(object.name_any(), object.clone());
                let change = Change {
                    before: before.as_ref(),
                    after: Some(object),
                };
                changed(hub, &change);
            }
            Event::Delete(object) => {
                shown.all.remove(&object.name_any());
                changed(
                    hub,
                    &Change {
                        before: Some(object),
                        after: None,
                    },
                );
            }
            Event::Init => shown.listed.clear(),
            Event::InitApply(object) => {
                shown.listed.insert(object.name_any(), object.clone());
            }
            Event::InitDone => {
                shown.all = std::mem::take(&mut shown.listed);
                hub.all();
            }
        }
    })
}
