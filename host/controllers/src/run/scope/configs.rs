//! BrowserConfigs, woken by themselves and those beside them, since the older of two serves what both define.

use futures::channel::mpsc;
use futures::{FutureExt, StreamExt, future, stream};
use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::{Config, Controller};
use podloom_api::Kind;

use super::super::{BROWSER_CONFIG, Setup};
use super::{Configs, Scope, drop_managed_fields, watching};
use crate::backoff::Backoff;
use crate::browser_config::BrowserConfigController;
use crate::drive::{Driven, drive, telling_lists, watch};

/// Runs the controller until it is stopped.
pub(super) fn run(scope: &Scope, setup: &Setup) -> impl Future<Output = ()> + Send + use<> {
    let resource = setup.api.resource(Kind::BrowserConfig);
    let (configs, events) = watch(
        scope.api::<Configs>(&resource),
        watching(),
        resource.clone(),
        drop_managed_fields,
        scope.broke("BrowserConfig"),
    );
    let cache = scope.filled(&configs, "BrowserConfigs, of their own controller");
    let (beside, of_event) = (configs.clone(), resource.clone());
    let (listed, lists) = mpsc::channel(1);
    let wakened = telling_lists(events, listed)
        .touched_objects()
        .filter_map(|event| future::ready(event.ok()))
        .flat_map(move |config| stream::iter(with_neighbours(&beside, &config, &of_event)));
    // Its own stream is silent: what wakes one wakes its neighbours, so all come the same way.
    let controller =
        Controller::for_stream_with(stream::pending(), configs.clone(), resource.clone())
            .with_config(Config::default().concurrency(setup.concurrency))
            .reconcile_on(wakened)
            .reconcile_all_on(lists)
            .graceful_shutdown_on(scope.stop.clone().cancelled_owned());
    let driven = Driven {
        name: BROWSER_CONFIG,
        resource: resource.clone(),
        ctx: scope.ctx.clone(),
        controller: BrowserConfigController { resource, configs },
        caches: cache.boxed().shared(),
        backoff: Backoff::new(),
    };
    drive(controller, driven, scope.stop.clone())
}

/// A BrowserConfig and all others of its namespace.
fn with_neighbours(
    configs: &Store<Configs>,
    config: &Configs,
    resource: &ApiResource,
) -> Vec<ObjectRef<Configs>> {
    let namespace = config.meta().namespace.as_deref();
    let mut refs: Vec<_> = configs
        .state_filter(|other| other.meta().namespace.as_deref() == namespace)
        .iter()
        .map(|other| ObjectRef::from_obj_with(&**other, resource.clone()))
        .collect();
    let own = ObjectRef::from_obj_with(config, resource.clone());
    if !refs.contains(&own) {
        refs.push(own);
    }
    refs
}
