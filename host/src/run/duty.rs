//! Runs one duty: checks the cluster, takes part in the leader election, and runs the controllers.
//!
//! Duties share none of this. What one duty lacks or loses stops that duty alone.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_controllers::ControllerError;

use super::leader;
use super::lease::Candidate;
use super::preflight::Preflight;
use super::state::{Access, DutyState, Role};

/// Starts the controllers of a duty. They run until they are stopped; dropping the future ends them at once.
pub(super) type Work = Box<dyn Fn(&DutyState) -> BoxFuture<'static, WorkResult> + Send + Sync>;

/// How the controllers ended.
pub(super) type WorkResult = Result<(), ControllerError>;

/// An enabled duty and what it needs to run.
pub(super) struct DutyTask {
    pub(super) state: Arc<DutyState>,
    pub(super) preflight: Preflight,
    /// None without leader election.
    pub(super) candidate: Option<Candidate>,
    pub(super) work: Work,
}

impl DutyTask {
    /// Checks the cluster all the time, and runs the controllers while this replica leads, until it is stopped. The controllers wait
    /// for `ready` too.
    pub(super) async fn run(&self, ready: impl Future<Output = ()>) -> Result<()> {
        let state = &self.state;
        let working = async {
            let ready = async { tokio::join!(ready, self.first_access()) };
            tokio::select! {
                _ = ready => self.work().await?,
                () = state.stop.cancelled() => {}
            }
            if !state.stop.is_cancelled() {
                bail!("its controllers ended without being stopped");
            }
            Ok(())
        };
        let checking = self.preflight.keep_checking(state).map(Ok);
        // Both end when stopped; `working` ends earlier if it fails.
        tokio::try_join!(working, checking).map(|((), ())| ())
    }

    /// Waits until the duty's kinds are served and all its rights are granted. If one is lost later, readiness fails; controllers that
    /// run continue with what they may still do, and a follower leaves the election.
    async fn first_access(&self) {
        let mut access = self.state.access.subscribe();
        // It fails only when the state is dropped, and then this is dropped too.
        let _ = access.wait_for(|access| *access == Access::Granted).await;
    }

    async fn work(&self) -> Result<()> {
        let state = &self.state;
        match &self.candidate {
            None => {
                state.take(Role::Alone);
                (self.work)(state).await?;
            }
            Some(candidate) => {
                if let Some(done) = leader::lead(candidate, state, || (self.work)(state)).await {
                    done?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
