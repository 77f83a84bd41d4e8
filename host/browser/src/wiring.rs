//! What wakes Browsers and BrowserConfigs: themselves, pods, and the BrowserConfigs of their namespace.

mod changes;
mod configs;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, future, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use podloom_api::{BrowserObject, Phase, SelenosisApi, SelenosisKind, names};
use podloom_mutation::PodMutator;

use self::changes::Affected;
use super::config::BrowserConfigKind;
use super::kind::{BrowserKind, Caches, Resources};
use super::memory::Memory;
use super::metrics::{BrowserMetrics, CONTROLLER, phase};
use super::pod::SeenPod;
use super::timeouts::Timeouts;
use podloom_engine::metrics::{NONE, phases};
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wiring::{self, Other, Wiring};

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
    let configs = configs::watch(scope, &config);
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
