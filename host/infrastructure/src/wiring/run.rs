//! The controllers and loops of the duty, once what they stand on is made.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::kind::{Kind, ResourceScope};
use podloom_engine::metrics::{NONE, UNREADABLE, phases};
use podloom_engine::outbound::SystemResolver;
use podloom_engine::readable::Readable;
use podloom_engine::scope::{Pace, WatchScope};
use podloom_engine::wiring::{self, Wiring};
use serde::de::DeserializeOwned;

use super::InfrastructureSetup;
use super::hub::Hub;
use super::watch::{Everywhere, Filled, Place};
use crate::cluster::{Claims, ClusterKind, Settings, Silent};
use crate::drift::{Drift, Outside, Schedule};
use crate::im::{ImRules, InfrastructureManager};
use crate::in_use::secrets::Keeper;
use crate::in_use::{Live, Resources};
use crate::kubeconfig::Prober;
use crate::metrics::{self, InfrastructureMetrics};
use crate::probed::{Level, Parts, Probed, ProbedKind, Probes};
use crate::provider::readiness as readiness_of;
use crate::resolve::Caches;
use crate::said::{Sayings, Shared};
use crate::secrets::{SecretMetas, Secrets};

/// What all controllers share.
pub(super) struct Duty {
    pub(super) resources: Resources,
    pub(super) hub: Hub,
    pub(super) live: Live,
    pub(super) metas: SecretMetas,
    pub(super) secrets: Secrets,
    pub(super) im: Arc<dyn InfrastructureManager>,
    pub(super) rules: ImRules,
    pub(super) silent: Silent,
    pub(super) metrics: InfrastructureMetrics,
    pub(super) setup: InfrastructureSetup,
}

impl Duty {
    /// Returns the work of all controllers and loops. Their passes wait for all caches: what a finalizer and a count say comes from all of
    /// them.
    pub(super) fn run(
        &self,
        places: Vec<Place>,
        everywhere: Everywhere,
        cluster: &WatchScope,
    ) -> BoxFuture<'static, ()> {
        let namespaced = places.iter().flat_map(|it| {
            let (clusters, clouds) = (&it.clusters.filled, &it.clouds.filled);
            [clusters, clouds, &it.providers.filled].map(Filled::clone)
        });
        // Those that perhaps may not be read are ready when that is known.
        let metas = self.metas.0.iter().map(|it| it.cache.store());
        let metas = metas.map(|it| cluster.cache_filled(it, "Secrets").shared());
        let global = [&everywhere.clouds.filled, &everywhere.providers.filled];
        let awaited = namespaced.chain(global.map(Filled::clone)).chain(metas);
        let awaited: Vec<Filled> = awaited.collect();
        let counted = self.metrics.count(Arc::clone(&self.hub.known.clusters));
        let mut work = vec![self.loops(cluster, &awaited)];
        if let Some(place) = places.first() {
            work.extend(self.of_cluster(cluster, everywhere, &place.caches, &awaited));
        }
        for place in places {
            work.extend(self.of_scope(place, &awaited));
        }
        future::join_all(work).map(move |_| drop(counted)).boxed()
    }

    /// The controllers of a scope.
    fn of_scope(&self, place: Place, awaited: &[Filled]) -> [BoxFuture<'static, ()>; 3] {
        let (scope, caches) = (&place.scope, &place.caches);
        let wide = WatchScope {
            pace: Pace {
                concurrency: self.setup.workers,
                ..scope.pace
            },
            ..scope.clone()
        };
        let clusters = place.clusters.wiring;
        let cloud = self.probed(&self.resources.clouds.namespaced, caches);
        let clouds = place.clouds.wiring;
        let provider = self.probed(&self.resources.providers.namespaced, caches);
        let providers = place.providers.wiring;
        [
            controller(
                &wide,
                self.cluster(caches),
                clusters,
                awaited,
                state_of_cluster,
            ),
            controller(scope, cloud, clouds, awaited, state_of_cloud),
            controller(scope, provider, providers, awaited, readiness),
        ]
    }

    /// The controllers of the cluster-scoped kinds.
    fn of_cluster(
        &self,
        scope: &WatchScope,
        everywhere: Everywhere,
        caches: &Caches,
        awaited: &[Filled],
    ) -> [BoxFuture<'static, ()>; 2] {
        let cloud = self.probed(&self.resources.clouds.global, caches);
        let clouds = everywhere.clouds.wiring;
        let provider = self.probed(&self.resources.providers.global, caches);
        let providers = everywhere.providers.wiring;
        [
            controller(scope, cloud, clouds, awaited, state_of_cloud),
            controller(scope, provider, providers, awaited, readiness),
        ]
    }

    /// The control loops, which begin when the caches are filled.
    fn loops(&self, scope: &WatchScope, awaited: &[Filled]) -> BoxFuture<'static, ()> {
        let keeper = Keeper {
            ctx: Arc::clone(&scope.ctx),
            metas: self.metas.clone(),
            known: self.hub.known.clone(),
            live: self.live.clone(),
            warned: std::sync::Mutex::default(),
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
        let filled = future::join_all(awaited.to_vec());
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
        ClusterKind {
            resources: self.resources.clone(),
            secret: ApiResource::erase::<Secret>(&()),
            caches: caches.clone(),
            metas: self.metas.clone(),
            claims: Claims(self.hub.known.clone()),
            im: Arc::clone(&self.im),
            secrets: self.secrets.clone(),
            prober: Prober::new(
                &self.rules,
                Arc::new(SystemResolver::with_proxies()),
                self.metrics.outbound.clone(),
            ),
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

/// Runs a controller whose passes wait for all caches, and counts its objects by phase until it ends.
fn controller<K: Kind>(
    scope: &WatchScope,
    kind: K,
    mut wiring: Wiring<K>,
    awaited: &[Filled],
    phase: fn(&K::Object) -> &'static str,
) -> BoxFuture<'static, ()>
where
    Readable<K::Object>: DeserializeOwned,
{
    for filled in awaited {
        wiring.await_cache(filled.clone().boxed());
    }
    let phases = phases(wiring.store(), UNREADABLE, phase);
    let objects = &scope.ctx.metrics.objects;
    let counted = objects.count(K::TRAITS.controller, phases);
    let work = wiring::run(scope, kind, wiring);
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
