//! The Lease that names the leader.
//!
//! Every write names the resourceVersion that was seen, so of two candidates one alone gets it. Clocks are not trusted: a
//! holder is given up when its Lease has not changed for the whole of its duration by our own clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

/// Who stands for election, and for what.
pub(super) struct Candidate {
    api: Api<Lease>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) duration: Duration,
}

/// What a look at the Lease found.
pub(super) enum Found {
    /// It is ours.
    Ours(Won),
    /// It is somebody's.
    Theirs(String),
}

/// The Lease as we wrote it, and when the request for that was sent.
///
/// The others count its time from when they see the write, which may be before we have the answer. So ours counts from before
/// the request.
pub(super) struct Won {
    pub(super) lease: Box<Lease>,
    pub(super) sent: Instant,
}

/// Somebody's Lease, and since when it is as it is.
pub(super) struct Seen {
    resource_version: Option<String>,
    since: Instant,
}

/// Why nothing came of a look.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    #[error("could not use the Lease")]
    Use(#[from] kube::Error),
    #[error("no answer from the API server in time")]
    Unanswered,
}

impl Candidate {
    pub(super) fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: String,
        duration: Duration,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity,
            duration,
        }
    }

    /// Takes the Lease if it is free, ours, or not heard of for its whole duration.
    pub(super) async fn take(&self, seen: &mut Option<Seen>) -> Result<Found, LeaseError> {
        let Some(lease) = self.in_time(self.api.get_opt(&self.name)).await? else {
            let sent = Instant::now();
            let (post, lease) = (PostParams::default(), self.signed(Lease::default()));
            let created = self.in_time(self.api.create(&post, &lease)).await?;
            let lease = Box::new(created);
            return Ok(Found::Ours(Won { lease, sent }));
        };
        let holder = holder(&lease).to_owned();
        if !holder.is_empty() && holder != self.identity && !given_up(seen, &lease) {
            return Ok(Found::Theirs(holder));
        }
        self.write(self.signed(lease)).await
    }

    /// Signs the Lease anew, provided that nobody else has it.
    pub(super) async fn renew(&self, lease: &Lease) -> Result<Found, LeaseError> {
        match self.write(self.signed(lease.clone())).await {
            Err(LeaseError::Use(kube::Error::Api(status))) if status.is_conflict() => {}
            answer => return answer,
        }
        // Somebody wrote to it: who has it now?
        let lease = self.in_time(self.api.get(&self.name)).await?;
        match holder(&lease) {
            holder if holder == self.identity => self.write(self.signed(lease)).await,
            other => Ok(Found::Theirs(other.to_owned())),
        }
    }

    /// Lets the others have it at once.
    pub(super) async fn release(&self) -> Result<(), LeaseError> {
        let mut lease = self.in_time(self.api.get(&self.name)).await?;
        if holder(&lease) == self.identity {
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            self.write(lease).await?;
        }
        Ok(())
    }

    async fn write(&self, lease: Lease) -> Result<Found, LeaseError> {
        let sent = Instant::now();
        let post = PostParams::default();
        let written = self.in_time(self.api.replace(&self.name, &post, &lease));
        let lease = Box::new(written.await?);
        Ok(Found::Ours(Won { lease, sent }))
    }

    /// The Lease as we hold it from now on.
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

    /// Each request has a time of its own: together, two slow ones would never come to an end.
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
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref());
    holder.unwrap_or_default()
}

/// Whether a Lease has not changed for as long as its holder said that it would be good.
fn given_up(seen: &mut Option<Seen>, lease: &Lease) -> bool {
    let resource_version = lease.metadata.resource_version.clone();
    if let Some(seen) = seen
        && seen.resource_version == resource_version
    {
        let said = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds);
        let seconds = said.and_then(|said| u64::try_from(said).ok()).unwrap_or(15);
        return seen.since.elapsed() >= Duration::from_secs(seconds);
    }
    *seen = Some(Seen {
        resource_version,
        since: Instant::now(),
    });
    false
}
