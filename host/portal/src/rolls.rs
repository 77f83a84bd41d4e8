//! How many Deployments may roll at once because the plugin chain changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::core::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use podloom_engine::cache::Cache;
use podloom_turns::lock;
use tokio::time::Instant;

use super::deployment::{is_rolling, is_tunnel};

/// How long a rollout keeps its turn after the progress deadline, for a controller and a watch that are late.
const MARGIN: Duration = Duration::from_mins(1);
/// After this time, a turn that was not used is given back: its pass was cancelled.
const UNUSED: Duration = Duration::from_mins(3);

/// The Deployments that roll for a new chain. Cheap to clone; all clones share them.
#[derive(Clone)]
pub(super) struct Rolls {
    limits: Limits,
    deployments: Cache<Deployment>,
    /// None before the first turn.
    rolling: Arc<Mutex<Option<Rolling>>>,
}

/// How many may roll at once, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max: usize,
    /// How many of one namespace: tunnels there that never become ready must not hold up all others.
    pub(super) max_of_namespace: usize,
    /// After how long without progress a rollout is given up.
    pub(super) progress_deadline: Duration,
}

impl Limits {
    /// If only one namespace is watched, there are no others that it could hold up.
    pub(super) fn new(max: u16, progress_deadline: Duration, is_one_namespace: bool) -> Self {
        let max = usize::from(max);
        Self {
            max,
            max_of_namespace: match is_one_namespace {
                true => max,
                false => (max / 2).max(1),
            },
            progress_deadline,
        }
    }

    /// Whether one more may roll.
    fn has_room(&self, rolling: &Rolling, deployment: &ObjectRef<Deployment>) -> bool {
        rolling.len() < self.max && self.has_room_in(rolling, deployment)
    }

    /// Whether one more may roll in the namespace of a Deployment.
    fn has_room_in(&self, rolling: &Rolling, deployment: &ObjectRef<Deployment>) -> bool {
        let is_near = |roll: &&Roll| roll.deployment.namespace == deployment.namespace;
        rolling.values().filter(is_near).count() < self.max_of_namespace
    }
}

/// The Deployments that have their turn, by UID.
type Rolling = HashMap<String, Roll>;

/// A Deployment that has its turn.
#[derive(Clone)]
struct Roll {
    deployment: ObjectRef<Deployment>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// It has not been written yet.
    Taken(Instant),
    /// It was written then, and has this generation since.
    Written(Instant, Option<i64>),
}

impl Rolls {
    pub(super) fn new(limits: Limits, deployments: Cache<Deployment>) -> Self {
        Self {
            limits,
            deployments,
            rolling: Arc::default(),
        }
    }

    /// Takes a turn for a Deployment; returns false if too many others roll, in all or in its namespace.
    ///
    /// Turns are given back here too: those of Deployments that have settled, are gone, or take too long. The first call counts the
    /// tunnels that roll, since a former process may have begun that.
    pub(super) fn take(&self, deployment: &ObjectMeta) -> bool {
        let mut rolling = lock(&self.rolling);
        let rolling = rolling.get_or_insert_with(|| self.found());
        rolling.retain(|uid, roll| self.goes_on(uid, roll));
        let uid = deployment.uid.as_deref().unwrap_or_default();
        if rolling.contains_key(uid) {
            return true;
        }
        let reference = reference(deployment);
        if !self.limits.has_room(rolling, &reference) {
            return false;
        }
        let roll = Roll {
            deployment: reference,
            stage: Stage::Taken(Instant::now()),
        };
        rolling.insert(uid.to_owned(), roll);
        true
    }

    /// Notes that a Deployment that has its turn was written. It keeps its turn until it has settled.
    pub(super) fn wrote(&self, deployment: &ObjectMeta) {
        let mut rolling = lock(&self.rolling);
        let uid = deployment.uid.as_deref().unwrap_or_default();
        if let Some(roll) = rolling.as_mut().and_then(|rolling| rolling.get_mut(uid)) {
            roll.stage = Stage::Written(Instant::now(), deployment.generation);
        }
    }

    /// Gives a turn back that was not used.
    pub(super) fn give_back(&self, deployment: &ObjectMeta) {
        let mut rolling = lock(&self.rolling);
        if let (Some(rolling), Some(uid)) = (&mut *rolling, &deployment.uid) {
            rolling.remove(uid);
        }
    }

    /// The tunnels that roll now; no more of a namespace than may.
    ///
    /// Anybody can label a Deployment as ours, or name an owner that never wrote it.
    fn found(&self) -> Rolling {
        let mut found = Rolling::new();
        let rolling = |it: &Deployment| is_tunnel(&it.metadata) && is_rolling(it);
        for deployment in self.deployments.pick(rolling) {
            let metadata = &deployment.metadata;
            let roll = Roll {
                deployment: reference(metadata),
                stage: Stage::Written(Instant::now(), metadata.generation),
            };
            let uid = metadata.uid.clone();
            if let Some(uid) = uid.filter(|_| self.limits.has_room_in(&found, &roll.deployment)) {
                found.insert(uid, roll);
            }
        }
        found
    }

    /// Whether a Deployment still needs its turn.
    fn goes_on(&self, uid: &str, roll: &Roll) -> bool {
        let (written, generation) = match roll.stage {
            Stage::Taken(at) => return at.elapsed() < UNUSED,
            Stage::Written(at, generation) => (at, generation),
        };
        // The Deployment's own condition says it earlier, if anybody keeps that.
        if written.elapsed() >= self.limits.progress_deadline.saturating_add(MARGIN) {
            return false;
        }
        let (namespace, name) = (&roll.deployment.namespace, &roll.deployment.name);
        let Some(deployment) = self.deployments.get(namespace.as_deref(), name) else {
            return false;
        };
        let metadata = &deployment.metadata;
        // The cache may not show the write yet.
        metadata.uid.as_deref() == Some(uid)
            && (metadata.generation < generation || is_rolling(&deployment))
    }
}

fn reference(deployment: &ObjectMeta) -> ObjectRef<Deployment> {
    let name = deployment.name.as_deref().unwrap_or_default();
    ObjectRef::new(name).within(deployment.namespace.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
