//! The controllers and loops of the duty, once what they stand on is made.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::reflector::Store;
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::kind::{Kind, ResourceScope};
use podloom_engine::metrics::{Counted, NONE, UNREADABLE, phases};
use podloom_engine::outbound::SystemResolver;
use podloom_engine::readable::Readable;
use podloom_engine::scope::{Pace, WatchScope};
use podloom_engine::wiring::{self, Wiring};

use super::hub::Hub;
use super::scoped::{self, Filled, Part, Writers};
use super::twins;
use crate::cloud::Clouds;
use crate::cluster::{Claims, ClusterKind, Settings, Silent};
use crate::drift::{Drift, Outside, Schedule};
use crate::im::{ImRules, InfrastructureManager};
use crate::in_use::secrets::{Keeper, Warned};
use crate::in_use::{Live, Resources};
use crate::kubeconfig::Prober;
use crate::level::{Global, InNamespaces, Level};
use crate::metrics::{self, InfrastructureMetrics};
use crate::probe::Probes;
use crate::probed::{Parts, Probed, ProbedKind};
use crate::provider::{Providers, readiness as readiness_of};
use crate::resolve::Caches;
use crate::said::{Sayings, Shared};
use crate::secret_metas::SecretMetas;
use crate::secrets::Secrets;
use crate::settings::InfrastructureSetup;

/// What the controllers in all scopes share.
pub(super) struct Duty {
    pub(super) resources: Resources,
    pub(super) hub: Hub,
    pub(super) live: Live,
    pub(super) metas: SecretMetas,
    pub(super) secrets: Secrets,
    pub(super) im: Arc<dyn InfrastructureManager>,
    pub(super) silent: Silent,
    pub(super) metrics: InfrastructureMetrics,
    pub(super) setup: InfrastructureSetup,
}

/// The caches that all passes wait for. What a finalizer and a count say comes from all of them.
#[derive(Clone)]
struct Awaited(Vec<Filled>);

impl Awaited {
    fn by<K: Kind>(&self, wiring: &mut Wiring<K>)
    where
        Readable<K::Object>: serde::de::DeserializeOwned,
    {
        for filled in &self.0 {
            wiring.await_cache(filled.clone().boxed());
        }
    }
}

impl Duty {
    /// Returns the work of all controllers and loops.
    pub(super) fn run(
        &self,
        scopes: &[WatchScope],
        writers: Vec<Writers>,
    ) -> BoxFuture<'static, ()> {
        let parts = scopes.iter().zip(writers).enumerate();
        let parts = parts.filter_map(|(number, (scope, writers))| {
            scoped::watch(scope, number, writers, &self.resources, &self.hub)
        });
        let parts: Vec<Part> = parts.collect();
        let mut filled: Vec<Filled> = parts.iter().flat_map(|it| it.filled.clone()).collect();
        if let Some(first) = scopes.first() {
            filled.extend(self.optional_caches(&first.of_cluster()));
        }
        let awaited = Awaited(filled);
        let counted = self.metrics.count(Arc::clone(&self.hub.known.clusters));
        let mut work = Vec::new();
        for ((scope, part), caches) in scopes.iter().zip(parts).zip(&*self.hub.known.caches) {
            work.extend(self.of_scope(scope, part, caches, &awaited));
        }
        if let (Some(first), Some(caches)) = (scopes.first(), self.hub.known.caches.first()) {
            work.extend(self.of_cluster(&first.of_cluster(), caches, &awaited));
            work.push(self.loops(first, &awaited));
        }
        future::join_all(work).map(move |_| drop(counted)).boxed()
    }

    /// The caches of what may not be readable. They are ready when that is known.
    fn optional_caches(&self, scope: &WatchScope) -> Vec<Filled> {
        let mut filled = Vec::new();
        if let Some(caches) = self.hub.known.caches.first() {
            filled.push(
                scope
                    .cache_filled(caches.clouds.global.store(), "GlobalClouds")
                    .shared(),
            );
            let providers = caches.providers.global.store();
            filled.push(
                scope
                    .cache_filled(providers, "GlobalInfrastructureProviders")
                    .shared(),
            );
        }
        for metas in &*self.metas.0 {
            filled.push(scope.cache_filled(metas.cache.store(), "Secrets").shared());
        }
        filled
    }

    /// The controllers of a scope.
    fn of_scope(
        &self,
        scope: &WatchScope,
        mut part: Part,
        caches: &Caches,
        awaited: &Awaited,
    ) -> [BoxFuture<'static, ()>; 3] {
        awaited.by(&mut part.clusters);
        awaited.by(&mut part.clouds);
        awaited.by(&mut part.providers);
        let wide = WatchScope {
            pace: Pace {
                concurrency: self.setup.workers,
                ..scope.pace
            },
            ..scope.clone()
        };
        let clusters = counted(&wide, "cluster", part.clusters.store(), state_of_cluster);
        let clouds = counted(scope, "cloud", part.clouds.store(), state_of_cloud);
        let providers = counted(
            scope,
            "infrastructureprovider",
            part.providers.store(),
            readiness,
        );
        let cloud = self.probed::<Clouds, InNamespaces>(&self.resources.clouds.namespaced, caches);
        let provider =
            self.probed::<Providers, InNamespaces>(&self.resources.providers.namespaced, caches);
        [
            until(
                wiring::run(&wide, self.cluster(caches), part.clusters),
                clusters,
            ),
            until(wiring::run(scope, cloud, part.clouds), clouds),
            until(wiring::run(scope, provider, part.providers), providers),
        ]
    }

    /// The controllers of the cluster-scoped kinds.
    fn of_cluster(
        &self,
        scope: &WatchScope,
        caches: &Caches,
        awaited: &Awaited,
    ) -> Vec<BoxFuture<'static, ()>> {
        let Resources {
            clouds, providers, ..
        } = &self.resources;
        let mut work = Vec::new();
        if let Some(waking) = self.hub.clouds.global.0.first() {
            let mut wiring = twins::wired(&clouds.global, &caches.clouds.global, waking);
            awaited.by(&mut wiring);
            let counted = counted(scope, "globalcloud", wiring.store(), state_of_cloud);
            let kind = self.probed::<Clouds, Global>(&clouds.global, caches);
            work.push(until(wiring::run(scope, kind, wiring), counted));
        }
        if let Some(waking) = self.hub.providers.global.0.first() {
            let mut wiring = twins::wired(&providers.global, &caches.providers.global, waking);
            awaited.by(&mut wiring);
            let store = wiring.store();
            let counted = counted(scope, "globalinfrastructureprovider", store, readiness);
            let kind = self.probed::<Providers, Global>(&providers.global, caches);
            work.push(until(wiring::run(scope, kind, wiring), counted));
        }
        work
    }

    /// The control loops, which begin when the caches are filled.
    fn loops(&self, scope: &WatchScope, awaited: &Awaited) -> BoxFuture<'static, ()> {
        let keeper = Keeper {
            ctx: Arc::clone(&scope.ctx),
            metas: self.metas.clone(),
            known: self.hub.known.clone(),
            live: self.live.clone(),
            warned: Warned::default(),
        };
        let drift = Drift {
            outside: Outside {
                known: self.hub.known.clone(),
                secrets: self.secrets.clone(),
                im: Arc::clone(&self.im),
            },
            memory: self.hub.memory.clone(),
            clusters: self.hub.clusters.clone(),
            metrics: self.metrics.clone(),
        };
        let (stop, recorder) = (scope.stop.clone(), Arc::clone(&self.setup.recorder));
        let keeping = keeper.start(
            self.hub.secrets.clone(),
            Arc::clone(&recorder),
            stop.clone(),
        );
        let comparing = drift.start(&Schedule {
            interval: self.setup.drift_interval,
            recorder,
            stop: stop.clone(),
        });
        let filled = future::join_all(awaited.0.clone());
        let secrets = self.secrets.clone();
        async move {
            tokio::select! {
                _ = filled => {}
                () = stop.cancelled() => return,
            }
            let work = future::join(keeping, comparing);
            future::select(work.boxed(), secrets.forget().boxed()).await;
        }
        .boxed()
    }

    /// What is said in the statuses of a level. Only whoever watches all namespaces is alone with the cluster-scoped objects.
    fn said<S: Shared>(&self, scope: ResourceScope) -> Sayings<S> {
        let is_alone = scope == ResourceScope::Namespaced || self.live.watched.contains(&None);
        match is_alone {
            true => Sayings::default(),
            false => Sayings::among_others(),
        }
    }

    fn cluster(&self, caches: &Caches) -> ClusterKind {
        let rules = ImRules {
            allow: self.setup.allow.clone(),
            deny: self.setup.deny.clone(),
        };
        let resolver = Arc::new(SystemResolver::with_proxies());
        ClusterKind {
            resources: self.resources.clone(),
            secret: ApiResource::erase::<Secret>(&()),
            caches: caches.clone(),
            metas: self.metas.clone(),
            claims: Claims(self.hub.known.clone()),
            im: Arc::clone(&self.im),
            secrets: self.secrets.clone(),
            prober: Prober::new(&rules, resolver, self.metrics.outbound.clone()),
            memory: self.hub.memory.clone(),
            silent: self.silent.clone(),
            metrics: self.metrics.clone(),
            settings: Settings {
                settle: self.setup.settle,
                probe: self.setup.probe_clusters,
            },
        }
    }

    fn probed<P: Probed, L: Level<P>>(
        &self,
        resource: &Arc<ApiResource>,
        caches: &Caches,
    ) -> ProbedKind<P, L> {
        ProbedKind {
            parts: Parts {
                resource: Arc::clone(resource),
                caches: caches.clone(),
                known: self.hub.known.clone(),
                live: self.live.clone(),
                metas: self.metas.clone(),
                secrets: self.secrets.clone(),
                im: Arc::clone(&self.im),
                probes: Probes::default(),
                said: self.said(L::TRAITS.scope),
            },
            level: PhantomData,
        }
    }
}

/// Counts the objects of a cache by phase.
fn counted<K>(
    scope: &WatchScope,
    controller: &'static str,
    store: Store<Readable<K>>,
    phase: fn(&K) -> &'static str,
) -> Counted
where
    K: Resource<DynamicType = ApiResource> + Clone + Send + Sync + 'static,
{
    let phases = phases(store, UNREADABLE, phase);
    scope.ctx.metrics.objects.count(controller, phases)
}

/// Counts until the work is done.
fn until(
    work: impl Future<Output = ()> + Send + 'static,
    counted: Counted,
) -> BoxFuture<'static, ()> {
    work.map(move |()| drop(counted)).boxed()
}

fn state_of_cluster(cluster: &ClusterObject) -> &'static str {
    let state = cluster.status.as_ref().and_then(|status| status.state);
    state.map_or(NONE, |state| state.as_str())
}

fn state_of_cloud(cloud: &CloudObject) -> &'static str {
    let state = cloud.status.as_ref().and_then(|status| status.state);
    state.map_or(NONE, |state| state.as_str())
}

fn readiness(provider: &InfrastructureProviderObject) -> &'static str {
    match readiness_of(provider) {
        None => NONE,
        Some("True") => metrics::READY,
        Some(_) => metrics::NOT_READY,
    }
}
