//! What drives every controller: passes that are counted, bounded and waited for, whatever becomes of one of them.

mod places;
mod pulse;
mod queue;
mod watch;

use std::any::Any;
use std::convert::Infallible;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt, future};
use kube::core::ApiResource;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::Controller;
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::act::{Actor, Fact, MetadataPatch};
use crate::backoff::{Backoff, jittered};
use crate::clock::Clock;
use crate::error::ReconcileError;
use crate::events::Events;
use crate::metrics::ControllerMetrics;
use crate::mutator::PodMutator;
use crate::readable::Readable;
use crate::run::Timeouts;

pub(crate) use places::Places;
pub(crate) use pulse::Pulses;
pub(crate) use queue::Queue;
pub(crate) use watch::{telling_lists, watch, watched, watching};

/// How long a pass may take: longer than the patience of a few requests. What one that is given up leaves undone, the next one does.
const PASS: Duration = Duration::from_mins(2);
/// How long a pass may go on when a stop is asked for. Requests may take longer, and until they end nobody else may lead.
const LAST: Duration = Duration::from_secs(10);
/// How long an object waits at most for its cache to show our own write; the write's event wakes it earlier.
const CATCH_UP: Duration = Duration::from_secs(1);

/// What every controller needs.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) mutator: Arc<dyn PodMutator>,
    pub(crate) events: Events,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Clock,
    pub(crate) metrics: ControllerMetrics,
}

/// One kind's way from an object to what is done about it.
pub(crate) trait Reconcile: Send + Sync + 'static {
    /// The kind.
    type Object: Resource<DynamicType = ApiResource>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static;

    /// The finalizer that holds objects of the kind until they are cleaned up.
    const FINALIZER: &'static str;

    /// Who writes objects of the kind, as managed fields tell it.
    const FIELD_MANAGER: &'static str;

    /// Brings one object a pass forward.
    fn reconcile(
        &self,
        ctx: &Context,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Next, ReconcileError>> + Send;
}

/// When to look at an object again. A change of it or of what it depends on wakes it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At the resync.
    Resync,
    /// After this time, at the resync at the latest.
    Within(Duration),
    /// As soon as the cache shows what we wrote: nothing was decided in this pass.
    CatchUp,
    /// Only when it changes: it is gone by our own last write, or nothing else would help.
    Change,
}

/// One controller at work.
pub(crate) struct Driven<C: Reconcile> {
    pub(crate) name: &'static str,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) ctx: Arc<Context>,
    pub(crate) controller: C,
    /// Resolves when every cache that a pass reads is filled.
    pub(crate) caches: Shared<BoxFuture<'static, ()>>,
    pub(crate) backoff: Backoff,
    pub(crate) queue: Queue,
    pub(crate) places: Places,
}

/// Runs a controller to its end, which `stop` asks for.
pub(crate) async fn drive<C: Reconcile>(
    controller: Controller<Readable<C::Object>>,
    driven: Driven<C>,
    stop: CancellationToken,
) where
    Readable<C::Object>: DeserializeOwned,
{
    let name = driven.name;
    let (queue, places) = (driven.queue.clone(), driven.places.clone());
    let caches = driven.caches.clone();
    let stopped = stop.clone();
    let at_work = Arc::new((driven, stop));
    let passes = controller.run(
        |object: Arc<Readable<C::Object>>, at_work| async move {
            let (driven, stop): &(Driven<C>, CancellationToken) = &at_work;
            tokio::select! {
                biased;
                // First: the watches have ended with it, and with them the caches are as good as filled, though empty.
                () = stop.cancelled() => return Ok(Action::await_change()),
                () = driven.caches.clone() => {}
            }
            Ok::<_, Infallible>(driven.pass(&object).await)
        },
        |_, never, _| match *never {},
        at_work,
    );
    tokio::select! {
        () = drain(name, queue, places, passes) => {}
        () = stopped.cancelled().then(|()| sleep(LAST)) => {
            tracing::warn!(controller = name, after = ?LAST, "passes that do not end are given up");
        }
        // In an empty cluster there is no pass that would wait for the caches, and they would be awaited for ever.
        () = caches.then(|()| future::pending()) => {}
    }
}

impl<C: Reconcile> Driven<C> {
    /// Makes one pass, unless the object still waits after a failure, and returns when to make the next.
    async fn pass(&self, object: &Readable<C::Object>) -> Action {
        let metadata = object.meta();
        self.queue.taken(
            metadata.namespace.as_deref(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        if let Some(rest) = self.backoff.rest(metadata) {
            // A place may have been free for it.
            self.places
                .passed_by(metadata.namespace.as_deref().unwrap_or_default());
            return Action::requeue(rest);
        }
        let Some(_place) = self.places.take(metadata) else {
            self.queue.woken(metadata);
            return Action::await_change();
        };
        let begun = Instant::now();
        let result = self.attempt(object).await;
        let reason = result.as_ref().err().map(ReconcileError::reason);
        self.ctx.metrics.reconciled(self.name, begun, reason);
        let next = match result {
            Ok(next) => next,
            Err(error) => return Action::requeue(self.failed(object, &error)),
        };
        if next != Next::CatchUp {
            self.backoff.succeeded(metadata);
        }
        let resync = jittered(self.ctx.timeouts.resync);
        match next {
            Next::Resync => Action::requeue(resync),
            Next::Within(wait) => Action::requeue(wait.min(resync)),
            Next::CatchUp => Action::requeue(CATCH_UP),
            Next::Change => Action::await_change(),
        }
    }

    /// Makes one pass. If it panics or hangs, that costs this pass and no other.
    async fn attempt(&self, object: &Readable<C::Object>) -> Result<Next, ReconcileError> {
        let pass = async {
            match &object.0 {
                Ok(readable) => self.controller.reconcile(&self.ctx, readable).await,
                Err(unreadable) => self.leave_alone(unreadable).await,
            }
        };
        // Whatever outlives the pass is kept behind locks, and is changed in one step.
        match timeout(PASS, AssertUnwindSafe(pass).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(ReconcileError::Panicked {
                message: message_of(&*panic),
            }),
            Err(_) => Err(ReconcileError::TooLong { after: PASS }),
        }
    }

    /// Logs an error, once and here, and returns how long the object waits.
    fn failed(&self, object: &Readable<C::Object>, error: &ReconcileError) -> Duration {
        let id = ObjectRef::from_obj_with(object, self.resource.clone());
        if error.is_conflict() {
            tracing::debug!(controller = self.name, object = %id, "somebody else wrote, looking again");
            return self.backoff.conflicted(object.meta());
        }
        let cause = error as &dyn std::error::Error;
        match error {
            ReconcileError::Panicked { .. } => tracing::error!(
                controller = self.name,
                object = %id,
                error = cause,
                "reconcile hit a bug, trying again"
            ),
            _ => tracing::warn!(
                controller = self.name,
                object = %id,
                reason = error.reason(),
                error = cause,
                "reconcile failed, trying again"
            ),
        }
        if let Some(notice) = error.notice() {
            let about = object.object_ref(&self.resource);
            self.ctx.events.tell(about, notice);
        }
        self.backoff.failed(object.meta(), error.retry_within())
    }

    /// Somebody stored an object that our types cannot hold: it harms no other, and our finalizer does not hold it.
    /// What it owns goes with it by garbage collection.
    async fn leave_alone(&self, unreadable: &InvalidObject) -> Result<Next, ReconcileError> {
        let metadata = &unreadable.metadata;
        tracing::warn!(
            controller = self.name,
            namespace = metadata.namespace,
            name = metadata.name,
            error = %unreadable.error,
            "unreadable object left alone"
        );
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        let is_held = finalizers.iter().any(|name| name == C::FINALIZER);
        if metadata.deletion_timestamp.is_none() || !is_held {
            return Ok(Next::Change);
        }
        let rest = finalizers.iter().filter(|name| *name != C::FINALIZER);
        let patch = MetadataPatch {
            finalizers: Some(rest.cloned().collect()),
            ..MetadataPatch::default()
        };
        let actor = Actor {
            client: &self.ctx.client,
            mutator: &self.ctx.mutator,
            resource: &self.resource,
            metadata,
            field_manager: C::FIELD_MANAGER,
        };
        match actor.set_metadata::<IgnoredAny>(&patch).await? {
            Fact::Gone => Ok(Next::Resync),
            _ => Ok(Next::Change),
        }
    }
}

/// What a panic says.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

/// Takes what comes of the passes. Errors of watches were logged where they arose, and those of passes are no errors here.
async fn drain<K, S>(name: &'static str, queue: Queue, places: Places, passes: S)
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
                places.passed_by(id.namespace.as_deref().unwrap_or_default());
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
