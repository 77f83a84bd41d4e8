//! Infrastructures that were made for Clusters which do not exist any more.
//!
//! What an account has is what its Infrastructure Manager says, which may be anything. So a tenant has room for so many infrastructures
//! and no more, and nothing of a tenant takes the room of another.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use podloom_turns::lock;

use super::reads::Accounts;
use crate::im::InfrastructureId;
use crate::metrics::InfrastructureMetrics;
use crate::resolve::{Account, Tenant};

/// How many infrastructures without a Cluster are remembered of a tenant. More are not looked at.
const NAMES: usize = 5_000;
/// How many names are read in one turn of an account.
const READS: usize = 200;
/// How many orphans of a tenant are logged in one turn, a line each.
const LOGGED: usize = 20;

/// An infrastructure of an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owned {
    /// The account.
    pub(crate) account: Arc<Account>,
    /// The infrastructure.
    pub(crate) id: InfrastructureId,
}

/// Which infrastructures are orphans.
pub(crate) struct Orphans {
    tenants: Mutex<HashMap<Tenant, Findings>>,
    metrics: InfrastructureMetrics,
}

/// What a tenant has without a Cluster.
#[derive(Default)]
struct Findings {
    /// The UIDs of the Clusters that infrastructures were made for; none of one that was made for none of ours. They never change.
    made_for: HashMap<Owned, Option<String>>,
    orphans: BTreeSet<Place>,
}

/// Where an infrastructure is: two accounts may have the same one.
type Place = (Arc<str>, InfrastructureId);

impl Orphans {
    /// Returns a state without any.
    pub(crate) fn new(metrics: InfrastructureMetrics) -> Self {
        Self {
            tenants: Mutex::default(),
            metrics,
        }
    }

    /// Sees what an account has without a Cluster: forgets what is not among it any more, and returns some whose names were not read
    /// yet. Which ones is chance, so that none waits for ever because of others that never get a name.
    pub(crate) fn unread(
        &self,
        tenant: &Tenant,
        account: &Arc<Account>,
        listed: Vec<InfrastructureId>,
    ) -> Vec<InfrastructureId> {
        let mut listed: HashSet<InfrastructureId> = listed.into_iter().collect();
        let mut tenants = lock(&self.tenants);
        let made_for = &mut tenants.entry(tenant.clone()).or_default().made_for;
        made_for.retain(|owned, _| owned.account != *account || listed.remove(&owned.id));
        let room = NAMES.saturating_sub(made_for.len());
        listed.into_iter().take(READS.min(room)).collect()
    }

    /// Learns the UID of the Cluster that an infrastructure was made for; none if it was made for none of ours.
    pub(crate) fn learn(&self, tenant: &Tenant, owned: Owned, made_for: Option<String>) {
        let mut tenants = lock(&self.tenants);
        let findings = tenants.entry(tenant.clone()).or_default();
        if findings.made_for.len() < NAMES {
            findings.made_for.insert(owned, made_for);
        }
    }

    /// Finds out which infrastructures of a tenant are orphans. `is_there` says whether there is a Cluster of a UID: the answer to the
    /// request that creates the infrastructure may still be on its way. An orphan is logged once.
    pub(crate) fn judge(&self, tenant: &Tenant, is_there: impl Fn(&str) -> bool) {
        let mut tenants = lock(&self.tenants);
        let Some(findings) = tenants.get(tenant) else {
            return;
        };
        let mut orphans = BTreeMap::new();
        for (owned, made_for) in &findings.made_for {
            if let Some(uid) = made_for.as_deref().filter(|uid| !is_there(uid)) {
                let place = (Arc::clone(&owned.account.url), owned.id.clone());
                orphans.insert(place, uid.to_owned());
            }
        }
        let is_known = |place: &Place| tenants.values().any(|it| it.orphans.contains(place));
        let new: Vec<_> = orphans.iter().filter(|(it, _)| !is_known(it)).collect();
        log(tenant, &new);
        let orphans = orphans.into_keys().collect();
        if let Some(findings) = tenants.get_mut(tenant) {
            findings.orphans = orphans;
        }
        self.count(&tenants);
    }

    /// Forgets the accounts that nobody names any more.
    pub(crate) fn retain(&self, named: &BTreeMap<Tenant, Accounts>) {
        let mut tenants = lock(&self.tenants);
        tenants.retain(|tenant, findings| {
            let Some(accounts) = named.get(tenant) else {
                return false;
            };
            let made_for = &mut findings.made_for;
            made_for.retain(|owned, _| accounts.contains_key(&*owned.account));
            let left: HashSet<Place> = made_for
                .keys()
                .map(|owned| (Arc::clone(&owned.account.url), owned.id.clone()))
                .collect();
            findings.orphans.retain(|place| left.contains(place));
            true
        });
        self.count(&tenants);
    }

    fn count(&self, tenants: &HashMap<Tenant, Findings>) {
        let all: HashSet<&Place> = tenants.values().flat_map(|it| &it.orphans).collect();
        self.metrics.orphaned(all.len());
    }

    /// How many infrastructures are remembered of a tenant.
    #[cfg(test)]
    pub(super) fn len(&self, tenant: &Tenant) -> usize {
        lock(&self.tenants)
            .get(tenant)
            .map_or(0, |it| it.made_for.len())
    }
}

/// Logs new orphans: a hostile Infrastructure Manager may have new ones in each turn.
fn log(tenant: &Tenant, new: &[(&Place, &String)]) {
    for ((url, id), uid) in new.iter().take(LOGGED) {
        tracing::warn!(
            url = &**url,
            infrastructure = %id,
            cluster.uid = uid.as_str(),
            "an infrastructure was made for a Cluster that does not exist any more: adopt it by spec.adoptInfrastructureId of a new \
             one, or delete it in the Infrastructure Manager"
        );
    }
    let more = new.len().saturating_sub(LOGGED);
    if more > 0 {
        tracing::warn!(
            %tenant,
            more,
            "more infrastructures were made for Clusters that do not exist any more"
        );
    }
}

#[cfg(test)]
mod tests;
