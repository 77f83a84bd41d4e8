//! Browsers, woken by themselves, their pods and the BrowserConfigs of their namespace.

use std::sync::Arc;

use futures::channel::mpsc;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future, stream};
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::{Config, Controller, watcher};
use kube::{Api, Resource};
use podloom_api::{BrowserObject, Kind, Phase, names};

use super::super::{BROWSER, Setup};
use super::changes::Place;
use super::{Browsers, Scope, configs};
use crate::backoff::Backoff;
use crate::browser::{BrowserController, Memory};
use crate::drive::{Driven, drive, telling_lists, watch, watching};
use crate::pod::SeenPod;

/// Runs the controller until it is stopped.
pub(super) fn run(
    scope: &Scope,
    setup: &Setup,
    configs: configs::Cache,
    changes: BoxStream<'static, Place>,
) -> impl Future<Output = ()> + Send + use<> {
    let resource = Arc::new(setup.api.resource(Kind::Browser));
    let (browsers, browser_events) = watch(
        scope.api::<Browsers>(&resource, Kind::Browser),
        watching(),
        resource.clone(),
        |_| {},
        scope.broke("Browser"),
    );
    let (pods, pod_events) = watch(
        scope.pods(),
        watching().labels(names::label::BROWSER),
        (),
        |_| {},
        scope.broke("Pod"),
    );
    let caches = future::join3(
        scope.filled(&browsers, "Browsers"),
        scope.filled(&pods, "Pods"),
        configs.filled,
    );
    let counted = scope.ctx.metrics.count_browsers(browsers.clone());
    let queue = scope.ctx.metrics.queue(BROWSER);
    let (places, free) = scope.places(&resource, setup.concurrency);
    let memory = Memory::default();
    let (listed, lists) = mpsc::channel(1);
    let own = telling_lists(browser_events, listed.clone()).applied_objects();
    let of_pods = telling_lists(remembered(pod_events, &memory), listed).touched_objects();
    let lists = queue.counted_lists(lists, browsers.clone());
    let waiting = queue.counted(waiting(changes, &browsers, &resource));
    let (owner_woken, owner) = (queue.clone(), resource.clone());
    let controller =
        Controller::for_stream_with(queue.counted_objects(own), browsers, resource.clone())
            .with_config(Config::default().concurrency(setup.concurrency))
            .watches_stream(of_pods, move |pod| {
                owner_of(&pod, &owner).inspect(|browser| owner_woken.woken_ref(browser))
            })
            .reconcile_all_on(lists)
            .reconcile_on(waiting)
            .reconcile_on(free)
            .graceful_shutdown_on(scope.stop.clone().cancelled_owned());
    let driven = Driven {
        name: BROWSER,
        resource: resource.clone(),
        ctx: scope.ctx.clone(),
        controller: BrowserController {
            api: setup.api,
            resource,
            config_resource: Arc::new(setup.api.resource(Kind::BrowserConfig)),
            configs: configs.store,
            pods,
            namespaces: scope.namespaces.clone(),
            memory,
        },
        caches: caches.map(drop).boxed().shared(),
        backoff: Backoff::new(),
        queue,
        places,
    };
    // Its Browsers are counted while it runs, and no longer, however it ends.
    drive(controller, driven, scope.stop.clone()).map(move |()| drop(counted))
}

impl Scope {
    fn pods(&self) -> Api<SeenPod> {
        let client = self.watching("Pod");
        match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }
}

/// Notes how pods went: when a Browser is looked at, the cache has its pod no more.
fn remembered<S, E>(
    events: S,
    memory: &Memory,
) -> impl Stream<Item = Result<watcher::Event<SeenPod>, E>> + Send + use<S, E>
where
    S: Stream<Item = Result<watcher::Event<SeenPod>, E>> + Send + 'static,
    E: Send + 'static,
{
    let memory = memory.clone();
    events.inspect_ok(move |event| {
        if let watcher::Event::Delete(pod) = event {
            memory.pod_went(pod);
        }
    })
}

/// The Browser that owns a pod, if one does.
fn owner_of(pod: &SeenPod, resource: &Arc<ApiResource>) -> Option<ObjectRef<Browsers>> {
    let namespace = pod.metadata.namespace.as_deref();
    let owners = pod.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.controller == Some(true))
        .find_map(|owner| ObjectRef::from_owner_ref(namespace, owner, resource.clone()))
}

/// The Browsers that wait where BrowserConfigs changed.
fn waiting(
    changes: BoxStream<'static, Place>,
    browsers: &Store<Browsers>,
    resource: &Arc<ApiResource>,
) -> impl Stream<Item = ObjectRef<Browsers>> + Send + use<> {
    let (browsers, resource) = (browsers.clone(), resource.clone());
    changes.flat_map(move |place| stream::iter(waiting_in(&browsers, &place, &resource)))
}

/// The Browsers of a place that have no pod yet.
fn waiting_in(
    browsers: &Store<Browsers>,
    place: &Place,
    resource: &Arc<ApiResource>,
) -> Vec<ObjectRef<Browsers>> {
    let waits = |browser: &BrowserObject| {
        let status = browser.status.as_ref();
        let ended = |phase| matches!(phase, Phase::Failed | Phase::Succeeded);
        status.is_none_or(|status| status.pod_uid.is_none() && !status.phase.is_some_and(ended))
    };
    let waiting = browsers.state_filter(|browser| {
        place.includes(browser.meta().namespace.as_deref()) && browser.0.as_ref().is_ok_and(waits)
    });
    waiting
        .iter()
        .map(|browser| ObjectRef::from_obj_with(&**browser, resource.clone()))
        .collect()
}
