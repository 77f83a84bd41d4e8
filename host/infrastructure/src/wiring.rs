//! What wakes Clusters, Clouds and providers: themselves, each other, and the Secrets that they name.
//!
//! Clusters, Clouds and InfrastructureProviders are watched in each scope; GlobalClouds and GlobalInfrastructureProviders once, and only
//! if they may be read: the others go on without them. Of Secrets only the metadata is watched.

mod hub;
mod run;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use podloom_api::InfrastructureKind as Kind;
use podloom_control_loop::{Hints, Recorder};
use podloom_engine::outbound::{Cidr, Resolve, SystemResolver};
use podloom_engine::scope::WatchScope;

use self::hub::Hub;
use self::run::Duty;
use self::watch::{Everywhere, Knot, Place};
use super::cluster::{Memory, Silent};
use super::im::{ImClient, ImRules};
use super::in_use::{Known, Live, Resources};
use super::metrics::InfrastructureMetrics;
use super::resolve::TwinResources;
use super::secrets::Secrets;
use super::waking::{self, Waking};

/// What the operator's flags say about infrastructures.
#[derive(Clone)]
pub struct InfrastructureSetup {
    /// How many Clusters are reconciled at once, in each watch scope; 16 by default.
    pub workers: u16,
    /// How long to wait after a request whose outcome is unknown before it is looked up; 60 seconds by default.
    pub settle: Duration,
    /// The pause between two comparisons with what Infrastructure Managers have, plus or minus a tenth; 300 seconds by default.
    pub drift_interval: Duration,
    /// Whether the API servers of clusters are asked whether they answer.
    pub probe_clusters: bool,
    /// The namespace of the Secrets of GlobalClouds and GlobalInfrastructureProviders.
    pub global_secret_namespace: String,
    /// Addresses that requests may go to although the policy blocks them.
    pub allow: Vec<Cidr>,
    /// Addresses that no request may go to.
    pub deny: Vec<Cidr>,
    /// Receives the measurements of the loops `infrastructure-drift`, `infrastructure-orphans` and `infrastructure-secrets`.
    pub recorder: Arc<dyn Recorder>,
}

impl fmt::Debug for InfrastructureSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfrastructureSetup")
            .field("workers", &self.workers)
            .field("settle", &self.settle)
            .field("drift_interval", &self.drift_interval)
            .field("probe_clusters", &self.probe_clusters)
            .field("global_secret_namespace", &self.global_secret_namespace)
            .field("allow", &self.allow)
            .field("deny", &self.deny)
            .finish_non_exhaustive()
    }
}

/// Returns the work of all controllers until they are stopped.
///
/// The caches are awaited from now on, not from the work's first poll.
pub fn begin(
    scopes: &[WatchScope],
    setup: InfrastructureSetup,
    metrics: &InfrastructureMetrics,
) -> BoxFuture<'static, ()> {
    let Some(first) = scopes.first() else {
        return future::ready(()).boxed();
    };
    let (cluster, resources, knot) = (first.of_cluster(), resources(), Knot::default());
    let global: Arc<str> = setup.global_secret_namespace.as_str().into();
    let (everywhere, fill) = Everywhere::new(&cluster, &resources, &knot);
    let (metas, fill_metas) = watch::secrets(scopes, &global, &knot);
    let place = |scope| Place::new(scope, &resources, &everywhere, &global, &knot);
    let places: Vec<Place> = scopes.iter().map(place).collect();
    // It is set here and nowhere else.
    let hub = knot.get_or_init(|| hub(&places, &everywhere)).clone();
    let rules = ImRules {
        allow: setup.allow.clone(),
        deny: setup.deny.clone(),
    };
    // Of its own: names of kubeconfigs that hang must not keep requests to IM from being sent.
    let resolver: Arc<dyn Resolve> = Arc::new(SystemResolver::with_proxies());
    let duty = Duty {
        live: Live {
            client: first.ctx.client.clone(),
            known: hub.known.clone(),
            watched: scopes.iter().map(|it| it.namespace.clone()).collect(),
            resources: resources.clone(),
            global_secret_namespace: global,
        },
        secrets: Secrets::remembering(first.ctx.client.clone(), &metas),
        im: Arc::new(ImClient::new(&rules, &resolver, metrics.im.clone())),
        metrics: metrics.clone(),
        resources,
        metas,
        hub,
        rules,
        silent: Silent::default(),
        setup,
    };
    let controllers = duty.run(places, everywhere, &cluster);
    // What fills caches has no end.
    let beside = future::join_all(fill.into_iter().chain(fill_metas));
    future::select(controllers, beside.map(drop).boxed())
        .map(drop)
        .boxed()
}

fn hub(places: &[Place], everywhere: &Everywhere) -> Hub {
    let of = |scope: &dyn Fn(&Place) -> waking::Scope| Waking(places.iter().map(scope).collect());
    Hub {
        clusters: of(&|it| it.clusters.waking.clone()),
        clouds: hub::Twins {
            namespaced: of(&|it| it.clouds.waking.clone()),
            global: Waking([everywhere.clouds.waking.clone()].into()),
        },
        providers: hub::Twins {
            namespaced: of(&|it| it.providers.waking.clone()),
            global: Waking([everywhere.providers.waking.clone()].into()),
        },
        secrets: Hints::default(),
        memory: Memory::default(),
        known: Known {
            caches: places.iter().map(|it| it.caches.clone()).collect(),
            clusters: places.iter().map(|it| it.clusters.wiring.store()).collect(),
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
