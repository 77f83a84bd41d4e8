//! The users of an object as the API server knows them: a finalizer is not removed because of a cache.
//!
//! The users of an object in a namespace are in that namespace. Those of a cluster-scoped one may be in any, also in those that are not
//! watched: another installation may use it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicResourceScope, Status};
use kube::{Api, Client, Resource};
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::readable::Readable;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{Known, Users, clouds_of_provider, clouds_of_secret};
use crate::resolve::{Key, SecretKey, TwinResources, secrets_named_by_provider};

/// How many objects one request returns, since a Cluster has up to 256 KiB.
const PAGE: u32 = 50;
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads users from the API server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Live {
    /// The client of the API server.
    pub(crate) client: Client,
    /// The same, as the caches know it.
    pub(crate) known: Known,
    /// The watched namespaces; none for all.
    pub(crate) watched: Arc<[Option<String>]>,
    /// The resources of what is read.
    pub(crate) resources: Resources,
    /// The namespace of the Secrets of cluster-scoped objects.
    pub(crate) global_secret_namespace: Arc<str>,
}

/// The resources of our kinds. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Resources {
    /// Clusters.
    pub(crate) clusters: Arc<ApiResource>,
    /// Clouds and GlobalClouds.
    pub(crate) clouds: TwinResources,
    /// InfrastructureProviders and GlobalInfrastructureProviders.
    pub(crate) providers: TwinResources,
}

impl Live {
    /// Reads the Clusters that need a Cloud.
    ///
    /// # Errors
    ///
    /// Returns an error if a request fails.
    pub(crate) async fn users_of_cloud(&self, cloud: &Key) -> Result<Users, Error> {
        self.users(&BTreeSet::from([cloud.clone()])).await
    }

    /// Reads the Clusters that need a provider.
    ///
    /// # Errors
    ///
    /// Returns an error if a request fails.
    pub(crate) async fn users_of_provider(&self, provider: &Key) -> Result<Users, Error> {
        let mut clouds = self.clouds(provider.namespace.as_deref()).await?;
        if provider.namespace.is_none() {
            clouds.extend(self.global_clouds().await?);
        }
        self.users(&clouds_of_provider(provider, &clouds)).await
    }

    /// Reads the Clusters that need a Secret.
    ///
    /// # Errors
    ///
    /// Returns an error if a request fails.
    pub(crate) async fn users_of_secret(&self, secret: &SecretKey) -> Result<Users, Error> {
        let namespace = Some(secret.namespace.as_str());
        let global = &*self.global_secret_namespace;
        if namespace != Some(global) {
            let (clouds, providers) = (self.clouds(namespace), self.providers(namespace));
            let (clouds, providers) = (clouds.await?, providers.await?);
            let clouds = clouds_of_secret(secret, &clouds, &providers, global);
            return self.users(&clouds).await;
        }
        let mut providers = self.global_providers().await?;
        let is_named = |it: &Readable<InfrastructureProviderObject>| {
            let named =
                it.0.as_ref()
                    .map(|it| secrets_named_by_provider(it, global));
            named.is_ok_and(|named| named.contains(secret))
        };
        // Clouds of all namespaces may name a cluster-scoped provider.
        let mut clouds = match providers.iter().any(is_named) {
            true => self.clouds(None).await?,
            false => self.if_watched(global, self.clouds(namespace)).await?,
        };
        clouds.extend(self.global_clouds().await?);
        providers.extend(self.if_watched(global, self.providers(namespace)).await?);
        let clouds = clouds_of_secret(secret, &clouds, &providers, global);
        self.users(&clouds).await
    }

    async fn users(&self, clouds: &BTreeSet<Key>) -> Result<Users, Error> {
        let mut namespaces: BTreeSet<Option<&str>> =
            clouds.iter().map(|it| it.namespace.as_deref()).collect();
        if namespaces.contains(&None) {
            // That is all of them.
            namespaces = BTreeSet::from([None]);
        }
        let mut users = Users::default();
        for namespace in namespaces {
            let api = self.api::<ClusterObject>(namespace, &self.resources.clusters);
            each_page(&api, |page| users = users.and(Users::among(page, clouds))).await?;
        }
        Ok(users)
    }

    /// The Clouds of a namespace, or of all.
    async fn clouds(&self, namespace: Option<&str>) -> Result<Vec<Readable<CloudObject>>, Error> {
        self.all(namespace, &self.resources.clouds.namespaced).await
    }

    /// The InfrastructureProviders of a namespace, or of all.
    async fn providers(
        &self,
        namespace: Option<&str>,
    ) -> Result<Vec<Readable<InfrastructureProviderObject>>, Error> {
        self.all(namespace, &self.resources.providers.namespaced)
            .await
    }

    async fn global_clouds(&self) -> Result<Vec<Readable<CloudObject>>, Error> {
        let may_be_there = self.known.caches.clouds.global.may_be_hidden();
        let found = self.all(None, &self.resources.clouds.global).await;
        or_none(found, may_be_there)
    }

    async fn global_providers(&self) -> Result<Vec<Readable<InfrastructureProviderObject>>, Error> {
        let may_be_there = self.known.caches.providers.global.may_be_hidden();
        let found = self.all(None, &self.resources.providers.global).await;
        or_none(found, may_be_there)
    }

    /// Reads objects of a namespace. If it is not watched, we may lack the right to, and then none of its objects is our business.
    async fn if_watched<K>(
        &self,
        namespace: &str,
        read: impl Future<Output = Result<Vec<K>, Error>>,
    ) -> Result<Vec<K>, Error> {
        let mut watched = self.watched.iter();
        let is_watched = watched.any(|it| it.as_deref().is_none_or(|it| it == namespace));
        or_none(read.await, is_watched)
    }

    async fn all<K>(
        &self,
        namespace: Option<&str>,
        resource: &Arc<ApiResource>,
    ) -> Result<Vec<Readable<K>>, Error>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope> + Clone + Debug,
        Readable<K>: DeserializeOwned,
    {
        let mut all = Vec::new();
        let api = self.api::<K>(namespace, resource);
        each_page(&api, |page| all.extend_from_slice(page)).await?;
        Ok(all)
    }

    fn api<K>(&self, namespace: Option<&str>, resource: &Arc<ApiResource>) -> Api<Readable<K>>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }
}

/// Reads all objects page by page.
async fn each_page<K>(
    api: &Api<Readable<K>>,
    mut see: impl FnMut(&[Readable<K>]),
) -> Result<(), Error>
where
    K: Clone + Debug,
    Readable<K>: DeserializeOwned,
{
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let answer = timeout(TIMEOUT, api.list(&page))
            .await
            .map_err(|_| Error::Unanswered { after: TIMEOUT })?
            .map_err(|error| Error::Request {
                attempt: Attempt::READ,
                name: "the objects that need it".to_owned(),
                source: Box::new(error),
            })?;
        see(&answer.items);
        match answer.metadata.continue_ {
            Some(next) if !next.is_empty() => page.continue_token = Some(next),
            _ => return Ok(()),
        }
    }
}

/// Objects that are not there if their kind is not, or if we were never given the right to read them. If we had the right and lost it,
/// or lack it since a moment ago, we cannot say that nobody uses something.
fn or_none<K>(found: Result<Vec<K>, Error>, may_be_there: bool) -> Result<Vec<K>, Error> {
    match found {
        Err(error) if is_without_kind(&error) || (!may_be_there && is_forbidden(&error)) => {
            Ok(Vec::new())
        }
        found => found,
    }
}

/// Whether we lack the right to read something.
pub(super) fn is_forbidden(error: &Error) -> bool {
    status(error).is_some_and(Status::is_forbidden)
}

fn is_without_kind(error: &Error) -> bool {
    status(error).is_some_and(Status::is_not_found)
}

fn status(error: &Error) -> Option<&Status> {
    let Error::Request { source, .. } = error else {
        return None;
    };
    match &**source {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
