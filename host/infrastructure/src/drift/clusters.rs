//! The loop that compares the infrastructures of Clusters.

use std::collections::HashSet;

use futures::{StreamExt, stream};
use podloom_control_loop::{BoxError, Ctx, Handler, Next, Source, Storage};
use tokio::time::timeout;

use super::reads::{Claimed, Claims, Seen};
use super::{Drift, TURN};
use crate::im::Reading;
use crate::metrics::DriftKind;
use crate::resolve::Tenant;

/// The loop's name in metrics and logs.
pub(super) const NAME: &str = "infrastructure-drift";
/// How many tenants have their turn at once.
pub(super) const WORKERS: usize = 16;
/// How many accounts of a tenant are asked at once, each about one infrastructure. With all workers, half of the requests that may be
/// on their way at once are left to Clusters.
const ACCOUNTS: usize = 2;
/// After how many requests in a row without an answer an account is left alone until the next turn.
const SILENCE: u32 = 2;

/// The parts of the loop.
pub(super) struct Clusters(pub(super) Drift);

impl Clusters {
    /// Compares what the Clusters of one tenant have.
    pub(super) async fn turn(&self, claims: Claims) {
        let accounts = stream::iter(claims.into_values());
        let all = accounts.for_each_concurrent(ACCOUNTS, |claimed| self.account(claimed));
        // The next turn begins with others.
        let _late = timeout(TURN, all).await;
    }

    /// Compares the infrastructures of an account one after another.
    async fn account(&self, claimed: HashSet<Claimed>) {
        let mut silent = 0;
        let mut claimed = claimed.into_iter();
        while let Some(one) = claimed.next() {
            // Without a reading there is nothing to compare with: the Cluster's own controller reads it first.
            if self.0.memory.reading(&one.uid).is_none() {
                continue;
            }
            let seen = self.0.outside.state(&one).await;
            silent = match seen {
                Seen::Silence => silent + 1,
                _ => 0,
            };
            match seen {
                Seen::State(reading) => self.compare(&one, &reading),
                Seen::Gone => self.differs(&one, DriftKind::Vanished),
                Seen::Silence => self.unheard(&one),
                Seen::Nothing => {}
            }
            if silent >= SILENCE {
                return claimed.for_each(|one| self.unheard(&one));
            }
        }
    }

    /// Has a Cluster find out for itself that nobody answers: not all ask by themselves while nothing is to be done.
    fn unheard(&self, one: &Claimed) {
        if self.0.memory.reading(&one.uid).is_some() {
            self.0.memory.doubt(&one.uid);
            self.0.clusters.wake(&one.cluster);
        }
    }

    /// Compares a reading with the last one.
    fn compare(&self, one: &Claimed, reading: &Reading) {
        let Some((known, _)) = self.0.memory.reading(&one.uid) else {
            return;
        };
        match (known.state == reading.state, known.vms == reading.vms) {
            (true, true) => {}
            (false, _) => self.differs(one, DriftKind::State),
            (true, false) => self.differs(one, DriftKind::Machines),
        }
    }

    /// Has the Cluster look for itself: it asks again before it believes anything.
    fn differs(&self, one: &Claimed, kind: DriftKind) {
        if self.0.memory.reading(&one.uid).is_some() {
            self.0.metrics.drifted(kind);
            self.0.memory.doubt(&one.uid);
            self.0.clusters.wake(&one.cluster);
        }
    }
}

impl Source<Tenant> for Clusters {
    async fn list(&self, _: &Ctx) -> Result<Vec<Tenant>, BoxError> {
        Ok(self.0.outside.tenants_of_clusters().into_iter().collect())
    }
}

impl Storage<Tenant> for Clusters {
    type Object = Claims;

    /// None if the tenant has no Clusters any more, so that the loop forgets it.
    async fn get(&self, _: &Ctx, tenant: &Tenant) -> Result<Option<Claims>, BoxError> {
        let claims = self.0.outside.claims(tenant);
        Ok((!claims.is_empty()).then_some(claims))
    }
}

impl Handler<Tenant, Claims> for Clusters {
    /// Never fails: trouble is for the Clusters to see.
    async fn handle(
        &self,
        ctx: &Ctx,
        _: &Tenant,
        claims: Option<Claims>,
    ) -> Result<Next, BoxError> {
        if let Some(claims) = claims {
            // Whoever stops does not wait for a server that hangs.
            let turn = self.turn(claims);
            let _stopped = ctx.stopping.run_until_cancelled(turn).await;
        }
        Ok(Next::Settled)
    }
}
