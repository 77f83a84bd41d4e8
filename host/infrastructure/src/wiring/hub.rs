//! Who is woken when something changes. A Cluster depends on its Cloud, that on its provider, and both on Secrets.
//!
//! The other way round, a Cloud, a provider and a Secret stay as long as a Cluster needs them. So a change goes in both directions. The
//! operator's own writes of a status wake nobody, except that Clouds follow whether their provider is ready.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kube::Resource;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::names::infrastructure::KUBECONFIG_SUFFIX;
use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_control_loop::Hints;
use podloom_engine::cache::{Cache, Cacheable, Change, Seen};
use podloom_engine::readable::Readable;

use crate::cluster::Memory;
use crate::in_use::{self, Known, Need, clouds_of_provider, clouds_of_secret};
use crate::provider::readiness;
use crate::resolve::{
    Caches, Key, SecretKey, is_guarded, provider_key, secrets_named_by_cloud,
    secrets_named_by_provider,
};
use crate::secrets::SecretMetas;

/// What says who is woken. Cheap to clone.
#[derive(Clone)]
pub(super) struct Hub {
    /// The caches, where objects are woken.
    pub(super) known: Known,
    /// The loop that keeps Secrets.
    pub(super) secrets: Hints<SecretKey>,
    /// What is remembered of Clusters.
    pub(super) memory: Memory,
}

impl Hub {
    /// Hears of all changes.
    pub(super) fn listen(&self, metas: &SecretMetas) {
        let Caches {
            clouds, providers, ..
        } = &self.known.caches;
        self.hear(&self.known.clusters, Self::cluster);
        for clouds in [&clouds.namespaced, &clouds.global] {
            self.hear(clouds, Self::cloud);
        }
        for providers in [&providers.namespaced, &providers.global] {
            self.hear(providers, Self::provider);
        }
        self.hear(&metas.0, |hub, change| {
            if let Some(secret) = change.latest() {
                hub.secret(&secret.metadata);
            }
        });
    }

    fn hear<K: Cacheable>(&self, cache: &Cache<K>, changed: fn(&Self, &Change<'_, K>)) {
        let hub = self.clone();
        cache.listen(move |seen| match seen {
            Seen::Coming(_) => {}
            Seen::Changed(change) => changed(&hub, change),
            Seen::Listed(_) => hub.all(),
        });
    }

    /// A Cluster changed: whatever it needs now, or needed before, may have to stay or to go.
    pub(super) fn cluster(&self, change: &Change<'_, Readable<ClusterObject>>) {
        let needed = |cluster: Option<&Readable<ClusterObject>>| -> Vec<(Key, Need)> {
            let cluster = cluster.and_then(|it| it.0.as_ref().ok());
            cluster.map(in_use::needs).unwrap_or_default()
        };
        let (before, after) = (needed(change.before), needed(change.after));
        if before != after {
            let all: BTreeSet<Key> = before
                .into_iter()
                .chain(after)
                .map(|(key, _)| key)
                .collect();
            all.iter().for_each(|cloud| self.users_of(cloud));
        }
        self.rivals_of(change);
        if let (Some(gone), None) = (change.before, change.after) {
            self.memory
                .forget(gone.meta().uid.as_deref().unwrap_or_default());
        }
    }

    /// A Cloud changed.
    pub(super) fn cloud(&self, change: &Change<'_, Readable<CloudObject>>) {
        if !matters(change, |_| None) {
            return;
        }
        for cloud in change.both() {
            self.wake_clusters(&BTreeSet::from([Key::of(cloud.meta())]));
            if let Ok(cloud) = &cloud.0 {
                self.named_by(cloud);
            }
        }
    }

    /// A provider changed.
    pub(super) fn provider(&self, change: &Change<'_, Readable<InfrastructureProviderObject>>) {
        if matters(change, readiness) {
            for provider in change.both() {
                self.wake_clouds(&Key::of(provider.meta()));
            }
        }
        if !matters(change, |_| None) {
            return;
        }
        for provider in change.both() {
            let clouds = self.known.clouds();
            let key = Key::of(provider.meta());
            self.wake_clusters(&clouds_of_provider(&key, clouds.iter().map(|it| &**it)));
            if let Ok(provider) = &provider.0 {
                let named = secrets_named_by_provider(provider, self.known.global());
                named
                    .into_iter()
                    .for_each(|secret| self.secrets.push(secret));
            }
        }
    }

    /// A Secret changed: those who name it look at it again, and so do the Clusters that have it.
    pub(super) fn secret(&self, secret: &ObjectMeta) {
        let key = SecretKey::of(secret);
        let (clouds, providers) = (self.known.clouds(), self.known.providers());
        let global = self.known.global();
        let is_named = |named: Vec<SecretKey>| named.contains(&key);
        for provider in &providers {
            let Ok(provider) = &provider.0 else { continue };
            if is_named(secrets_named_by_provider(provider, global)) {
                self.known
                    .caches
                    .providers
                    .wake(&Key::of(&provider.metadata));
            }
        }
        let leading = clouds_of_secret(
            &key,
            clouds.iter().map(|it| &**it),
            providers.iter().map(|it| &**it),
            global,
        );
        leading
            .iter()
            .for_each(|cloud| self.known.caches.clouds.wake(cloud));
        if !leading.is_empty() {
            self.secrets.push(key.clone());
            self.wake_clusters(&leading);
        }
        self.wake_clusters_with(&key);
    }

    /// Everything may have changed, since a list was read.
    pub(super) fn all(&self) {
        let Caches {
            clouds, providers, ..
        } = &self.known.caches;
        self.known.clusters.wake_in(None);
        for clouds in [&clouds.namespaced, &clouds.global] {
            clouds.wake_in(None);
        }
        for providers in [&providers.namespaced, &providers.global] {
            providers.wake_in(None);
        }
        let global = self.known.global();
        let mut secrets = BTreeSet::new();
        for cloud in self.known.clouds() {
            let named = cloud.0.as_ref();
            secrets
                .extend(named.map_or_else(|_| Vec::new(), |it| secrets_named_by_cloud(it, global)));
        }
        for provider in self.known.providers() {
            let named = provider.0.as_ref();
            secrets.extend(
                named.map_or_else(|_| Vec::new(), |it| secrets_named_by_provider(it, global)),
            );
        }
        secrets
            .into_iter()
            .for_each(|secret| self.secrets.push(secret));
    }

    /// Wakes the other Clusters that have, or want, what a Cluster has or wants no more, or from now on.
    fn rivals_of(&self, change: &Change<'_, Readable<ClusterObject>>) {
        let (before, after) = (claims_of(change.before), claims_of(change.after));
        let changed: BTreeSet<&str> = before.symmetric_difference(&after).copied().collect();
        if changed.is_empty() {
            return;
        }
        let mut both = change.both();
        let uid = both.next().and_then(|it| it.meta().uid.clone());
        self.wake_clusters_if(|other| {
            other.metadata.uid != uid && !claims(other).is_disjoint(&changed)
        });
    }

    /// Wakes a Cloud, its provider and their Secrets, since their users changed.
    fn users_of(&self, cloud: &Key) {
        self.known.caches.clouds.wake(cloud);
        let cached = self.known.caches.clouds.find(cloud);
        if let Some(Ok(cloud)) = cached.as_deref().map(|it| &it.0) {
            self.named_by(cloud);
        }
    }

    /// Wakes the provider and the Secrets that a Cloud names.
    fn named_by(&self, cloud: &CloudObject) {
        let namespace = cloud.metadata.namespace.as_deref();
        let provider = provider_key(namespace, &cloud.spec.provider_ref);
        self.known.caches.providers.wake(&provider);
        let global = self.known.global();
        let mut secrets = secrets_named_by_cloud(cloud, global);
        if let Some(Ok(provider)) = self
            .known
            .caches
            .providers
            .find(&provider)
            .as_deref()
            .map(|it| &it.0)
        {
            secrets.extend(secrets_named_by_provider(provider, global));
        }
        secrets
            .into_iter()
            .for_each(|secret| self.secrets.push(secret));
    }

    fn wake_clouds(&self, provider: &Key) {
        let clouds = self.known.clouds();
        let naming = clouds_of_provider(provider, clouds.iter().map(|it| &**it));
        naming
            .iter()
            .for_each(|cloud| self.known.caches.clouds.wake(cloud));
    }

    /// Wakes the Clusters that need one of these Clouds.
    fn wake_clusters(&self, clouds: &BTreeSet<Key>) {
        self.wake_clusters_if(|cluster| {
            in_use::needs(cluster)
                .iter()
                .any(|(key, _)| clouds.contains(key))
        });
    }

    /// Wakes the Clusters whose kubeconfig is in a Secret.
    fn wake_clusters_with(&self, secret: &SecretKey) {
        self.wake_clusters_if(|cluster| {
            cluster.metadata.namespace.as_ref() == Some(&secret.namespace)
                && kubeconfig_secret(cluster) == secret.name
        });
    }

    fn wake_clusters_if(&self, picks: impl Fn(&ClusterObject) -> bool) {
        let clusters = &self.known.clusters;
        clusters.wake_if(|it| it.0.as_ref().is_ok_and(&picks));
    }
}

fn claims_of(cluster: Option<&Readable<ClusterObject>>) -> BTreeSet<&str> {
    let cluster = cluster.and_then(|it| it.0.as_ref().ok());
    cluster.map(claims).unwrap_or_default()
}

/// The infrastructures that a Cluster has or wants to take over.
fn claims(cluster: &ClusterObject) -> BTreeSet<&str> {
    let status = cluster.status.as_ref();
    let has = status.and_then(|it| it.cluster_id.as_deref());
    let wants = cluster.spec.adopt_infrastructure_id.as_deref();
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    has.into_iter()
        .chain(wants.filter(|_| !is_deleted))
        .collect()
}

/// The name of the Secret with the kubeconfig of a Cluster.
fn kubeconfig_secret(cluster: &ClusterObject) -> Cow<'_, str> {
    let spec = &cluster.spec;
    let registered = spec.kubeconfig_secret_ref.as_ref().map(|it| &it.name);
    match registered.or(spec.kubeconfig_secret_name.as_ref()) {
        Some(name) => name.into(),
        None => format!(
            "{}{KUBECONFIG_SUFFIX}",
            cluster.metadata.name.as_deref().unwrap_or_default()
        )
        .into(),
    }
}

/// Whether anything changed that others depend on, `also` among it. A status changes nothing else of it.
fn matters<K>(change: &Change<'_, Readable<K>>, also: impl Fn(&K) -> Option<&str>) -> bool
where
    K: Resource<DynamicType = ApiResource>,
{
    change.differs(|object| {
        let metadata = object.meta();
        (
            metadata.uid.as_deref(),
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            is_guarded(metadata),
            object.0.as_ref().ok().and_then(&also),
        )
    })
}

#[cfg(test)]
mod tests;
