//! How many Deployments may roll at once because the plugin chain changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::core::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;

use super::deployment::is_rolling;

/// After this time, a turn that was not used is given back: its pass was cancelled.
const UNUSED: Duration = Duration::from_mins(3);

/// The Deployments that roll for a new chain. Cheap to clone; all clones share them.
#[derive(Clone)]
pub(super) struct Rolls {
    max: usize,
    /// The Deployments of all watch scopes.
    deployments: Arc<[Store<Deployment>]>,
    /// By the UID of the Deployment. None before the first turn.
    rolling: Arc<Mutex<Option<HashMap<String, Roll>>>>,
}

/// A Deployment that has its turn.
struct Roll {
    deployment: ObjectRef<Deployment>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// It has not been written yet.
    Taken(Instant),
    /// It was written, and has this generation since.
    Written(Option<i64>),
}

impl Rolls {
    pub(super) fn new(max: u16, deployments: Vec<Store<Deployment>>) -> Self {
        Self {
            max: usize::from(max),
            deployments: deployments.into(),
            rolling: Arc::default(),
        }
    }

    /// Takes a turn for a Deployment; returns false if too many others roll.
    ///
    /// Turns are given back here too: those of Deployments that have settled, are gone, or made no progress for too long. The first
    /// call counts all that roll, since a former process may have begun that.
    pub(super) fn take(&self, deployment: &ObjectMeta) -> bool {
        let mut rolling = self.rolling.lock().unwrap_or_else(PoisonError::into_inner);
        let rolling = rolling.get_or_insert_with(|| self.found());
        rolling.retain(|uid, roll| self.goes_on(uid, roll));
        let uid = deployment.uid.as_deref().unwrap_or_default();
        if rolling.contains_key(uid) {
            return true;
        }
        if rolling.len() >= self.max {
            return false;
        }
        let roll = Roll {
            deployment: reference(deployment),
            stage: Stage::Taken(Instant::now()),
        };
        rolling.insert(uid.to_owned(), roll);
        true
    }

    /// Notes that a Deployment that has its turn was written. It keeps its turn until it has settled.
    pub(super) fn wrote(&self, deployment: &ObjectMeta) {
        self.with(deployment, |roll| {
            roll.stage = Stage::Written(deployment.generation);
        });
    }

    /// Gives a turn back that was not used.
    pub(super) fn give_back(&self, deployment: &ObjectMeta) {
        let mut rolling = self.rolling.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(rolling), Some(uid)) = (&mut *rolling, &deployment.uid) {
            rolling.remove(uid);
        }
    }

    fn with(&self, deployment: &ObjectMeta, work: impl FnOnce(&mut Roll)) {
        let mut rolling = self.rolling.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = deployment.uid.as_deref().unwrap_or_default();
        if let Some(roll) = rolling.as_mut().and_then(|rolling| rolling.get_mut(uid)) {
            work(roll);
        }
    }

    /// All Deployments that roll now.
    fn found(&self) -> HashMap<String, Roll> {
        let all = self.deployments.iter().flat_map(Store::state);
        let rolling = all.filter(|deployment| is_rolling(deployment));
        let rolls = rolling.filter_map(|deployment| {
            let roll = Roll {
                deployment: reference(&deployment.metadata),
                stage: Stage::Written(deployment.metadata.generation),
            };
            Some((deployment.metadata.uid.clone()?, roll))
        });
        rolls.collect()
    }

    /// Whether a Deployment still needs its turn.
    fn goes_on(&self, uid: &str, roll: &Roll) -> bool {
        let generation = match roll.stage {
            Stage::Taken(at) => return at.elapsed() < UNUSED,
            Stage::Written(generation) => generation,
        };
        let mut stores = self.deployments.iter();
        let Some(deployment) = stores.find_map(|store| store.get(&roll.deployment)) else {
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
