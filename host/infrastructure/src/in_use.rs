//! The finalizer in-use: Clouds, providers and Secrets stay until no Cluster needs them.
//!
//! - [`needs`](Users) says which Clouds a Cluster needs, and how much. A Cluster that has no infrastructure yet only *wants* its Cloud:
//!   that keeps the finalizer on a Cloud, but does not keep a Cloud that is being deleted. One with our own finalizer *has* something
//!   there.
//! - [`step`] says what to do about one object. A cache alone never removes the finalizer: the users are read from the API server first.
//! - `secrets` is a control loop that does the same for Secrets, which are no kind of ours.
//!
//! Nothing is created behind the back of a release. A Cluster gets its own finalizer first, and then asks with [`confirm`] whether its
//! Cloud and provider have theirs and are not being deleted. Whoever releases a Cloud reads the Clusters after that would say no: after
//! its deletion began, or after another finalizer took the place of ours. So one of both sees the other.
//!
//! What is cluster-scoped may be used from all namespaces, so it is released only after a look at all of them, whichever are watched:
//! several installations may use the same object.

mod live;
pub(super) mod secrets;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Client, Resource};
use podloom_api::names::infrastructure::{
    ENDING_FINALIZER, FIELD_MANAGER, FINALIZER, IN_USE_FINALIZER,
};
use podloom_api::{CloudObject, CloudRef, ClusterObject, InfrastructureProviderObject};
use podloom_engine::cache::Cache;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::Source;
use podloom_engine::plan::Then;
use podloom_engine::readable::Readable;
use podloom_engine::write::{MetadataPatch, Target};

pub(crate) use self::live::{Live, Resources};
use super::resolve::{
    Backend, Caches, Key, SecretKey, TwinResources, cloud_key, is_guarded, provider_key,
    secrets_named_by_cloud, secrets_named_by_provider,
};

/// How the finalizer is removed from an object that is not being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Another one takes its place until the users were read once more: Clusters rely on it when they create something.
    InTwoSteps,
    /// At once.
    AtOnce,
}

/// What to do about the finalizer of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Rest,
    /// Read the users from the API server, since the caches say that there are none.
    Confirm,
    /// Add it or remove it.
    Write(MetadataPatch),
}

/// Returns what to do about the finalizer of an object with these users. `from` is where they were read, after the object.
pub(crate) fn step(object: &ObjectMeta, users: &Users, from: Source, release: Release) -> Step {
    let is_deleted = object.deletion_timestamp.is_some();
    let is_needed = match users.needs {
        None => false,
        Some(Need::Wants) => !is_deleted,
        Some(Need::Has) => true,
    };
    match (is_guarded(object), is_needed) {
        (true, true) => Step::Rest,
        // The API server accepts no new finalizer then. One that was about to end goes on to keep the object.
        (false, true) if is_deleted => Step::Rest,
        (false, true) => Step::Write(with(object, IN_USE_FINALIZER)),
        (_, false) if !is_held(object) => Step::Rest,
        (_, false) => match (from, release) {
            (Source::Cache, _) => Step::Confirm,
            (Source::Live, Release::InTwoSteps) if is_guarded(object) && !is_deleted => {
                Step::Write(with(object, ENDING_FINALIZER))
            }
            (Source::Live, _) => Step::Write(released(object)),
        },
    }
}

/// Returns whether an object stays because of us.
pub(crate) fn is_held(object: &ObjectMeta) -> bool {
    object.finalizers.iter().flatten().any(|it| is_ours(it))
}

/// Returns the users of an object, after the API server was asked for them. `seen` is what the cache says.
///
/// If we may not read who they are, the object stays as it is; but if it is being deleted, that is an error, which says why it stays.
pub(crate) fn unless_hidden(
    found: Result<Users, Error>,
    object: &ObjectMeta,
    seen: Users,
) -> Result<Users, Error> {
    match found {
        Err(error) if object.deletion_timestamp.is_none() && live::is_forbidden(&error) => {
            Ok(Users {
                needs: Some(Need::Has),
                ..seen
            })
        }
        found => found,
    }
}

/// Returns when to try again to write the finalizer, after the API server refused it with this message.
pub(crate) fn retry(message: &str) -> Then {
    Then::Retry {
        reason: "SetMetadata",
        message: format!("the finalizer {IN_USE_FINALIZER} could not be written: {message}"),
        until: Timestamp::MAX,
    }
}

fn is_ours(finalizer: &str) -> bool {
    [IN_USE_FINALIZER, ENDING_FINALIZER].contains(&finalizer)
}

/// The patch that leaves the finalizers of others.
fn released(object: &ObjectMeta) -> MetadataPatch {
    let finalizers = object.finalizers.iter().flatten();
    let others = finalizers.filter(|it| !is_ours(it)).cloned();
    MetadataPatch {
        finalizers: Some(others.collect()),
        ..MetadataPatch::default()
    }
}

/// The patch that leaves this finalizer of ours, and those of others.
fn with(object: &ObjectMeta, finalizer: &str) -> MetadataPatch {
    let mut patch = released(object);
    if let Some(finalizers) = &mut patch.finalizers {
        finalizers.push(finalizer.to_owned());
    }
    patch
}

// Which Clouds lead to a provider or a Secret: whoever needs one of these Clouds needs it.

type Cloud = Readable<CloudObject>;
type Provider = Readable<InfrastructureProviderObject>;

/// Returns those of these Clouds that name the provider.
pub(crate) fn clouds_of_provider<'c>(
    provider: &Key,
    clouds: impl IntoIterator<Item = &'c Cloud>,
) -> BTreeSet<Key> {
    let naming = clouds
        .into_iter()
        .filter(|cloud| leads_to(cloud, |named| named == provider));
    naming.map(|cloud| Key::of(cloud.meta())).collect()
}

/// Returns those of these Clouds that name the Secret, themselves or by their provider. `global` is the namespace of the Secrets of
/// cluster-scoped objects.
pub(crate) fn clouds_of_secret<'c>(
    secret: &SecretKey,
    clouds: impl IntoIterator<Item = &'c Cloud>,
    providers: impl IntoIterator<Item = &'c Provider>,
    global: &str,
) -> BTreeSet<Key> {
    let naming = providers.into_iter().filter(|provider| {
        let named = provider
            .0
            .as_ref()
            .map(|it| secrets_named_by_provider(it, global));
        named.is_ok_and(|named| named.contains(secret))
    });
    let providers: BTreeSet<Key> = naming.map(|it| Key::of(it.meta())).collect();
    let naming = clouds.into_iter().filter(|cloud| {
        let named = cloud
            .0
            .as_ref()
            .map(|it| secrets_named_by_cloud(it, global));
        named.is_ok_and(|named| named.contains(secret))
            || leads_to(cloud, |provider| providers.contains(provider))
    });
    naming.map(|cloud| Key::of(cloud.meta())).collect()
}

fn leads_to(cloud: &Cloud, is_one: impl Fn(&Key) -> bool) -> bool {
    cloud.0.as_ref().is_ok_and(|cloud| {
        let namespace = cloud.metadata.namespace.as_deref();
        is_one(&provider_key(namespace, &cloud.spec.provider_ref))
    })
}

// Which Clouds a Cluster needs.

/// How much a Cluster needs a Cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// It will create an infrastructure there.
    Wants,
    /// It has one there, or may have.
    Has,
}

/// The Clusters that need an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    /// How many there are.
    pub(crate) clusters: i32,
    /// How much the neediest one needs it; none without any.
    pub(crate) needs: Option<Need>,
}

impl Users {
    /// Returns those of these Clusters that need one of these Clouds.
    pub(crate) fn among<'c>(
        clusters: impl IntoIterator<Item = &'c Readable<ClusterObject>>,
        clouds: &BTreeSet<Key>,
    ) -> Self {
        let needs = clusters.into_iter().filter_map(|cluster| match &cluster.0 {
            Ok(cluster) => {
                let needed = needs(cluster).into_iter();
                needed
                    .filter(|(key, _)| clouds.contains(key))
                    .map(|(_, need)| need)
                    .max()
            }
            Err(_) => need_of_unreadable(cluster.meta(), clouds),
        });
        needs.fold(Self::default(), |users, need| Self {
            clusters: users.clusters.saturating_add(1),
            needs: users.needs.max(Some(need)),
        })
    }

    /// Returns these and others.
    #[must_use]
    pub(crate) fn and(self, others: Self) -> Self {
        Self {
            clusters: self.clusters.saturating_add(others.clusters),
            needs: self.needs.max(others.needs),
        }
    }
}

/// How much a Cluster that our types cannot hold needs these Clouds. If it has an infrastructure, that may be on any that it can name.
fn need_of_unreadable(cluster: &ObjectMeta, clouds: &BTreeSet<Key>) -> Option<Need> {
    let has_something = cluster
        .finalizers
        .iter()
        .flatten()
        .any(|it| it == FINALIZER);
    let can_name = |key: &Key| key.namespace.is_none() || key.namespace == cluster.namespace;
    (has_something && clouds.iter().any(can_name)).then_some(Need::Has)
}

/// Returns the Clouds that a Cluster needs, and how much. A registered cluster needs none.
pub(crate) fn needs(cluster: &ClusterObject) -> Vec<(Key, Need)> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let status = cluster.status.as_ref();
    let wanted = cluster.spec.cloud_ref.as_ref();
    let scheduled = status.and_then(|status| status.scheduled_to.as_ref());
    let running = status.and_then(|status| status.running_on.as_ref());
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    let mut finalizers = cluster.metadata.finalizers.iter().flatten();
    let may_have = finalizers.any(|it| it == FINALIZER);
    let mut needs: Vec<(Key, Need)> = Vec::new();
    let mut add = |reference: Option<&CloudRef>, need| {
        needs.extend(reference.map(|it| (cloud_key(namespace, it), need)));
    };
    match may_have {
        // A create request whose answer was lost went where it was scheduled to.
        true => add(running.or(scheduled).or(wanted), Need::Has),
        false => add(running, Need::Has),
    }
    if !is_deleted {
        add(scheduled, Need::Wants);
        add(wanted, Need::Wants);
    }
    // The greatest need for each.
    needs.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    needs.dedup_by(|one, other| one.0 == other.0);
    needs
}

// The users of an object as the caches know them.

/// The caches of all watch scopes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Known {
    /// The Clusters.
    pub(crate) clusters: Cache<Readable<ClusterObject>>,
    /// What they can name.
    pub(crate) caches: Caches,
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

    /// Wakes a Cluster.
    pub(crate) fn wake_cluster(&self, key: &Key) {
        self.clusters.wake(key.namespace.as_deref(), &key.name);
    }

    /// Returns all Clouds and GlobalClouds.
    pub(crate) fn clouds(&self) -> Vec<Arc<Readable<CloudObject>>> {
        self.caches.clouds.all()
    }

    /// Returns all InfrastructureProviders and GlobalInfrastructureProviders.
    pub(crate) fn providers(&self) -> Vec<Arc<Readable<InfrastructureProviderObject>>> {
        self.caches.providers.all()
    }

    /// Returns the namespace of the Secrets of cluster-scoped objects.
    pub(crate) fn global(&self) -> &str {
        &self.caches.global_secret_namespace
    }

    fn users(&self, clouds: &BTreeSet<Key>) -> Users {
        if clouds.is_empty() {
            return Users::default();
        }
        let clusters = self.clusters.all();
        Users::among(clusters.iter().map(|it| &**it), clouds)
    }
}

// Whether a Cluster may create an infrastructure: its Cloud and provider are there, stay, and will not go behind its back.

/// Whether the Cloud and the provider of a Cluster stay as long as it needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// They do.
    InPlace,
    /// They do not have our finalizer yet. Its controllers add it; when they have, the Cluster is woken.
    Awaited,
    /// One of them is being deleted, or gone.
    Deleted,
}

/// Reads from the API server whether a create request may be sent. Call it after the Cluster has its own finalizer.
///
/// # Errors
///
/// Returns an error if a request fails.
pub(crate) async fn confirm(
    client: &Client,
    resources: &Resources,
    backend: &Backend,
) -> Result<Guard, Error> {
    let (cloud, provider) = (backend.cloud_key(), backend.im.key());
    let cloud = read(client, &resources.clouds, &cloud).await?;
    let provider = read(client, &resources.providers, &provider).await?;
    Ok(guard(&[cloud, provider]))
}

fn guard(both: &[Option<ObjectMeta>; 2]) -> Guard {
    let stays = |it: &Option<ObjectMeta>| {
        it.as_ref()
            .is_some_and(|it| it.deletion_timestamp.is_none())
    };
    if !both.iter().all(stays) {
        return Guard::Deleted;
    }
    match both.iter().flatten().all(is_guarded) {
        true => Guard::InPlace,
        false => Guard::Awaited,
    }
}

/// Reads the metadata of an object; none if there is no such object.
async fn read(
    client: &Client,
    resources: &TwinResources,
    key: &Key,
) -> Result<Option<ObjectMeta>, Error> {
    let target = Target {
        client,
        resource: resources.of(key),
        namespace: key.namespace.as_deref(),
        name: &key.name,
        field_manager: FIELD_MANAGER,
    };
    let read: Option<DynamicObject> = target.read(Attempt::READ).await?;
    Ok(read.map(|object| object.metadata))
}

#[cfg(test)]
mod tests;
