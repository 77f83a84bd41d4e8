//! One watch.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use futures::StreamExt;
use kube::core::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use podloom_engine::broken::Seldom;
use podloom_engine::plain::plain;
use podloom_engine::watch::{paced, watch_config, watch_events};
use podloom_turns::lock;

use super::kinds::{Answer, Watched};
use super::{Inner, Place};
use crate::served::KindKey;

/// An object of which only the metadata is known.
type Meta = PartialObjectMeta<DynamicObject>;

/// Watches until it is dropped, or nobody is left to tell.
pub(super) async fn run(inner: Weak<Inner>, watched: Watched) {
    let Some(client) = inner.upgrade().map(|inner| inner.client.clone()) else {
        return;
    };
    let Watched { kind, namespace } = watched;
    let key = kind.key();
    let broke = on_error(inner.clone(), key.clone(), namespace.clone());
    let events = watch_events(
        api(paced(&client), &kind.resource, namespace.as_deref()),
        watch_config(),
        |_| {},
        broke,
    );
    let mut events = std::pin::pin!(events);
    let mut listed = Listed::default();
    while let Some(event) = events.next().await {
        let (Ok(event), Some(inner)) = (event, inner.upgrade()) else {
            continue;
        };
        match event {
            Event::Init => listed = Listed::default(),
            Event::InitApply(object) => {
                let place = place(&key, &object.metadata);
                if lock(&inner.state)
                    .index
                    .is_seen(&place, name(&object.metadata))
                {
                    listed.put(&place, &object.metadata);
                }
                inner.changed(&place, &object.metadata);
            }
            Event::InitDone => {
                let there = std::mem::take(&mut listed).0;
                let missing = lock(&inner.state)
                    .index
                    .missing(&key, namespace.as_deref(), &there);
                inner.alarms.ring(&missing);
                inner.answered(&key, namespace.as_ref(), Answer::Watching);
            }
            Event::Apply(object) | Event::Delete(object) => {
                inner.changed(&place(&key, &object.metadata), &object.metadata);
            }
        }
    }
}

/// The objects of a list that somebody has seen before.
#[derive(Default)]
struct Listed(HashSet<(Arc<str>, String)>);

impl Listed {
    fn put(&mut self, (_, namespace): &Place, object: &ObjectMeta) {
        let id = (Arc::clone(namespace), name(object).to_owned());
        self.0.insert(id);
    }
}

fn api(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Api<Meta> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

fn place(kind: &KindKey, object: &ObjectMeta) -> Place {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    (kind.clone(), Arc::from(namespace))
}

fn name(object: &ObjectMeta) -> &str {
    object.name.as_deref().unwrap_or_default()
}

/// Returns what happens with an error. The watch is tried again after a while.
fn on_error(
    inner: Weak<Inner>,
    kind: KindKey,
    namespace: Option<Arc<str>>,
) -> impl Fn(&watcher::Error) + Send {
    let seldom = Seldom::default();
    move |error| {
        let namespace_name = namespace.as_deref();
        match code(error) {
            // The operator has no right to watch, or the kind has no watches.
            Some(401 | 403 | 405) => {
                tracing::debug!(%kind, namespace = namespace_name, "targets may not be watched");
                if let Some(inner) = inner.upgrade() {
                    inner.answered(&kind, namespace.as_ref(), Answer::Forbidden);
                }
            }
            // It is tried again until the next look finds the same.
            Some(404) => {
                tracing::debug!(%kind, namespace = namespace_name, "kind of targets is not served");
            }
            _ => {
                if let Some(left_out) = seldom.is_due() {
                    tracing::warn!(
                        %kind,
                        namespace = namespace_name,
                        error = plain(error),
                        left_out,
                        "watch of targets broke, restarting"
                    );
                }
            }
        }
    }
}

/// The HTTP status of the API server's answer, if there is one.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
