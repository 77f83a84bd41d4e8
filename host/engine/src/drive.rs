//! Runs the controller of a kind: kube schedules the objects, and each scheduled object gets a pass.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, future};
use kube::Resource;
use kube::runtime::Controller;
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::kind::Kind;
use super::pass::Passes;
use super::permits::PassPermits;
use super::plain::plain;
use super::queue::Queue;
use super::readable::Readable;

/// How long running passes may go on after a stop. Their requests could take longer, and until they end no other replica may lead.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a controller until `stop`.
pub(super) async fn drive<K: Kind>(
    controller: Controller<Readable<K::Object>>,
    passes: Passes<K>,
    stop: CancellationToken,
) where
    Readable<K::Object>: DeserializeOwned,
    <Readable<K::Object> as Resource>::DynamicType: Eq + Hash + Clone + Debug + Unpin,
{
    let name = K::TRAITS.controller;
    let (queue, permits) = (passes.queue.clone(), passes.permits.clone());
    let caches = passes.caches.clone();
    let stopped = stop.clone();
    let at_work = Arc::new((passes, stop));
    let done = controller.run(
        |object: Arc<Readable<K::Object>>, at_work| async move {
            let (passes, stop): &(Passes<K>, CancellationToken) = &at_work;
            tokio::select! {
                biased;
                // First, since the watches end at a stop too, and then empty caches count as filled.
                () = stop.cancelled() => return Ok(Action::await_change()),
                () = passes.caches.clone() => {}
            }
            Ok::<_, Infallible>(passes.pass(&object).await)
        },
        |_, never, _| match *never {},
        at_work,
    );
    tokio::select! {
        () = drain(name, queue, permits, done) => {}
        () = stopped.cancelled().then(|()| sleep(STOP_TIMEOUT)) => {
            tracing::warn!(controller = name, after = ?STOP_TIMEOUT, "passes did not end in time and are cancelled");
        }
        // In an empty cluster, no pass polls this future, and readiness would report the caches as not filled for ever.
        () = caches.then(|()| future::pending()) => {}
    }
}

/// Consumes the results of the passes. Errors of watches and passes are logged where they occur.
async fn drain<K, S>(name: &'static str, queue: Queue, permits: PassPermits, passes: S)
where
    K: Resource,
    K::DynamicType: Debug,
    S: Stream<Item = Result<(ObjectRef<K>, Action), controller::Error<Infallible, watcher::Error>>>,
{
    let mut passes = std::pin::pin!(passes);
    while let Some(done) = passes.next().await {
        match done {
            Ok(_) | Err(controller::Error::QueueError(_)) => {}
            Err(controller::Error::ObjectNotFound(id)) => {
                queue.taken(id.namespace.as_deref(), &id.name);
                permits.passed_by(id.namespace.as_deref().unwrap_or_default());
                tracing::debug!(controller = name, object = %id, "deleted before its pass");
            }
            Err(error) => tracing::warn!(
                controller = name,
                error = plain(&error),
                "controller failed"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
