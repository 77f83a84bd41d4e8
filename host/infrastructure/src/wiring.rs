//! What wakes Clusters, Clouds and providers: themselves, each other, and the Secrets that they name.
//!
//! Clusters, Clouds and InfrastructureProviders are watched in each scope; GlobalClouds and GlobalInfrastructureProviders once, and only
//! if they may be read: the others go on without them. Of Secrets only the metadata is watched.

mod hub;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use kube::core::ApiResource;
use podloom_api::InfrastructureKind as Kind;
use podloom_control_loop::{Hints, Recorder};
use podloom_engine::cache::{Cache, Watch, WhenRefused};
use podloom_engine::kind::ResourceScope;
use podloom_engine::outbound::{Cidr, Resolve, SystemResolver};
use podloom_engine::readable::Readable;
use podloom_engine::scope::WatchScope;

use self::hub::Hub;
use self::run::Duty;
use super::cloud::Clouds;
use super::cluster::{ClusterKind, Memory, Silent};
use super::im::{ImClient, ImRules};
use super::in_use::{Known, Live, Resources};
use super::metrics::InfrastructureMetrics;
use super::probed::{Global, InNamespaces, Level, ObjectOf, Probed, ProbedKind};
use super::provider::Providers;
use super::resolve::{Caches, TwinResources, Twins};
use super::secrets::{SecretMetas, Secrets, prune};

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
    let (resources, global) = (resources(), setup.global_secret_namespace.as_str());
    let known = known(scopes, &resources, global);
    let metas = metas(scopes, global);
    let hub = Hub {
        known: known.clone(),
        secrets: Hints::default(),
        memory: Memory::default(),
    };
    hub.listen(&metas);
    let rules = ImRules {
        allow: setup.allow.clone(),
        deny: setup.deny.clone(),
    };
    // Of its own: names of kubeconfigs that hang must not keep requests to IM from being sent.
    let resolver: Arc<dyn Resolve> = Arc::new(SystemResolver::with_proxies());
    let duty = Duty {
        live: Live {
            client: first.ctx.client.clone(),
            known: known.clone(),
            watched: scopes.iter().map(|it| it.namespace.clone()).collect(),
            resources: resources.clone(),
            global_secret_namespace: global.into(),
        },
        secrets: Secrets::remembering(first.ctx.client.clone(), &metas),
        im: Arc::new(ImClient::new(&rules, &resolver, metrics.im.clone())),
        metrics: metrics.clone(),
        resources,
        metas: metas.clone(),
        hub,
        rules,
        silent: Silent::default(),
        setup,
    };
    let controllers = duty.run(scopes);
    let (clouds, providers) = (known.caches.clouds, known.caches.providers);
    // What fills caches has no end.
    let beside = future::join_all([
        known.clusters.fill(),
        clouds.namespaced.fill(),
        clouds.global.fill(),
        providers.namespaced.fill(),
        providers.global.fill(),
        metas.0.fill(),
    ]);
    future::select(controllers, beside).map(drop).boxed()
}

/// Wakes the objects of these caches as `begin` does, for tests.
#[cfg(test)]
pub(crate) fn listen(known: &Known, metas: &SecretMetas, memory: &Memory) {
    let hub = Hub {
        known: known.clone(),
        secrets: Hints::default(),
        memory: memory.clone(),
    };
    hub.listen(metas);
}

/// The caches of our kinds. The cluster-scoped ones perhaps may not be read.
fn known(scopes: &[WatchScope], resources: &Resources, global: &str) -> Known {
    let (clouds, providers) = (&resources.clouds, &resources.providers);
    let clusters = Watch::of_kind::<ClusterKind>("Clusters", &resources.clusters);
    Known {
        clusters: Cache::new(scopes, clusters),
        caches: Caches {
            clouds: Twins {
                namespaced: watched::<Clouds, InNamespaces>(scopes, "Clouds", &clouds.namespaced),
                global: watched::<Clouds, Global>(scopes, "GlobalClouds", &clouds.global),
            },
            providers: Twins {
                namespaced: watched::<Providers, InNamespaces>(
                    scopes,
                    "InfrastructureProviders",
                    &providers.namespaced,
                ),
                global: watched::<Providers, Global>(
                    scopes,
                    "GlobalInfrastructureProviders",
                    &providers.global,
                ),
            },
            global_secret_namespace: global.into(),
        },
    }
}

fn watched<P: Probed, L: Level<P>>(
    scopes: &[WatchScope],
    cache: &'static str,
    resource: &Arc<ApiResource>,
) -> Cache<Readable<ObjectOf<P>>> {
    let kind = Watch::of_kind::<ProbedKind<P, L>>(cache, resource);
    let refused = match kind.scope {
        ResourceScope::Namespaced => WhenRefused::Awaited,
        ResourceScope::Cluster => WhenRefused::Forgotten,
    };
    Cache::new(scopes, Watch { refused, ..kind })
}

/// The metadata of the Secrets of all scopes, and of those of cluster-scoped objects, only where it may be read.
fn metas(scopes: &[WatchScope], global: &str) -> SecretMetas {
    let mut scopes = scopes.to_vec();
    let is_covered = |it: &WatchScope| it.namespace.as_deref().is_none_or(|it| it == global);
    if !scopes.iter().any(is_covered) {
        let more = scopes.first().map(|scope| WatchScope {
            namespace: Some(global.to_owned()),
            ..scope.clone()
        });
        scopes.extend(more);
    }
    let secrets = Watch {
        prune,
        refused: WhenRefused::Forgotten,
        ..Watch::of("Secret", "Secrets")
    };
    SecretMetas(Cache::new(&scopes, secrets))
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
