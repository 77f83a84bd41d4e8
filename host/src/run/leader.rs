//! Leader election: for each duty one of several replicas works, the others stand by.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, sleep_until};

use super::lease::{Candidate, Found, Won};
use super::state::{DutyState, Renewed, Role};

/// How often the Lease is looked at by those who do not have it.
const LOOK: Duration = Duration::from_secs(2);

/// Stands for election, works when elected, and stands again when the Lease was lost, until a stop is asked for.
///
/// Losing the Lease drops the work at once. On a stop the work ends itself, and the Lease is held until it has.
pub(super) async fn lead<W: Future>(
    candidate: &Candidate,
    state: &DutyState,
    work: impl Fn() -> W,
) -> Option<W::Output> {
    while let Some(won) = acquire(candidate, state).await {
        tracing::info!(
            duty = state.row.name,
            lease = candidate.name,
            identity = candidate.identity,
            "leading"
        );
        state.take(Role::Leader);
        // Ours first: after a pause of the whole process, the work must not go on with a Lease that has run out. A pass that another
        // thread resumes first may still send one write; its preconditions protect what another leader did meanwhile.
        tokio::select! {
            biased;
            why = lost(candidate, state, won) => {
                state.take(Role::Follower("somebody else".to_owned()));
                tracing::warn!(
                    duty = state.row.name,
                    lease = candidate.name,
                    why,
                    "the Lease is lost, controllers dropped, standing again"
                );
            }
            done = work() => {
                if let Err(error) = candidate.release().await {
                    tracing::warn!(lease = candidate.name, error = &error as &dyn std::error::Error, "could not release the Lease, the others wait for its end");
                }
                state.renewed.send_replace(None);
                return Some(done);
            }
        }
    }
    None
}

/// Waits until the Lease is ours; none if a stop was asked for meanwhile.
///
/// Who lacks a kind or a right does not stand: another may have what is missing here.
async fn acquire(candidate: &Candidate, state: &DutyState) -> Option<Won> {
    let mut seen = None;
    loop {
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return None,
            found = async { state.may_work().await; candidate.take(&mut seen).await } => match found {
                Ok(Found::Ours(won)) => return Some(won),
                Ok(Found::Theirs(leader)) => {
                    let role = Role::Follower(leader);
                    if *state.role.borrow() != role {
                        tracing::info!(duty = state.row.name, lease = candidate.name, ?role, "standing by");
                        state.take(role);
                    }
                }
                Err(error) => tracing::warn!(lease = candidate.name, error = &error as &dyn std::error::Error, "could not stand for election, trying again"),
            },
        }
        tokio::select! {
            () = state.stop.cancelled() => return None,
            () = sleep(LOOK.min(candidate.duration / 3)) => {}
        }
    }
}

/// Renews the Lease for as long as that goes; returns why it does not any more, before anybody else may take it.
async fn lost(candidate: &Candidate, state: &DutyState, mut won: Won) -> String {
    let good_for = candidate.duration;
    loop {
        let at = won.sent;
        state.renewed.send_replace(Some(Renewed { at, good_for }));
        match renew(candidate, &won).await {
            Ok(renewed) => won = renewed,
            Err(why) => return why,
        }
    }
}

/// Renews the Lease once more in its time, and returns it; or why it is lost.
async fn renew(candidate: &Candidate, won: &Won) -> Result<Won, String> {
    let Won { lease, sent } = won;
    let (sent, good_for) = (*sent, candidate.duration);
    let last = sent + good_for * 2 / 3;
    let mut next = sent + good_for / 3;
    let mut tries = FuturesUnordered::new();
    loop {
        let tried = tokio::select! {
            Some(tried) = tries.next() => tried,
            // One that has no answer yet goes on: it may be slow, or its connection dead, and the next one opens another.
            () = sleep_until(next), if next < last => {
                next += good_for / 6;
                tries.push(candidate.renew(lease));
                continue;
            }
            () = sleep_until(last) => return Err("it could not be renewed in time".to_owned()),
        };
        match tried {
            Ok(Found::Ours(won)) => return Ok(won),
            Ok(Found::Theirs(other)) => return Err(format!("{other:?} has it")),
            Err(error) => {
                tracing::warn!(
                    lease = candidate.name,
                    error = &error as &dyn std::error::Error,
                    "could not renew the Lease, trying again"
                );
                next = next.min(Instant::now() + good_for / 15);
            }
        }
    }
}

#[cfg(test)]
mod tests;
