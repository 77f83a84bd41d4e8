//! Leader election: for each duty one replica is the leader and works, the others stand by.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use podloom_controllers::plain;
use tokio::time::{Instant, sleep, sleep_until};

use super::lease::{Candidate, HeldLease, Holder};
use super::state::{DutyState, Renewed, Role};

/// How often followers read the Lease.
const FOLLOWER_INTERVAL: Duration = Duration::from_secs(2);

/// Takes part in the election until stopped: acquires the Lease, works, and starts again if the Lease was lost.
///
/// When the Lease is lost, the work is dropped at once. When stopped, the work ends by itself, and the Lease is held until then.
pub(super) async fn lead<W: Future>(
    candidate: &Candidate,
    state: &DutyState,
    work: impl Fn() -> W,
) -> Option<W::Output> {
    while let Some(held) = acquire(candidate, state).await {
        tracing::info!(
            duty = state.row.name,
            lease = candidate.name,
            identity = candidate.identity,
            "acquired the Lease, this replica is the leader"
        );
        state.take(Role::Leader);
        // The Lease is polled first: after a pause of the whole process, the work must not continue with an expired Lease. A pass that
        // another thread resumes first may still send one write; its preconditions protect what another leader did meanwhile.
        tokio::select! {
            biased;
            reason = lost(candidate, state, held) => {
                state.take(Role::Follower("another replica".to_owned()));
                tracing::warn!(
                    duty = state.row.name,
                    lease = candidate.name,
                    reason,
                    "lost the Lease, stopped the controllers, trying to acquire it again"
                );
            }
            done = work() => {
                if let Err(error) = candidate.release().await {
                    tracing::warn!(lease = candidate.name, error = plain(&error), "could not release the Lease, other replicas have to wait until it expires");
                }
                state.renewed.send_replace(None);
                return Some(done);
            }
        }
    }
    None
}

/// Waits until this replica holds the Lease. Returns none if it is stopped before.
///
/// A replica that lacks a kind or a right does not try: another one may have it.
async fn acquire(candidate: &Candidate, state: &DutyState) -> Option<HeldLease> {
    let mut seen = None;
    loop {
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return None,
            holder = async { state.may_work().await; candidate.take(&mut seen).await } => match holder {
                Ok(Holder::Ours(held)) => return Some(held),
                Ok(Holder::Theirs(leader)) => {
                    let role = Role::Follower(leader.clone());
                    if *state.role.borrow() != role {
                        tracing::info!(duty = state.row.name, lease = candidate.name, leader, "standing by");
                        state.take(role);
                    }
                }
                Err(error) => tracing::warn!(lease = candidate.name, error = plain(&error), "could not read or acquire the Lease, trying again"),
            },
        }
        tokio::select! {
            () = state.stop.cancelled() => return None,
            () = sleep(FOLLOWER_INTERVAL.min(candidate.duration / 3)) => {}
        }
    }
}

/// Renews the Lease as long as possible. Returns why it was lost, before another replica may take it.
async fn lost(candidate: &Candidate, state: &DutyState, mut held: HeldLease) -> String {
    let good_for = candidate.duration;
    loop {
        let at = held.sent;
        state.renewed.send_replace(Some(Renewed { at, good_for }));
        match renew(candidate, &held).await {
            Ok(renewed) => held = renewed,
            Err(reason) => return reason,
        }
    }
}

/// Renews the Lease once, in time. The error is the reason why it was lost.
async fn renew(candidate: &Candidate, held: &HeldLease) -> Result<HeldLease, String> {
    let HeldLease { lease, sent } = held;
    let (sent, good_for) = (*sent, candidate.duration);
    let last = sent + good_for * 2 / 3;
    let mut next = sent + good_for / 3;
    let mut tries = FuturesUnordered::new();
    loop {
        let tried = tokio::select! {
            Some(tried) = tries.next() => tried,
            // A request without an answer continues: it may only be slow. If its connection is dead, the next request opens another.
            () = sleep_until(next), if next < last => {
                next += good_for / 6;
                tries.push(candidate.renew(lease));
                continue;
            }
            () = sleep_until(last) => return Err("could not renew it in time".to_owned()),
        };
        match tried {
            Ok(Holder::Ours(held)) => return Ok(held),
            Ok(Holder::Theirs(other)) => return Err(format!("{other} holds it")),
            Err(error) => {
                tracing::warn!(
                    lease = candidate.name,
                    error = plain(&error),
                    "could not renew the Lease, trying again"
                );
                next = next.min(Instant::now() + good_for / 15);
            }
        }
    }
}

#[cfg(test)]
mod tests;
