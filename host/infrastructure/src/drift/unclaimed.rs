//! The loop that looks for orphans.

use std::sync::Arc;

use podloom_control_loop::{BoxError, Ctx, Handler, Next, Source, Storage};
use tokio::time::timeout;

use super::TURN;
use super::orphans::{Orphans, Owned};
use super::reads::{Accounts, Named, Outside};
use crate::metrics::InfrastructureMetrics;
use crate::resolve::{Account, ImEndpoint, Tenant};

/// The loop's name in metrics and logs.
pub(super) const NAME: &str = "infrastructure-orphans";
/// How many tenants have their turn at once. They are few, since a Cluster is worth more than a count.
pub(super) const WORKERS: usize = 4;

/// The parts of the loop.
pub(super) struct Unclaimed {
    outside: Outside,
    pub(super) orphans: Orphans,
}

impl Unclaimed {
    pub(super) fn new(outside: Outside, metrics: InfrastructureMetrics) -> Self {
        Self {
            outside,
            orphans: Orphans::new(metrics),
        }
    }

    /// Lists what a tenant's accounts have that no Cluster has, and reads the names of some.
    pub(super) async fn turn(&self, tenant: &Tenant, accounts: Accounts) {
        let all = async {
            for (account, im) in accounts {
                self.look(tenant, account, &im).await;
            }
        };
        // The next turn begins with others.
        let _late = timeout(TURN, all).await;
        // Read last: a Cluster that came meanwhile has no orphan.
        let there = self.outside.uids();
        self.orphans.judge(tenant, |uid| there.contains(uid));
    }

    /// Looks at one account, until it does not answer.
    async fn look(&self, tenant: &Tenant, account: Account, im: &ImEndpoint) {
        let Some(owner) = self.outside.owner(im).await else {
            return;
        };
        let Some(mut listed) = self.outside.list(&owner).await else {
            return;
        };
        let claimed = self.outside.ids();
        listed.retain(|id| !claimed.contains(id.as_str()));
        let account = Arc::new(account);
        for id in self.orphans.unread(tenant, &account, listed) {
            let made_for = match self.outside.name(&owner, &id).await {
                Named::Read(made_for) => made_for,
                Named::NotYet => continue,
                Named::Silence => return,
            };
            let account = Arc::clone(&account);
            self.orphans.learn(tenant, Owned { account, id }, made_for);
        }
    }
}

impl Source<Tenant> for Unclaimed {
    async fn list(&self, _: &Ctx) -> Result<Vec<Tenant>, BoxError> {
        let named = self.outside.accounts();
        self.orphans.retain(&named);
        Ok(named.into_keys().collect())
    }
}

impl Storage<Tenant> for Unclaimed {
    type Object = Accounts;

    /// None if the tenant has no provider any more, so that the loop forgets it.
    async fn get(&self, _: &Ctx, tenant: &Tenant) -> Result<Option<Accounts>, BoxError> {
        Ok(self.outside.accounts().remove(tenant))
    }
}

impl Handler<Tenant, Accounts> for Unclaimed {
    /// Never fails: trouble is for the provider to see.
    async fn handle(
        &self,
        ctx: &Ctx,
        tenant: &Tenant,
        accounts: Option<Accounts>,
    ) -> Result<Next, BoxError> {
        if let Some(accounts) = accounts {
            // Whoever stops does not wait for a server that hangs.
            let turn = self.turn(tenant, accounts);
            let _stopped = ctx.stopping.run_until_cancelled(turn).await;
        }
        Ok(Next::Settled)
    }
}
