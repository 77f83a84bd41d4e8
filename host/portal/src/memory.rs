//! What no cache shows yet, or ever: our own writes until the caches have them, what is in Secrets without their keys, and what was
//! tried and failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::core::ObjectMeta;
use podloom_api::AppliedTunnel;
use podloom_api::names::portal::reason;
use podloom_engine::backoff::jittered;
use podloom_engine::plan::later;
use podloom_turns::lock;

use super::check::Blocker;
use super::deployment::is_complete;
use super::world::{OurIdentity, Refusal, Try};

/// How long to wait after a first failure.
const FIRST: Duration = Duration::from_millis(5);
/// How long to wait at most.
const LONGEST: Duration = Duration::from_mins(5);
/// After this time without a repair, the next one is a first one.
const QUIET: SignedDuration = SignedDuration::from_mins(10);
/// How long to wait while a namespace is being deleted: nothing helps, and soon the PortalExpose is deleted too.
const IN_VAIN: Duration = Duration::from_secs(30);

/// What is remembered of each PortalExpose. Cheap to clone; all clones share it.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<HashMap<String, Known>>>);

#[derive(Clone, Debug, Default)]
struct Known {
    deployment: Option<Arc<Deployment>>,
    applied: Option<AppliedTunnel>,
    identity: Option<OurIdentity>,
    /// What failed, after how many failures of it in a row.
    refused: Option<(Refusal, u32)>,
    queued: Option<Try>,
    repairs: Option<Repairs>,
    rollout: Option<Rollout>,
}

/// Our last write of the Deployment, until all of its pods are new and ready.
#[derive(Clone, Debug)]
struct Rollout {
    generation: Option<i64>,
    since: Timestamp,
}

/// How often in a row the Deployment was restored. Another writer may undo it each time.
#[derive(Clone, Debug)]
struct Repairs {
    count: u32,
    last: Timestamp,
    /// Before this time it is not restored again.
    next: Timestamp,
}

impl Memory {
    /// Remembers a Deployment as the API server answered.
    pub(super) fn wrote_deployment(&self, uid: &str, deployment: Arc<Deployment>) {
        self.with(uid, |known| known.deployment = Some(deployment));
    }

    /// Returns the newer one of a cached Deployment and the one that we wrote.
    pub(super) fn newest(&self, uid: &str, cached: Arc<Deployment>) -> Arc<Deployment> {
        let written = self.known(uid, |known| match &known.deployment {
            Some(written) if is_newer(&written.metadata, &cached.metadata) => {
                Some(Arc::clone(written))
            }
            _ => {
                known.deployment = None;
                None
            }
        });
        written.unwrap_or(cached)
    }

    /// Remembers what was applied. The status says it too, but writing it may fail.
    pub(super) fn has_applied(&self, uid: &str, applied: AppliedTunnel) {
        self.with(uid, |known| known.applied = Some(applied));
    }

    /// Returns what was applied last.
    pub(super) fn applied(&self, uid: &str) -> Option<AppliedTunnel> {
        self.known(uid, |known| known.applied.clone())
    }

    /// Remembers a Secret as the API server has it.
    pub(super) fn read_identity(&self, uid: &str, identity: OurIdentity) {
        self.with(uid, |known| known.identity = Some(identity));
    }

    /// Returns a cached Secret with what is known of its content, or a newer one that we read or wrote.
    pub(super) fn identity(&self, uid: &str, cached: Arc<ObjectMeta>) -> OurIdentity {
        let read = self.known(uid, |known| known.identity.clone());
        let read = read
            .filter(|read| is_newer(&read.metadata, &cached) || is_same(&read.metadata, &cached));
        read.unwrap_or(OurIdentity {
            metadata: cached,
            content: None,
        })
    }

    /// Remembers that something failed, and returns when to try it again: each time later.
    ///
    /// These waits are not the engine's: while one lasts, the status still follows pods and relays, and a change of what was tried
    /// ends it at once.
    pub(super) fn refused(
        &self,
        uid: &str,
        tried: &Try,
        problem: Blocker,
        now: Timestamp,
    ) -> Refusal {
        self.with(uid, |known| {
            let before = known.refused.take();
            let before = before.filter(|(refusal, _)| refusal.tried == *tried);
            let count = before.map_or(0, |(_, count)| count.saturating_add(1));
            let refusal = Refusal {
                tried: tried.clone(),
                next: later(now, jittered(wait(&problem, count))),
                problem,
            };
            known.refused = Some((refusal.clone(), count));
            refusal
        })
    }

    /// Returns what failed last.
    pub(super) fn refusal(&self, uid: &str) -> Option<Refusal> {
        self.known(uid, |known| Some(known.refused.as_ref()?.0.clone()))
    }

    /// Remembers that something worked: the next failure of it is a first one.
    pub(super) fn succeeded(&self, uid: &str, tried: &Try) {
        self.known(uid, |known| {
            known.refused.take_if(|(it, _)| it.tried == *tried);
            known.queued.take_if(|it| it == tried);
            Some(())
        });
    }

    /// Remembers that the Deployment of this generation was written, and may replace its pods.
    pub(super) fn rolls(&self, uid: &str, generation: Option<i64>, now: Timestamp) {
        let since = now;
        self.with(uid, |known| {
            known.rollout = Some(Rollout { generation, since })
        });
    }

    /// Returns since when the Deployment replaces its pods because of our last write; none if they are all new and ready.
    ///
    /// The Deployment itself does not say it if it goes back to an earlier template: its condition Progressing then still says that the
    /// rollout before is complete.
    pub(super) fn rolls_since(&self, uid: &str, deployment: &Deployment) -> Option<Timestamp> {
        self.known(uid, |known| {
            let rollout = known.rollout.as_ref()?;
            let is_seen = deployment.metadata.generation >= rollout.generation;
            if is_seen && is_complete(deployment) {
                known.rollout = None;
                return None;
            }
            Some(rollout.since)
        })
    }

    /// Remembers that the Deployment was restored: each time in a row, the next repair waits longer.
    pub(super) fn repaired(&self, uid: &str, now: Timestamp) {
        self.with(uid, |known| {
            let before = known.repairs.as_ref();
            let before = before.filter(|before| now.duration_since(before.last) < QUIET);
            let count = before.map_or(0, |before| before.count.saturating_add(1));
            let wait = jittered(doubled(count).min(LONGEST));
            known.repairs = Some(Repairs {
                count,
                last: now,
                next: later(now, wait),
            });
        });
    }

    /// Returns when the Deployment may be restored again; none if it never was.
    pub(super) fn next_repair(&self, uid: &str) -> Option<Timestamp> {
        self.known(uid, |known| Some(known.repairs.as_ref()?.next))
    }

    /// Remembers that a Deployment waits until fewer others roll.
    pub(super) fn queued(&self, uid: &str, tried: Try) {
        self.with(uid, |known| known.queued = Some(tried));
    }

    /// Returns what waits until fewer others roll.
    pub(super) fn waits(&self, uid: &str) -> Option<Try> {
        self.known(uid, |known| known.queued.clone())
    }

    /// Forgets a PortalExpose that is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut all = lock(&self.0);
        all.remove(uid);
    }

    /// How much is remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Reads or changes what is known; none if that is nothing.
    fn known<T>(&self, uid: &str, work: impl FnOnce(&mut Known) -> Option<T>) -> Option<T> {
        let mut all = lock(&self.0);
        all.get_mut(uid).and_then(work)
    }

    fn with<T>(&self, uid: &str, work: impl FnOnce(&mut Known) -> T) -> T {
        let mut all = lock(&self.0);
        work(all.entry(uid.to_owned()).or_default())
    }
}

/// How long to wait after this many failures before this one.
fn wait(problem: &Blocker, before: u32) -> Duration {
    match problem.reason {
        // The same pod will be denied again, unless something changes that only the plugin sees.
        reason::MUTATOR_DENIED | reason::MUTATOR_RESULT_INVALID => LONGEST,
        reason::DEPLOYMENT_REJECTED | reason::IDENTITY_REJECTED if is_in_vain(&problem.message) => {
            IN_VAIN
        }
        _ => doubled(before).min(LONGEST),
    }
}

/// The first wait, doubled so many times.
fn doubled(times: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(times))
}

/// Whether the API server creates nothing since the namespace is being deleted. Without the right to read namespaces, only its message
/// says so.
fn is_in_vain(message: &str) -> bool {
    message.contains("because it is being terminated")
}

fn is_newer(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    version(one) > version(other)
}

fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.uid == other.uid && one.resource_version == other.resource_version
}

/// Resource versions of one kind are numbers that grow (KEP-5504).
fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
