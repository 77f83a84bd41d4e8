//! Runs one duty: checks the cluster, takes part in the leader election, and runs the controllers.
//!
//! Duties share none of this. What one duty lacks or loses stops that duty alone.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::{self, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use podloom_controllers::ControllerError;
use podloom_engine::plain::plain;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::preflight::Preflight;
use super::state::{Access, DutyState, Renewed, Role};

/// Starts the controllers of a duty. They run until they are stopped; dropping the future ends them at once.
pub(super) type Work = Box<dyn Fn(&DutyState) -> BoxFuture<'static, WorkResult> + Send + Sync>;

/// How the controllers ended.
pub(super) type WorkResult = Result<(), ControllerError>;

/// An enabled duty and what it needs to run.
pub(super) struct DutyTask {
    pub(super) state: Arc<DutyState>,
    pub(super) preflight: Preflight,
    /// The controllers wait for this too.
    pub(super) ready: BoxFuture<'static, ()>,
    /// None without leader election.
    pub(super) candidate: Option<Candidate>,
    pub(super) work: Work,
}

impl DutyTask {
    /// Checks the cluster all the time, and runs the controllers while this replica leads, until it is stopped.
    pub(super) async fn run(self) -> Result<()> {
        let Self {
            state,
            preflight,
            ready,
            candidate,
            work,
        } = self;
        // Once all kinds are served and all rights are granted. If one is lost later, readiness fails; controllers that run continue with
        // what they may still do, and a follower leaves the election.
        let granted = async {
            let mut access = state.access.subscribe();
            // It fails only when the state is dropped.
            let _ = access.wait_for(|access| *access == Access::Granted).await;
        };
        let working = async {
            tokio::select! {
                _ = future::join(ready, granted) => match &candidate {
                    None => {
                        state.take(Role::Alone);
                        work(&state).await?;
                    }
                    Some(candidate) => {
                        let led = lead(candidate, &state, || work(&state)).await;
                        led.transpose()?;
                    }
                },
                () = state.stop.cancelled() => {}
            }
            if !state.stop.is_cancelled() {
                bail!("its controllers ended without being stopped");
            }
            Ok(())
        };
        let checking = preflight.keep_checking(&state).map(Ok);
        // Both end when stopped; `working` ends earlier if it fails.
        tokio::try_join!(working, checking).map(|((), ())| ())
    }
}

/// How often followers read the Lease.
const FOLLOWER_INTERVAL: Duration = Duration::from_secs(2);

/// Takes part in the election, in which one replica becomes the leader and works. Until stopped, it acquires the Lease, works, and starts
/// again if the Lease was lost.
///
/// When the Lease is lost, the work is dropped at once. When stopped, the work ends by itself, and the Lease is held until then.
async fn lead<W: Future>(
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

/// This replica as a candidate for the Lease that names the leader.
///
/// Every write carries the resourceVersion that was read, so only one of two candidates succeeds. Clocks of other machines are not
/// trusted: a Lease is expired when it has not changed for its whole duration by our own clock.
pub(super) struct Candidate {
    api: Api<Lease>,
    pub(super) namespace: String,
    pub(super) name: String,
    identity: String,
    duration: Duration,
}

/// Who holds the Lease.
enum Holder {
    /// This replica.
    Ours(HeldLease),
    /// The replica with this identity.
    Theirs(String),
}

/// The Lease as we wrote it, and when that request was sent.
///
/// The other replicas count its duration from when they see the write, which may be before we get the answer. So we count from before
/// the request.
struct HeldLease {
    lease: Box<Lease>,
    sent: Instant,
}

/// The version of another replica's Lease, and when we first saw it.
type Seen = (Option<String>, Instant);

/// Why a request for the Lease failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("could not read or write the Lease")]
    Request(#[from] kube::Error),
    #[error("no answer from the API server in time")]
    Unanswered,
}

impl Candidate {
    pub(super) fn new(
        client: Client,
        namespace: String,
        name: String,
        identity: String,
        duration: Duration,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &namespace),
            namespace,
            name,
            identity,
            duration,
        }
    }

    /// Takes the Lease if nobody holds it, if it is ours already, or if it has expired.
    async fn take(&self, seen: &mut Option<Seen>) -> Result<Holder, LeaseError> {
        let Some(lease) = self.in_time(self.api.get_opt(&self.name)).await? else {
            let sent = Instant::now();
            let (post, lease) = (PostParams::default(), self.signed(Lease::default()));
            let created = self.in_time(self.api.create(&post, &lease)).await?;
            let lease = Box::new(created);
            return Ok(Holder::Ours(HeldLease { lease, sent }));
        };
        let holder = holder(&lease).to_owned();
        if !holder.is_empty() && holder != self.identity && !is_expired(seen, &lease) {
            return Ok(Holder::Theirs(holder));
        }
        self.write(self.signed(lease)).await
    }

    /// Renews the Lease, unless another replica holds it by now.
    async fn renew(&self, lease: &Lease) -> Result<Holder, LeaseError> {
        match self.write(self.signed(lease.clone())).await {
            Err(LeaseError::Request(kube::Error::Api(status))) if status.is_conflict() => {}
            answer => return answer,
        }
        // Somebody else wrote to it. Read who holds it now.
        let lease = self.in_time(self.api.get(&self.name)).await?;
        match holder(&lease) {
            holder if holder == self.identity => self.write(self.signed(lease)).await,
            other => Ok(Holder::Theirs(other.to_owned())),
        }
    }

    /// Gives the Lease up, so that another replica can take it at once.
    async fn release(&self) -> Result<(), LeaseError> {
        let mut lease = self.in_time(self.api.get(&self.name)).await?;
        if holder(&lease) == self.identity {
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            self.write(lease).await?;
        }
        Ok(())
    }

    async fn write(&self, lease: Lease) -> Result<Holder, LeaseError> {
        let sent = Instant::now();
        let post = PostParams::default();
        let written = self.in_time(self.api.replace(&self.name, &post, &lease));
        let lease = Box::new(written.await?);
        Ok(Holder::Ours(HeldLease { lease, sent }))
    }

    /// The Lease with this replica as its holder, renewed now.
    fn signed(&self, lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.unwrap_or_default();
        let is_ours = before.holder_identity.as_deref() == Some(&self.identity);
        let (acquire_time, transitions) = if is_ours {
            (before.acquire_time, before.lease_transitions)
        } else {
            let transitions = before
                .lease_transitions
                .map_or(0, |count| count.saturating_add(1));
            (Some(now.clone()), Some(transitions))
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..lease.metadata
            },
            spec: Some(LeaseSpec {
                acquire_time,
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
                lease_transitions: transitions,
                renew_time: Some(now),
                ..before
            }),
        }
    }

    /// Limits one request. With one limit for several of them, two slow requests would never finish.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        match timeout(self.duration / 3, work).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(LeaseError::Unanswered),
        }
    }
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    holder.unwrap_or_default()
}

/// Whether a Lease has not changed for the duration that its holder gave it.
fn is_expired(seen: &mut Option<Seen>, lease: &Lease) -> bool {
    let version = &lease.metadata.resource_version;
    if let Some((seen, since)) = seen
        && seen == version
    {
        let spec = lease.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        return since.elapsed() >= Duration::from_secs(seconds.unwrap_or(15));
    }
    *seen = Some((version.clone(), Instant::now()));
    false
}

#[cfg(test)]
mod tests;
