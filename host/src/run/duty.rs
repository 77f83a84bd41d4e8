//! One duty, from the look at the cluster to its work: it waits for its kinds and rights, stands for election, and works.
//!
//! Nothing of this is shared: what one duty lacks or loses stops it alone.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_controllers::ControllerError;

use super::leader;
use super::lease::Candidate;
use super::preflight::Preflight;
use super::state::{Access, DutyState, Role};

/// Does a duty until it is stopped. Dropping it ends it at once.
pub(super) type Work = Box<dyn Fn(&DutyState) -> BoxFuture<'static, Worked> + Send + Sync>;

/// How that ended.
pub(super) type Worked = Result<(), ControllerError>;

/// A duty that is switched on.
pub(super) struct Post {
    pub(super) state: Arc<DutyState>,
    pub(super) preflight: Preflight,
    /// None without an election.
    pub(super) candidate: Option<Candidate>,
    pub(super) work: Work,
}

impl Post {
    /// Looks at the cluster and works when it is our turn, until a stop is asked for. Work begins when `ready` is done, too.
    pub(super) async fn run(&self, ready: impl Future<Output = ()>) -> Result<()> {
        let state = &self.state;
        let working = async {
            let ready = async { tokio::join!(ready, self.first_access()) };
            tokio::select! {
                _ = ready => self.work().await?,
                () = state.stop.cancelled() => {}
            }
            if !state.stop.is_cancelled() {
                bail!("its controllers ended though nobody stopped them");
            }
            Ok(())
        };
        let look = self.preflight.keep_looking(state).map(Ok);
        // Both end at a stop, and work before that if it fails.
        tokio::try_join!(working, look).map(|((), ())| ())
    }

    /// Waits until our kinds are served and we have the rights we need. If that changes later, readiness says so and
    /// controllers that work go on: what they may still do, they do. Who stands by does not stand for election until then.
    async fn first_access(&self) {
        let mut access = self.state.access.subscribe();
        // An error would mean that the state is gone, and with it this.
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
