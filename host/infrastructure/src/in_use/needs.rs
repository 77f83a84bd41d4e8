//! Which Clouds a Cluster needs.

use std::collections::BTreeSet;

use kube::Resource;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::FINALIZER;
use podloom_api::{CloudRef, ClusterObject};
use podloom_engine::readable::Readable;

use crate::resolve::{Key, cloud_key};

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
    let has_something = cluster.finalizers.iter().flatten().any(is_ours);
    let can_name = |key: &Key| key.namespace.is_none() || key.namespace == cluster.namespace;
    (has_something && clouds.iter().any(can_name)).then_some(Need::Has)
}

fn is_ours(name: &String) -> bool {
    name == FINALIZER
}

/// Returns the Clouds that a Cluster needs, and how much. A registered cluster needs none.
pub(crate) fn needs(cluster: &ClusterObject) -> Vec<(Key, Need)> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let status = cluster.status.as_ref();
    let wanted = cluster.spec.cloud_ref.as_ref();
    let scheduled = status.and_then(|status| status.scheduled_to.as_ref());
    let running = status.and_then(|status| status.running_on.as_ref());
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    let may_have = cluster.metadata.finalizers.iter().flatten().any(is_ours);
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
