//! The controllers and loops of the duty, once what they stand on is made.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{self, BoxFuture, Shared};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::cache::Cache;
use podloom_engine::kind::{Kind, ResourceScope};
use podloom_engine::metrics::{NONE, UNREADABLE};
use podloom_engine::outbound::SystemResolver;
use podloom_engine::readable::Readable;
use podloom_engine::scope::{Pace, WatchScope};
use podloom_engine::wiring::Wiring;
use serde::de::DeserializeOwned;

use super::InfrastructureSetup;
use super::hub::Hub;
use crate::cloud::Clouds;
use crate::cluster::{Claims, ClusterKind, Settings, Silent};
use crate::drift::{Drift, Outside, Schedule};
use crate::im::{ImRules, InfrastructureManager};
use crate::in_use::secrets::Keeper;
use crate::in_use::{Known, Live, Resources};
use crate::kubeconfig::Prober;
use crate::metrics::{self, InfrastructureMetrics};
use crate::probed::{Global, InNamespaces, Level, ObjectOf, Parts, Probed, ProbedKind, Probes};
use crate::provider::{Providers, readiness as readiness_of};
use crate::said::{self, Sayings};
use crate::secrets::{SecretMetas, Secrets};

/// Resolves when all caches are filled.
type Filled = Shared<BoxFuture<'static, ()>>;

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
    pub(super) fn run(&self, scopes: &[WatchScope]) -> BoxFuture<'static, ()> {
        let Known { clusters, caches } = &self.hub.known;
        let (clouds, providers) = (&caches.clouds, &caches.providers);
        // Those that perhaps may not be read are ready when that is known.
        let all = [
            clusters.filled(None),
            clouds.namespaced.filled(None),
            clouds.global.filled(None),
            providers.namespaced.filled(None),
            providers.global.filled(None),
            self.metas.0.filled(None),
        ];
        let filled = future::join_all(all).map(drop).boxed().shared();
        let wide = scopes.iter().map(|scope| WatchScope {
            pace: Pace {
                concurrency: self.setup.workers,
                ..scope.pace
            },
            ..scope.clone()
        });
        let wide: Vec<WatchScope> = wide.collect();
        let mut work = vec![
            controller(&wide, clusters, self.cluster(), &filled, state_of_cluster),
            self.probing::<Clouds, InNamespaces>(
                scopes,
                &clouds.namespaced,
                &filled,
                state_of_cloud,
            ),
            self.probing::<Clouds, Global>(scopes, &clouds.global, &filled, state_of_cloud),
            self.probing::<Providers, InNamespaces>(
                scopes,
                &providers.namespaced,
                &filled,
                readiness,
            ),
            self.probing::<Providers, Global>(scopes, &providers.global, &filled, readiness),
        ];
        if let Some(scope) = scopes.first() {
            work.push(self.loops(scope, filled));
        }
        let counted = self.metrics.count(clusters.clone());
        future::join_all(work).map(move |_| drop(counted)).boxed()
    }

    /// The controller of a kind that is probed.
    fn probing<P: Probed, L: Level<P>>(
        &self,
        scopes: &[WatchScope],
        cache: &Cache<Readable<ObjectOf<P>>>,
        filled: &Filled,
        phase: fn(&ObjectOf<P>) -> &'static str,
    ) -> BoxFuture<'static, ()> {
        let kind = self.probed::<P, L>(cache.resource());
        controller(scopes, cache, kind, filled, phase)
    }

    /// The control loops, which begin when the caches are filled.
    fn loops(&self, scope: &WatchScope, filled: Filled) -> BoxFuture<'static, ()> {
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
        let secrets = self.secrets.clone();
        async move {
            tokio::select! {
                () = filled => {}
                () = stop.cancelled() => return,
            }
            let work = future::join(keeping, comparing);
            future::select(work.boxed(), secrets.forget().boxed()).await;
        }
        .boxed()
    }

    /// What is said in the statuses of a level. Only whoever watches all namespaces is alone with the cluster-scoped objects.
    fn said<S: said::Shared>(&self, scope: ResourceScope) -> Sayings<S> {
        let is_alone = scope == ResourceScope::Namespaced || self.live.watched.contains(&None);
        match is_alone {
            true => Sayings::default(),
            false => Sayings::among_others(),
        }
    }

    fn cluster(&self) -> ClusterKind {
        ClusterKind {
            resources: self.resources.clone(),
            secret: ApiResource::erase::<Secret>(&()),
            caches: self.hub.known.caches.clone(),
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

    fn probed<P: Probed, L: Level<P>>(&self, resource: &Arc<ApiResource>) -> ProbedKind<P, L> {
        ProbedKind {
            parts: Parts {
                resource: Arc::clone(resource),
                caches: self.hub.known.caches.clone(),
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

/// Runs a controller whose passes wait for all caches, and counts its objects by phase.
fn controller<K: Kind>(
    scopes: &[WatchScope],
    cache: &Cache<Readable<K::Object>>,
    kind: K,
    filled: &Filled,
    phase: fn(&K::Object) -> &'static str,
) -> BoxFuture<'static, ()>
where
    Readable<K::Object>: DeserializeOwned,
{
    let wiring = Wiring::<K>::new(cache).awaits(filled.clone());
    let wiring = wiring.counts(UNREADABLE, phase);
    wiring.run(scopes, kind).boxed()
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
