//! Reads and writes the Lease that names the leader.
//!
//! Every write carries the resourceVersion that was read, so only one of two candidates succeeds. Clocks of other machines are not
//! trusted: a Lease is expired when it has not changed for its whole duration by our own clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

/// This replica as a candidate for one Lease.
pub(super) struct Candidate {
    api: Api<Lease>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) duration: Duration,
}

/// Who holds the Lease.
pub(super) enum Holder {
    /// This replica.
    Ours(HeldLease),
    /// The replica with this identity.
    Theirs(String),
}

/// The Lease as we wrote it, and when that request was sent.
///
/// The other replicas count its duration from when they see the write, which may be before we get the answer. So we count from before
/// the request.
pub(super) struct HeldLease {
    pub(super) lease: Box<Lease>,
    pub(super) sent: Instant,
}

/// The version of another replica's Lease, and when we first saw it.
pub(super) struct Seen {
    resource_version: Option<String>,
    since: Instant,
}

/// Why a request for the Lease failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    #[error("could not read or write the Lease")]
    Request(#[from] kube::Error),
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

    /// Takes the Lease if nobody holds it, if it is ours already, or if it has expired.
    pub(super) async fn take(&self, seen: &mut Option<Seen>) -> Result<Holder, LeaseError> {
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
    pub(super) async fn renew(&self, lease: &Lease) -> Result<Holder, LeaseError> {
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
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref());
    holder.unwrap_or_default()
}

/// Whether a Lease has not changed for the duration that its holder gave it.
fn is_expired(seen: &mut Option<Seen>, lease: &Lease) -> bool {
    let resource_version = lease.metadata.resource_version.clone();
    if let Some(seen) = seen
        && seen.resource_version == resource_version
    {
        let duration = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds);
        let seconds = duration
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(15);
        return seen.since.elapsed() >= Duration::from_secs(seconds);
    }
    *seen = Some(Seen {
        resource_version,
        since: Instant::now(),
    });
    false
}
