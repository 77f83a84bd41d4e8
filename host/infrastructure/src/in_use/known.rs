//! The users of an object as the caches know them.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::runtime::reflector::Store;
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::readable::Readable;

use super::leads::{clouds_of_provider, clouds_of_secret};
use super::needs::Users;
use crate::resolve::{Caches, Key, SecretKey};

/// The caches of all watch scopes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Known {
    /// The Clusters of each scope.
    pub(crate) clusters: Arc<[Store<Readable<ClusterObject>>]>,
    /// What they can name, of each scope.
    pub(crate) caches: Arc<[Caches]>,
}

impl Known {
    /// Returns the Clusters that need a Cloud.
    pub(crate) fn users_of_cloud(&self, cloud: &Key) -> Users {
        self.users(&BTreeSet::from([cloud.clone()]))
    }

    /// Returns the Clusters that need a provider.
    pub(crate) fn users_of_provider(&self, provider: &Key) -> Users {
        let clouds = self.clouds();
        self.users(&clouds_of_provider(provider, clouds.iter().map(|it| &**it)))
    }

    /// Returns the Clusters that need a Secret.
    pub(crate) fn users_of_secret(&self, secret: &SecretKey) -> Users {
        let (clouds, providers) = (self.clouds(), self.providers());
        let clouds = clouds.iter().map(|it| &**it);
        let providers = providers.iter().map(|it| &**it);
        self.users(&clouds_of_secret(secret, clouds, providers, self.global()))
    }

    /// Returns how many Clouds name a provider.
    pub(crate) fn clouds_of_provider(&self, provider: &Key) -> usize {
        let clouds = self.clouds();
        clouds_of_provider(provider, clouds.iter().map(|it| &**it)).len()
    }

    /// Returns a Cloud of any scope.
    pub(crate) fn cloud(&self, cloud: &Key) -> Option<Arc<Readable<CloudObject>>> {
        self.caches.iter().find_map(|it| it.clouds.find(cloud))
    }

    /// Returns a provider of any scope.
    pub(crate) fn provider(
        &self,
        provider: &Key,
    ) -> Option<Arc<Readable<InfrastructureProviderObject>>> {
        self.caches
            .iter()
            .find_map(|it| it.providers.find(provider))
    }

    /// Returns all Clouds and GlobalClouds.
    pub(crate) fn clouds(&self) -> Vec<Arc<Readable<CloudObject>>> {
        let scopes = self.caches.iter();
        let mut all: Vec<_> = scopes.flat_map(|it| it.clouds.namespaced.state()).collect();
        // They are the same in each scope.
        let global = self.caches.first().map(|it| it.clouds.global.store());
        all.extend(global.into_iter().flat_map(Store::state));
        all
    }

    /// Returns all InfrastructureProviders and GlobalInfrastructureProviders.
    pub(crate) fn providers(&self) -> Vec<Arc<Readable<InfrastructureProviderObject>>> {
        let scopes = self.caches.iter();
        let mut all: Vec<_> = scopes
            .flat_map(|it| it.providers.namespaced.state())
            .collect();
        let global = self.caches.first().map(|it| it.providers.global.store());
        all.extend(global.into_iter().flat_map(Store::state));
        all
    }

    /// Returns the namespace of the Secrets of cluster-scoped objects.
    pub(crate) fn global(&self) -> &str {
        let first = self.caches.first();
        first.map_or("", |caches| &caches.global_secret_namespace)
    }

    fn users(&self, clouds: &BTreeSet<Key>) -> Users {
        if clouds.is_empty() {
            return Users::default();
        }
        let scopes = self.clusters.iter().map(Store::state);
        scopes.fold(Users::default(), |users, clusters| {
            users.and(Users::among(clusters.iter().map(|it| &**it), clouds))
        })
    }
}
