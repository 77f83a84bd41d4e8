//! What wakes Browsers and BrowserConfigs: themselves, pods, and the BrowserConfigs of their namespace.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use kube::core::ApiResource;
use podloom_api::{BrowserConfigObject, BrowserObject, Phase, SelenosisApi, SelenosisKind, names};
use podloom_engine::cache::{Cache, Change, Seen, Watch};
use podloom_engine::metrics::NONE;
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::read::edition;
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;
use podloom_engine::wakes::Wakes;
use podloom_engine::wiring::Wiring;
use podloom_mutation::PodMutator;

use super::config::BrowserConfigKind;
use super::kind::{BrowserKind, Caches, Resources};
use super::memory::Memory;
use super::metrics::{BrowserMetrics, phase};
use super::pod::SeenPod;
use super::world::Timeouts;

/// Browsers in a cache. One that cannot be read hides no other.
pub(crate) type Browsers = Cache<Readable<BrowserObject>>;
pub(crate) type Configs = Cache<Readable<BrowserConfigObject>>;

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

/// Returns, once the cache of namespaces is filled, the work of both controllers until they are stopped.
///
/// The other caches are awaited from then on, not from the work's first poll.
pub async fn begin(
    scopes: &[WatchScope],
    setup: BrowserSetup,
    metrics: &BrowserMetrics,
) -> BoxFuture<'static, ()> {
    let Some((namespaces, fill_namespaces)) = namespaces::watch_for(scopes, |_| {}).await else {
        return future::ready(()).boxed();
    };
    let resources = resources(setup.api);
    let browsers = Watch::of_kind::<BrowserKind>("Browsers", &resources.browser);
    let browsers = Cache::new(scopes, browsers);
    let caches = caches(scopes, &resources, namespaces);
    let (memory, changed) = (Memory::default(), Wakes::default());
    memory.warm.listen(&caches.configs, &caches.pods);
    remember(&caches.pods, &browsers, memory.clone());
    note_changes(&caches.configs, changed.clone());
    let of_browsers = Wiring::<BrowserKind>::new(&browsers)
        .owns(&caches.pods)
        .awaits_in_scope(&caches.configs)
        .counts(NONE, phase);
    let of_configs = Wiring::<BrowserConfigKind>::new(&caches.configs).owns(&caches.pods);
    // What fills caches has no end.
    let beside = future::join5(
        fill_namespaces,
        browsers.fill(),
        caches.configs.fill(),
        caches.pods.fill(),
        wake_waiting(&changed, browsers),
    );
    let configs = BrowserConfigKind {
        api: setup.api,
        resources: resources.clone(),
        caches: caches.clone(),
        mutator: Arc::clone(&setup.mutator),
        memory: memory.warm.clone(),
        start_within: setup.timeouts.pod_creation,
    };
    let browsers = BrowserKind {
        api: setup.api,
        resources,
        caches,
        mutator: setup.mutator,
        timeouts: setup.timeouts,
        memory,
        metrics: metrics.clone(),
    };
    let controllers = future::join(
        of_browsers.run(scopes, browsers),
        of_configs.run(scopes, configs),
    );
    future::select(controllers.boxed(), beside.boxed())
        .map(drop)
        .boxed()
}

fn resources(api: SelenosisApi) -> Resources {
    Resources {
        browser: Arc::new(api.resource(SelenosisKind::Browser)),
        config: Arc::new(api.resource(SelenosisKind::BrowserConfig)),
        pod: ApiResource::erase::<Pod>(&()),
        policy: ApiResource::erase::<NetworkPolicy>(&()),
    }
}

fn caches(scopes: &[WatchScope], resources: &Resources, namespaces: Namespaces) -> Caches {
    let configs = Watch::of_kind::<BrowserConfigKind>("BrowserConfigs", &resources.config);
    Caches {
        configs: Cache::new(scopes, configs),
        pods: Cache::new(scopes, watch_of_pods()),
        namespaces,
    }
}

/// Pods of Browsers are watched, and those that wait for one. One that loses our label leaves the watch as if it were gone.
pub(crate) fn watch_of_pods() -> Watch<SeenPod> {
    Watch {
        label: names::label::BROWSER_NAME,
        ..Watch::of("Pod", "Pods")
    }
}

/// Notes how pods ended: by the time their Browsers are looked at, the cache no longer has them.
///
/// Anybody can create pods that name an owner, so only those of Browsers that exist are noted.
pub(crate) fn remember(pods: &Cache<SeenPod>, browsers: &Browsers, memory: Memory) {
    let browsers = browsers.clone();
    pods.listen(move |seen| {
        let Seen::Changed(Change {
            before: Some(pod),
            after: None,
            is_missed,
        }) = seen
        else {
            return;
        };
        let Some(owner) = pod.owner() else {
            return;
        };
        let browser = browsers.get(pod.metadata.namespace.as_deref(), &owner.name);
        if let Some(browser) = browser.filter(|it| it.meta().uid.as_ref() == Some(&owner.uid)) {
            memory.pod_went(browser.meta(), pod, *is_missed);
        }
    });
}

/// Wakes the neighbours of a BrowserConfig that comes, goes or changes its spec, since the older of two serves what both define, and notes
/// its namespace.
///
/// A status wakes only its own BrowserConfig: with a hundred of them, each status write would wake all hundred.
pub(crate) fn note_changes(configs: &Configs, changed: Wakes) {
    let neighbours = configs.clone();
    configs.listen(move |seen| {
        let namespace = match seen {
            Seen::Changed(change) if change.differs(|it| edition(it.meta())) => {
                let config = change.latest();
                config.and_then(|it| it.meta().namespace.as_deref())
            }
            // What came meanwhile is in the cache only now.
            Seen::Listed(namespace) => *namespace,
            _ => return,
        };
        neighbours.wake_in(namespace);
        changed.wake_in(namespace);
    });
}

/// Wakes the Browsers without a pod in namespaces that are noted. It has no end.
pub(crate) fn wake_waiting(
    changed: &Wakes,
    browsers: Browsers,
) -> impl Future<Output = ()> + Send + use<> {
    changed.taken().for_each(move |noted| {
        browsers.wake_if(|it| noted.includes(it.meta()) && it.0.as_ref().is_ok_and(waits));
        future::ready(())
    })
}

/// Whether a Browser waits for its pod.
fn waits(browser: &BrowserObject) -> bool {
    let status = browser.status.as_ref();
    let ended = |phase| matches!(phase, Phase::Failed | Phase::Succeeded);
    status.is_none_or(|status| status.pod_uid.is_none() && !status.phase.is_some_and(ended))
}

#[cfg(test)]
mod tests;
