//! Which Cluster has which infrastructure, in all watch scopes.
//!
//! An id alone says nothing: a user with a server of their own can let it answer with any id. So Clusters are rivals only within an
//! account, and the one that got its id there comes before one that brought it along from another server.
//!
//! Accounts that are different here may be the same for an Infrastructure Manager, since only requests read passwords. So a Cluster that
//! has nothing yet also yields to one that has the id from the same URL: it loses nothing by that.

use jiff::Timestamp;
use podloom_api::ClusterObject;

use crate::im::InfrastructureId;
use crate::in_use::Known;
use crate::resolve::{Account, resolve, same_url};

/// The Clusters of all watch scopes, and what they can name. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Claims(pub(crate) Known);

impl Claims {
    /// Returns the Cluster that an infrastructure belongs to, if it is another one, as a sentence names it: names in other namespaces are
    /// nobody else's business.
    ///
    /// If two have its id, it belongs to the one that has it, and not to one that only wants to take it over; else to the older one.
    pub(crate) fn rival(&self, id: &InfrastructureId, cluster: &ClusterObject) -> Option<String> {
        let others = self.others(id, cluster);
        if others.is_empty() {
            return None;
        }
        let account = self.account(cluster)?;
        let ours = claim(id, cluster, Some(&account));
        let other = others.iter().find(|other| {
            let at = self.account(other);
            match at.as_ref() == Some(&account) {
                // Whoever has nothing to say about it comes after all others.
                true => claim(id, other, at.as_ref())
                    .is_some_and(|theirs| ours.as_ref().is_none_or(|ours| theirs < *ours)),
                false => !has(id, cluster) && has(id, other) && is_from(other, &account),
            }
        })?;
        let is_neighbour = other.metadata.namespace == cluster.metadata.namespace;
        let name = other.metadata.name.as_ref().filter(|_| is_neighbour);
        Some(match name {
            Some(name) => format!("Cluster {name}"),
            None => "a Cluster of another namespace".to_owned(),
        })
    }

    /// Returns whether another Cluster has an infrastructure of a Cluster's account.
    pub(crate) fn is_anothers(&self, id: &InfrastructureId, cluster: &ClusterObject) -> bool {
        let mut others = self.others(id, cluster);
        others.retain(|other| has(id, other));
        if others.is_empty() {
            return false;
        }
        let Some(account) = self.account(cluster) else {
            return true;
        };
        others
            .iter()
            .any(|it| is_from(it, &account) || self.account(it).as_ref() == Some(&account))
    }

    /// The other Clusters that have something to say about an infrastructure. Nearly always there are none.
    fn others(&self, id: &InfrastructureId, cluster: &ClusterObject) -> Vec<ClusterObject> {
        let says = self.0.clusters.pick(|other| {
            other.0.as_ref().is_ok_and(|other| {
                other.metadata.uid != cluster.metadata.uid && claim(id, other, None).is_some()
            })
        });
        let says = says.iter();
        says.filter_map(|other| other.0.as_ref().ok().cloned())
            .collect()
    }

    /// The account that a Cluster's Cloud leads to.
    fn account(&self, cluster: &ClusterObject) -> Option<Account> {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let status = cluster.status.as_ref();
        let cloud = status
            .and_then(|it| it.running_on.as_ref().or(it.scheduled_to.as_ref()))
            .or(cluster.spec.cloud_ref.as_ref())?;
        let backend = resolve(namespace, cloud, &self.0.caches).ok()?;
        Some(backend.im.account())
    }
}

/// What a Cluster has to say about an infrastructure. The smallest of several counts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    kind: ClaimKind,
    created: Option<Timestamp>,
    uid: Option<String>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ClaimKind {
    /// Its status has the id, from the URL of its account.
    Has,
    /// Its status has the id, from another URL.
    Brought,
    /// Its spec names it, and it has none yet.
    Wants,
}

fn claim(
    id: &InfrastructureId,
    cluster: &ClusterObject,
    account: Option<&Account>,
) -> Option<Claim> {
    let wanted = cluster.spec.adopt_infrastructure_id.as_deref();
    let has_none = cluster
        .status
        .as_ref()
        .is_none_or(|it| it.cluster_id.is_none());
    let kind = if has(id, cluster) {
        match account.is_none_or(|it| url(cluster).is_none() || is_from(cluster, it)) {
            true => ClaimKind::Has,
            false => ClaimKind::Brought,
        }
    } else if has_none
        && wanted == Some(id.as_str())
        && cluster.metadata.deletion_timestamp.is_none()
    {
        ClaimKind::Wants
    } else {
        return None;
    };
    let created = cluster.metadata.creation_timestamp.as_ref();
    Some(Claim {
        kind,
        created: created.map(|time| time.0),
        uid: cluster.metadata.uid.clone(),
    })
}

fn has(id: &InfrastructureId, cluster: &ClusterObject) -> bool {
    let status = cluster.status.as_ref();
    status.and_then(|it| it.cluster_id.as_deref()) == Some(id.as_str())
}

/// Whether a Cluster has its id from the URL of an account.
fn is_from(cluster: &ClusterObject, account: &Account) -> bool {
    url(cluster) == Some(&*account.url)
}

/// The URL that a Cluster has its id from.
fn url(cluster: &ClusterObject) -> Option<&str> {
    let url = cluster.status.as_ref()?.provider_url.as_deref();
    url.map(same_url)
}

#[cfg(test)]
mod tests;
