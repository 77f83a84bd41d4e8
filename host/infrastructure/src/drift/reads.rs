//! What is read of Infrastructure Managers. Only that nobody answers is news; any other failure the Cluster sees by itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::Store;
use podloom_api::names::infrastructure::INFRASTRUCTURE_PREFIX;
use podloom_api::{ClusterObject, ClusterOperation};
use podloom_engine::readable::Readable;
use serde::Deserialize;

use crate::im::{
    Answer, Call, FailureKind, InfrastructureId, InfrastructureManager, Reading, Target,
};
use crate::in_use::Known;
use crate::resolve::{Account, Backend, Caches, ImEndpoint, Key, Tenant, endpoint, resolve};
use crate::secrets::Secrets;

/// The infrastructures of a tenant's Clusters, by account. Both are in another order each time that they are made.
pub(super) type Claims = HashMap<Account, HashSet<Claimed>>;

/// The accounts of a tenant, and where they are; in another order each time that they are made.
pub(super) type Accounts = HashMap<Account, ImEndpoint>;

/// The infrastructure of a Cluster that is not at work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claimed {
    /// The Cluster.
    pub(super) cluster: Key,
    /// Its UID.
    pub(super) uid: String,
    /// The infrastructure.
    pub(super) id: InfrastructureId,
}

/// What is seen of a Cluster's infrastructure.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// What the Cluster should know.
    State(Reading),
    /// There is none.
    Gone,
    /// Nobody answered.
    Silence,
    /// Nothing: it is not the time to look, or the answer says nothing.
    Nothing,
}

/// What is read of the name of an infrastructure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The UID of the Cluster that it was made for; none if it was made for none of ours.
    Read(Option<String>),
    /// It has no name yet, or is gone.
    NotYet,
    /// Nobody answered.
    Silence,
}

/// What matters of a template.
#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    infra_name: Option<String>,
}

/// What is outside, and what is known of it.
#[derive(Clone)]
pub(crate) struct Outside {
    /// Clusters, Clouds and providers.
    pub(crate) known: Known,
    /// The values of Secrets.
    pub(crate) secrets: Secrets,
    /// Sends requests.
    pub(crate) im: Arc<dyn InfrastructureManager>,
}

impl Outside {
    /// Returns whose providers the Clusters use that are not at work.
    pub(super) fn tenants_of_clusters(&self) -> HashSet<Tenant> {
        let found = self.found(|_| true);
        found.map(|(backend, _)| backend.im.tenant()).collect()
    }

    /// Returns what the Clusters of a tenant have, without those at work.
    pub(super) fn claims(&self, tenant: &Tenant) -> Claims {
        let may_be = |cluster: &ClusterObject| match tenant {
            // No other namespace can name its Clouds and providers.
            Tenant::Namespace(name) => cluster.metadata.namespace.as_ref() == Some(name),
            Tenant::Global(_) => true,
        };
        let mut claims = Claims::new();
        for (backend, claimed) in self.found(may_be) {
            if backend.im.tenant() == *tenant {
                let of_account = claims.entry(backend.im.account()).or_default();
                of_account.insert(claimed);
            }
        }
        claims
    }

    /// Returns the UIDs of all Clusters, even of those that our types cannot hold.
    pub(super) fn uids(&self) -> HashSet<String> {
        let clusters = self.clusters();
        clusters.filter_map(|it| it.meta().uid.clone()).collect()
    }

    /// Returns the infrastructures of all Clusters, those at work among them, as their status says.
    pub(super) fn ids(&self) -> HashSet<String> {
        self.clusters().filter_map(|it| cluster_id(&it)).collect()
    }

    /// Returns the accounts of all providers, each once.
    pub(super) fn accounts(&self) -> BTreeMap<Tenant, Accounts> {
        let mut all: BTreeMap<Tenant, Accounts> = BTreeMap::new();
        let Some(caches) = self.known.caches.first() else {
            return all;
        };
        let mut providers = self.known.providers();
        // Two global ones may name the same account: it always belongs to the first.
        providers.sort_by_cached_key(|it| Key::of(it.meta()));
        let mut seen = HashSet::new();
        for provider in &providers {
            let Some(im) = provider.0.as_ref().ok() else {
                continue;
            };
            let Ok(im) = endpoint(im, caches) else {
                continue;
            };
            let account = im.account();
            if seen.insert(account.clone()) {
                all.entry(im.tenant()).or_default().insert(account, im);
            }
        }
        all
    }

    /// Reads the state of a Cluster's infrastructure.
    pub(super) async fn state(&self, claimed: &Claimed) -> Seen {
        let Some(target) = self.target(claimed).await else {
            return Seen::Nothing;
        };
        let call = Call::State {
            id: claimed.id.clone(),
        };
        match self.im.call(&target, &call).await {
            Ok(Answer::State(reading)) => Seen::State(reading),
            Ok(_) => Seen::Nothing,
            Err(failure) => match failure.kind {
                FailureKind::NotFound => Seen::Gone,
                FailureKind::Unreachable => Seen::Silence,
                _ => Seen::Nothing,
            },
        }
    }

    /// Returns as whom to ask about an account; none if that cannot be said now.
    pub(super) async fn owner(&self, im: &ImEndpoint) -> Option<Target> {
        self.secrets.owner(im).await.ok()
    }

    /// Lists what an owner has; none if nobody answered.
    pub(super) async fn list(&self, owner: &Target) -> Option<Vec<InfrastructureId>> {
        match self.im.call(owner, &Call::List).await {
            Ok(Answer::List(list)) => Some(list),
            _ => None,
        }
    }

    /// Reads the name of an infrastructure.
    pub(super) async fn name(&self, owner: &Target, id: &InfrastructureId) -> Named {
        let call = Call::Template { id: id.clone() };
        match self.im.call(owner, &call).await {
            Ok(Answer::Template(text)) => Named::Read(made_for(&text)),
            Err(failure) => match failure.kind {
                // A create request that is not done yet has stored no template.
                FailureKind::NoTemplate | FailureKind::NotFound => Named::NotYet,
                _ => Named::Silence,
            },
            Ok(_) => Named::Silence,
        }
    }

    fn clusters(&self) -> impl Iterator<Item = Arc<Readable<ClusterObject>>> {
        self.known.clusters.iter().flat_map(Store::state)
    }

    /// The infrastructures of the Clusters that a test picks and that are not at work, and where they are.
    fn found(
        &self,
        picks: impl Fn(&ClusterObject) -> bool,
    ) -> impl Iterator<Item = (Backend, Claimed)> {
        let scopes = self.known.clusters.iter().zip(&*self.known.caches);
        scopes.flat_map(move |(store, caches)| {
            let all = store.state_filter(|it| it.0.as_ref().is_ok_and(&picks));
            all.into_iter()
                .filter_map(move |cluster| Some((at(&cluster, caches)?, claimed(&cluster)?)))
        })
    }

    /// Where to ask for a Cluster's infrastructure, if it is still the time to.
    async fn target(&self, wanted: &Claimed) -> Option<Target> {
        let scopes = self.known.clusters.iter().zip(&*self.known.caches);
        let mut found = scopes.filter_map(|(store, caches)| {
            let found = store.find(|it| it.meta().uid.as_ref() == Some(&wanted.uid))?;
            Some((found, caches))
        });
        let (cluster, caches) = found.next()?;
        let still = claimed(&cluster)?;
        if still != *wanted {
            return None;
        }
        self.secrets.target(&at(&cluster, caches)?).await.ok()
    }
}

/// What the Cloud of a Cluster's infrastructure leads to.
fn at(cluster: &Readable<ClusterObject>, caches: &Caches) -> Option<Backend> {
    let cluster = cluster.0.as_ref().ok()?;
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let running_on = cluster.status.as_ref()?.running_on.as_ref()?;
    resolve(namespace, running_on, caches).ok()
}

/// The infrastructure of a Cluster that is not at work: neither being deleted, nor paused, nor in the middle of an operation.
fn claimed(cluster: &Readable<ClusterObject>) -> Option<Claimed> {
    let cluster = cluster.0.as_ref().ok()?;
    let status = cluster.status.as_ref()?;
    let is_working = |operation: &ClusterOperation| operation.finished_at.is_none();
    let is_left_alone = cluster.metadata.deletion_timestamp.is_some()
        || cluster.spec.paused
        || status.operation.as_ref().is_some_and(is_working);
    if is_left_alone {
        return None;
    }
    Some(Claimed {
        cluster: Key::of(&cluster.metadata),
        uid: cluster.metadata.uid.clone()?,
        id: status
            .cluster_id
            .as_deref()
            .and_then(InfrastructureId::parse)?,
    })
}

/// The UID of the Cluster that an infrastructure was made for, as its template says. Whatever else an Infrastructure Manager writes
/// there is not kept: it may be long, and is not ours.
fn made_for(text: &str) -> Option<String> {
    if !text.contains(INFRASTRUCTURE_PREFIX) {
        return None;
    }
    let template: Template = serde_saphyr::from_str(text).ok()?;
    let name = template.metadata.infra_name?;
    let uid = name.strip_prefix(INFRASTRUCTURE_PREFIX)?;
    // UIDs are written like the ids of infrastructures.
    InfrastructureId::parse(uid).map(|uid| uid.to_string())
}

/// What the status of a Cluster says that its infrastructure is.
fn cluster_id(cluster: &Readable<ClusterObject>) -> Option<String> {
    cluster.0.as_ref().ok()?.status.as_ref()?.cluster_id.clone()
}

#[cfg(test)]
mod tests;
