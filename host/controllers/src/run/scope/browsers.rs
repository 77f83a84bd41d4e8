//! Browsers, woken by themselves, their pods and the BrowserConfigs of their namespace.

use futures::channel::mpsc;
use futures::{FutureExt, Stream, TryStreamExt, future};
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::{Config, Controller, watcher};
use kube::{Api, Resource};
use podloom_api::{BrowserObject, Kind, Phase, names};

use super::super::{BROWSER, Setup};
use super::{Browsers, Configs, Scope, drop_managed_fields, watching};
use crate::backoff::Backoff;
use crate::browser::{BrowserController, Memory};
use crate::drive::{Driven, drive, telling_lists, watch};
use crate::pod::SeenPod;

/// Runs the controller until it is stopped.
pub(super) fn run(scope: &Scope, setup: &Setup) -> impl Future<Output = ()> + Send + use<> {
    let resource = setup.api.resource(Kind::Browser);
    let config_resource = setup.api.resource(Kind::BrowserConfig);
    let (browsers, browser_events) = watch(
        scope.api::<Browsers>(&resource),
        watching(),
        resource.clone(),
        drop_managed_fields,
        scope.broke("Browser"),
    );
    let (pods, pod_events) = watch(
        scope.pods(),
        watching().labels(names::label::BROWSER),
        (),
        SeenPod::prune,
        scope.broke("Pod"),
    );
    let (configs, config_events) = watch(
        scope.api::<Configs>(&config_resource),
        watching(),
        config_resource.clone(),
        drop_managed_fields,
        scope.broke("BrowserConfig"),
    );
    let caches = future::join3(
        scope.filled(&browsers, "Browsers"),
        scope.filled(&pods, "Pods"),
        scope.filled(&configs, "BrowserConfigs"),
    );
    let counted = scope.ctx.metrics.count_browsers(browsers.clone());
    let (listed, lists) = mpsc::channel(1);
    let (waiting, of_config) = (browsers.clone(), resource.clone());
    let browser_events = telling_lists(browser_events, listed.clone()).applied_objects();
    let memory = Memory::default();
    let controller = Controller::for_stream_with(browser_events, browsers, resource.clone())
        .with_config(Config::default().concurrency(setup.concurrency))
        .owns_stream(telling_lists(remembered(pod_events, &memory), listed).touched_objects())
        .reconcile_all_on(lists)
        .watches_stream_with(
            config_events.touched_objects(),
            move |config| waiting_for(&waiting, &config, &of_config),
            config_resource.clone(),
        )
        .graceful_shutdown_on(scope.stop.clone().cancelled_owned());
    let driven = Driven {
        name: BROWSER,
        resource: resource.clone(),
        ctx: scope.ctx.clone(),
        controller: BrowserController {
            api: setup.api,
            resource,
            config_resource,
            configs,
            pods,
            namespaces: scope.namespaces.clone(),
            memory,
        },
        caches: caches.map(drop).boxed().shared(),
        backoff: Backoff::new(),
    };
    // Its Browsers are counted while it runs, and no longer, however it ends.
    drive(controller, driven, scope.stop.clone()).map(move |()| drop(counted))
}

impl Scope {
    fn pods(&self) -> Api<SeenPod> {
        let client = self.ctx.client.clone();
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

/// The Browsers of a BrowserConfig's namespace that have no pod yet.
fn waiting_for(
    browsers: &Store<Browsers>,
    config: &Configs,
    resource: &ApiResource,
) -> Vec<ObjectRef<Browsers>> {
    let namespace = config.meta().namespace.as_deref();
    let waits = |browser: &BrowserObject| {
        let status = browser.status.as_ref();
        let ended = |phase| matches!(phase, Phase::Failed | Phase::Succeeded);
        status.is_none_or(|status| status.pod_uid.is_none() && !status.phase.is_some_and(ended))
    };
    let waiting = browsers.state_filter(|browser| {
        browser.meta().namespace.as_deref() == namespace && browser.0.as_ref().is_ok_and(waits)
    });
    waiting
        .iter()
        .map(|browser| ObjectRef::from_obj_with(&**browser, resource.clone()))
        .collect()
}
