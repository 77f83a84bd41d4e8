//! Runs the controller of a kind: kube wakes objects, and each gets its passes.

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
use super::queue::Queue;
use super::readable::Readable;

/// How long a pass may go on when a stop is asked for. Requests may take longer, and until they end nobody else may lead.
const LAST: Duration = Duration::from_secs(10);

/// Runs a controller to its end, which `stop` asks for.
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
                // First: the watches have ended with it, and with them the caches are as good as filled, though empty.
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
        () = stopped.cancelled().then(|()| sleep(LAST)) => {
            tracing::warn!(controller = name, after = ?LAST, "passes that do not end are given up");
        }
        // In an empty cluster there is no pass that would wait for the caches, and they would be awaited for ever.
        () = caches.then(|()| future::pending()) => {}
    }
}

/// Takes what comes of the passes. Errors of watches were logged where they arose, and those of passes are no errors here.
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
                tracing::debug!(controller = name, object = %id, "gone before its turn");
            }
            Err(error) => tracing::warn!(
                controller = name,
                error = &error as &dyn std::error::Error,
                "controller failed"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
