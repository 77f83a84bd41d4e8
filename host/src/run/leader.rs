//! Leader election: one of several replicas works, the others stand by.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::lease::{Candidate, Found};
use super::state::{Renewed, Role, State};

/// How often the Lease is looked at by those who do not have it.
const LOOK: Duration = Duration::from_secs(2);

/// Stands for election, works when elected, and stands again when the Lease was lost, until a stop is asked for.
///
/// Losing the Lease drops the work at once. On a stop the work ends itself, and the Lease is held until it has.
pub(super) async fn lead<W: Future>(
    candidate: &Candidate,
    state: &State,
    work: impl Fn() -> W,
) -> Option<W::Output> {
    while let Some(won) = acquire(candidate, state).await {
        tracing::info!(
            lease = candidate.name,
            identity = candidate.identity,
            "leading"
        );
        state.take(Role::Leader);
        // Ours first: after a pause of the whole process, the work must not go on with a Lease that has run out.
        tokio::select! {
            biased;
            why = lost(candidate, state, won) => {
                state.take(Role::Follower("somebody else".to_owned()));
                tracing::warn!(lease = candidate.name, why, "the Lease is lost, controllers dropped, standing again");
            }
            done = work() => {
                if let Err(error) = candidate.release().await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "could not release the Lease, the others wait for its end");
                }
                state.renewed.send_replace(None);
                return Some(done);
            }
        }
    }
    None
}

/// The Lease as we wrote it, and when the request for that was sent.
///
/// The others count its time from when they see the write, which may be before we have the answer. So ours counts from before
/// the request.
struct Won {
    lease: Lease,
    sent: Instant,
}

/// Waits until the Lease is ours; none if a stop was asked for meanwhile.
async fn acquire(candidate: &Candidate, state: &State) -> Option<Won> {
    let mut seen = None;
    loop {
        let sent = Instant::now();
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return None,
            found = candidate.take(&mut seen) => match found {
                Ok(Found::Ours(lease)) => return Some(Won { lease: *lease, sent }),
                Ok(Found::Theirs(leader)) => {
                    let role = Role::Follower(leader);
                    if *state.role.borrow() != role {
                        tracing::info!(lease = candidate.name, ?role, "standing by");
                        state.take(role);
                    }
                }
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "could not stand for election, trying again"),
            },
        }
        tokio::select! {
            () = state.stop.cancelled() => return None,
            () = sleep(LOOK.min(candidate.duration / 3)) => {}
        }
    }
}

/// Renews the Lease for as long as that goes; returns why it does not any more, before anybody else may take it.
async fn lost(candidate: &Candidate, state: &State, won: Won) -> String {
    let Won {
        mut lease,
        mut sent,
    } = won;
    let good_for = candidate.duration;
    loop {
        state
            .renewed
            .send_replace(Some(Renewed { at: sent, good_for }));
        let last = sent + good_for * 2 / 3;
        let mut next = sent + good_for / 3;
        (lease, sent) = loop {
            sleep_until(next).await;
            let begun = Instant::now();
            match timeout_at(last, candidate.renew(&lease)).await {
                Ok(Ok(Found::Ours(ours))) => break (*ours, begun),
                Ok(Ok(Found::Theirs(other))) => return format!("{other:?} has it"),
                Ok(Err(error)) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "could not renew the Lease, trying again"
                    );
                    next = last.min(Instant::now() + good_for / 15);
                }
                Err(_) => return "it could not be renewed in time".to_owned(),
            }
        };
    }
}

#[cfg(test)]
mod tests;
