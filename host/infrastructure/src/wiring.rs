//! What wakes Clusters, Clouds and providers: themselves, each other, and the Secrets that they name.
//!
//! Clusters, Clouds and InfrastructureProviders are watched in each scope; GlobalClouds and GlobalInfrastructureProviders once, and only
//! if they may be read: the others go on without them. Of Secrets only the metadata is watched.

mod hub;
mod run;
mod scoped;
mod secrets;
mod twins;

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use podloom_api::InfrastructureKind as Kind;
use podloom_control_loop::Hints;

use self::hub::{Hub, Twins as TwinWaking};
use self::run::Duty;
use self::scoped::Writers;
use super::cluster::{Memory, Silent};
use super::im::{ImClient, ImRules, InfrastructureManager};
use super::in_use::{Known, Live, Resources};
use super::metrics::InfrastructureMetrics;
use super::resolve::{Caches, TwinResources, Twins};
use super::secrets::Secrets;
use super::settings::InfrastructureSetup;
use super::waking::Waking;
use podloom_engine::outbound::{Resolve, SystemResolver};
use podloom_engine::scope::WatchScope;

/// What watches tell. They are made before it is, and are polled after it is set.
type Knot = Arc<OnceLock<Hub>>;

/// Returns the work of all controllers until they are stopped.
///
/// The caches are awaited from now on, not from the work's first poll.
pub fn begin(
    scopes: &[WatchScope],
    setup: InfrastructureSetup,
    metrics: &InfrastructureMetrics,
) -> BoxFuture<'static, ()> {
    let rules = ImRules {
        allow: setup.allow.clone(),
        deny: setup.deny.clone(),
    };
    let resolver: Arc<dyn Resolve> = Arc::new(SystemResolver::with_proxies());
    let im = ImClient::new(&rules, &resolver, metrics.im.clone());
    begin_with(scopes, setup, metrics, Arc::new(im))
}

/// Does what [`begin`] does, with another client of Infrastructure Managers.
pub(crate) fn begin_with(
    scopes: &[WatchScope],
    setup: InfrastructureSetup,
    metrics: &InfrastructureMetrics,
    im: Arc<dyn InfrastructureManager>,
) -> BoxFuture<'static, ()> {
    let Some(first) = scopes.first() else {
        return future::ready(()).boxed();
    };
    let cluster = first.of_cluster();
    let resources = resources();
    let knot = Knot::default();
    let (clouds, fill_clouds) = twins::watch(
        &cluster,
        &resources.clouds.global,
        "GlobalCloud",
        &knot,
        Hub::cloud,
    );
    let (providers, fill_providers) = twins::watch(
        &cluster,
        &resources.providers.global,
        "GlobalInfrastructureProvider",
        &knot,
        Hub::provider,
    );
    let global: Arc<str> = setup.global_secret_namespace.as_str().into();
    let (metas, fill_metas) = secrets::watch(scopes, &global, &knot);
    let writers: Vec<Writers> = scopes.iter().map(|_| Writers::new(&resources)).collect();
    let caches = writers.iter().map(|writers| Caches {
        clouds: Twins {
            namespaced: writers.clouds.as_reader(),
            global: clouds.clone(),
            resources: resources.clouds.clone(),
        },
        providers: Twins {
            namespaced: writers.providers.as_reader(),
            global: providers.clone(),
            resources: resources.providers.clone(),
        },
        global_secret_namespace: Arc::clone(&global),
    });
    let namespaces: Arc<[_]> = scopes.iter().map(|it| it.namespace.clone()).collect();
    let hub = hub(&namespaces, &writers, caches.collect());
    // It is set here and nowhere else.
    let hub = knot.get_or_init(|| hub).clone();
    let duty = Duty {
        live: Live {
            client: first.ctx.client.clone(),
            known: hub.known.clone(),
            watched: namespaces,
            resources: resources.clone(),
            global_secret_namespace: global,
        },
        secrets: Secrets::remembering(first.ctx.client.clone(), &metas),
        metrics: metrics.clone(),
        resources,
        metas,
        hub,
        im,
        silent: Silent::default(),
        setup,
    };
    let controllers = duty.run(scopes, writers);
    let fill = [fill_clouds, fill_providers].into_iter().chain(fill_metas);
    // What fills caches has no end.
    let beside = future::join_all(fill).map(drop).boxed();
    future::select(controllers, beside).map(drop).boxed()
}

fn hub(namespaces: &[Option<String>], writers: &[Writers], caches: Arc<[Caches]>) -> Hub {
    Hub {
        clusters: Waking::of(namespaces.iter().cloned()),
        clouds: TwinWaking::of(namespaces),
        providers: TwinWaking::of(namespaces),
        secrets: Hints::default(),
        memory: Memory::default(),
        known: Known {
            caches,
            clusters: writers.iter().map(|it| it.clusters.as_reader()).collect(),
        },
    }
}

fn resources() -> Resources {
    let of = |kind: Kind| Arc::new(kind.resource());
    Resources {
        clusters: of(Kind::Cluster),
        clouds: TwinResources {
            namespaced: of(Kind::Cloud),
            global: of(Kind::GlobalCloud),
        },
        providers: TwinResources {
            namespaced: of(Kind::InfrastructureProvider),
            global: of(Kind::GlobalInfrastructureProvider),
        },
    }
}
