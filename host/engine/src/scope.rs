//! What a controller watches: one namespace, or all and the cluster-scoped objects.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::core::ApiResource;
use kube::runtime::reflector::ObjectRef;
use tokio_util::sync::CancellationToken;

use super::kind::Context;
use super::permits::PassPermits;
use super::readiness::Readiness;

/// If all namespaces are watched, one gets at most this part of the concurrent passes.
const SHARE: u16 = 4;

/// One namespace or all of them, and what the controllers in it share.
#[derive(Clone)]
pub struct WatchScope {
    /// The namespace; none means all namespaces and the cluster-scoped objects.
    pub namespace: Option<String>,
    /// What every controller needs.
    pub ctx: Arc<Context>,
    /// Reports which caches are not yet filled.
    pub readiness: Readiness,
    /// Stops the controllers gracefully.
    pub stop: CancellationToken,
    /// Concurrency and resync interval.
    pub pace: Pace,
}

/// Concurrency and resync interval of controllers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many objects of a kind are reconciled at once, in each scope.
    pub concurrency: u16,
    /// Resync interval.
    pub resync: Duration,
}

impl WatchScope {
    /// Returns the scope of the whole cluster, for what is watched once whatever the namespaces are.
    #[must_use]
    pub fn of_cluster(&self) -> Self {
        Self {
            namespace: None,
            ..self.clone()
        }
    }

    /// Returns the same scope with so many passes at once, and at least so many for each namespace.
    #[must_use]
    pub fn with_passes(&self, concurrency: u16, for_each: u16) -> Self {
        let least = match self.namespace {
            Some(_) => for_each,
            None => for_each.saturating_mul(SHARE),
        };
        Self {
            pace: Pace {
                concurrency: concurrency.max(least),
                ..self.pace
            },
            ..self.clone()
        }
    }

    /// Returns the permits for passes, and the stream of parked objects to wake. A single namespace may use all permits, and so may
    /// cluster-scoped objects.
    pub(super) fn permits<K>(
        &self,
        resource: &Arc<ApiResource>,
    ) -> (
        PassPermits,
        impl Stream<Item = ObjectRef<K>> + Send + use<K>,
    )
    where
        K: Resource<DynamicType = Arc<ApiResource>>,
    {
        let concurrency = self.pace.concurrency;
        let share = match self.namespace {
            Some(_) => concurrency,
            None => (concurrency / SHARE).max(1),
        };
        let (permits, woken) = PassPermits::new(usize::from(share), usize::from(concurrency));
        let resource = Arc::clone(resource);
        let woken = woken.map(move |(namespace, name)| {
            let object = ObjectRef::new_with(&name, Arc::clone(&resource));
            match namespace.as_str() {
                "" => object,
                namespace => object.within(namespace),
            }
        });
        (permits, woken)
    }
}

#[cfg(test)]
mod tests;
