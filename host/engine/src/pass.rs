//! One pass over one object: when it may start, its steps, and how errors are handled.

use std::any::Any;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, controller, watcher};
use podloom_api::names;
use podloom_turns::lock;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::answer::Patched;
use super::backoff::{Backoff, jittered};
use super::error::Error;
use super::events::Notice;
use super::kind::{Context, Done, Kind, Remains, Source, Unreadable};
use super::permits::PassPermits;
use super::plain::plain;
use super::plan::{Plan, Then};
use super::queue::Queue;
use super::read::read_object;
use super::readable::Readable;
use super::recent::{Cached, Recent};
use super::write::{MetadataPatch, Target};
use crate::TRACES;

/// How long an object waits at most for its cache to show our own write. Usually the event of the write wakes it earlier.
const CATCH_UP: Duration = Duration::from_secs(1);

/// When the next pass over an object is due. A change of it or of what it depends on wakes it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At the resync.
    Resync,
    /// After this time, or at the resync if that is earlier.
    Within(Duration),
    /// As soon as the cache shows our own write: this pass decided nothing.
    CatchUp,
    /// Only when it changes: our last write let it go, or a retry would not help.
    Change,
}

/// Where a pass over an object is.
pub enum Stage<W> {
    /// This world is planned next.
    GoesOn(W),
    /// It is over.
    Ends(Next),
}

/// What all passes of a kind share.
pub struct Passes<K: Kind> {
    pub(super) kind: Arc<K>,
    pub(super) resource: Arc<ApiResource>,
    pub(super) ctx: Arc<Context>,
    /// Resolves when all caches of the kind are filled.
    pub(super) caches: Shared<BoxFuture<'static, ()>>,
    pub(super) queue: Queue,
    pub(super) permits: PassPermits,
    /// Resync interval.
    pub(super) resync: Duration,
    pub(super) backoff: Backoff,
    pub(super) recent: Arc<Recent>,
    pub(super) reported: Reported,
}

impl<K: Kind> Passes<K> {
    /// Makes one pass, unless the object must wait after a failure or for a permit. Returns when the next one is due.
    pub(super) async fn pass(&self, object: &Readable<K::Object>) -> Action {
        let metadata = object.meta();
        self.queue.taken(
            metadata.namespace.as_deref(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        if let Some(rest) = self.backoff.rest(metadata) {
            // It may have been woken for a free permit.
            self.permits
                .passed_by(metadata.namespace.as_deref().unwrap_or_default());
            return Action::requeue(rest);
        }
        let Some(_permit) = self.permits.acquire(metadata) else {
            self.queue.woken(metadata);
            return Action::await_change();
        };
        let begun = Instant::now();
        self.recent.begin(metadata);
        let span = traced::<K>(metadata);
        let result = self.attempt(object).instrument(span.clone()).await;
        if let Err(error) = &result {
            span.record("error.type", error.reason());
        }
        drop(span);
        let is_overtaken = self.recent.end(metadata);
        let next = self.ended(object, begun, result);
        match is_overtaken {
            // As if the event had come after the pass.
            true => {
                self.queue.woken(metadata);
                Action::requeue(Duration::ZERO)
            }
            false => next,
        }
    }

    /// Measures a pass, and returns when the next one is due.
    fn ended(
        &self,
        object: &Readable<K::Object>,
        begun: Instant,
        result: Result<Next, Error>,
    ) -> Action {
        let metadata = object.meta();
        let reason = result.as_ref().err().map(Error::reason);
        let name = K::TRAITS.controller;
        self.ctx.metrics.reconciled(name, begun, reason);
        let next = match result {
            Ok(next) => next,
            Err(error) => return Action::requeue(self.failed(object, &error)),
        };
        if next != Next::CatchUp {
            self.backoff.succeeded(metadata);
        }
        let resync = jittered(self.resync);
        match next {
            Next::Resync => Action::requeue(resync),
            Next::Within(wait) => Action::requeue(wait.min(resync)),
            Next::CatchUp => Action::requeue(CATCH_UP),
            Next::Change => Action::await_change(),
        }
    }

    /// Makes one pass. A panic or a timeout costs this pass only.
    async fn attempt(&self, object: &Readable<K::Object>) -> Result<Next, Error> {
        let pass = async {
            match &object.0 {
                Ok(readable) => self.reconcile(readable).await,
                Err(unreadable) => self.leave_alone(unreadable).await,
            }
        };
        let longest = K::TRAITS.pass_timeout;
        // Unwind safety: state that outlives the pass is behind locks, and each change of it is one step.
        match timeout(longest, AssertUnwindSafe(pass).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Error::Panicked {
                message: message_of(&*panic),
            }),
            Err(_) => Err(Error::TooLong { after: longest }),
        }
    }

    /// Observes, then plans, acts and learns until the plan has no action left.
    pub async fn reconcile(&self, cached: &K::Object) -> Result<Next, Error> {
        let mut stage = self.look(cached).await?;
        for _ in 0..K::TRAITS.steps {
            match stage {
                Stage::GoesOn(world) => stage = self.step(world).await?,
                Stage::Ends(next) => return Ok(next),
            }
        }
        match stage {
            Stage::GoesOn(_) => Err(Error::Endless),
            Stage::Ends(next) => Ok(next),
        }
    }

    /// Begins a pass: observes, if the cache shows our last write.
    pub async fn look(&self, cached: &K::Object) -> Result<Stage<K::World>, Error> {
        let world = match self.recent.compare(cached.meta()) {
            Cached::Current => {
                let observed = self.kind.observe(&self.ctx, cached, Source::Cache);
                observed.await?
            }
            Cached::Behind => return Ok(Stage::Ends(Next::CatchUp)),
            Cached::Stale => {
                let (client, resource) = (&self.ctx.client, &*self.resource);
                let live = read_object(client, resource, cached.meta()).await?;
                let Some(live) = live else {
                    return Ok(Stage::Ends(Next::Resync));
                };
                self.kind.observe(&self.ctx, &live, Source::Live).await?
            }
        };
        Ok(Stage::GoesOn(world))
    }

    /// Makes one step of a pass: plans, acts and learns.
    pub async fn step(&self, world: K::World) -> Result<Stage<K::World>, Error> {
        let now = self.ctx.clock.now();
        let (mut world, plan) = self.plan(world, now).await;
        let Some(action) = plan.action else {
            return rest(plan.then, now).map(Stage::Ends);
        };
        let outcome = self.kind.act(&self.ctx, &world, &action).await?;
        let done = Done {
            world: &world,
            action: &action,
            outcome: &outcome,
            now,
        };
        self.publish(&done, plan.notices);
        match self.learn(&mut world, outcome) {
            Remains::Nothing => Ok(Stage::Ends(Next::Change)),
            Remains::Unknown => Ok(Stage::Ends(Next::Resync)),
            Remains::Object if plan.then != Then::GoOn => {
                // The event of our own write begins the next pass.
                self.recent.needs_event(K::metadata(&world));
                Ok(Stage::Ends(Next::Resync))
            }
            Remains::Object => Ok(Stage::GoesOn(world)),
        }
    }

    /// Makes the plan, on a blocking thread if it is heavy.
    async fn plan(&self, world: K::World, now: Timestamp) -> (K::World, Plan<K::Action>) {
        if !self.kind.is_heavy(&world) {
            let plan = self.kind.plan(&world, now);
            return (world, plan);
        }
        let kind = Arc::clone(&self.kind);
        // Spans do not follow work to another thread by themselves.
        let span = Span::current();
        let work = move || {
            let plan = span.in_scope(|| kind.plan(&world, now));
            (world, plan)
        };
        self.ctx.blocking.run(work).await
    }

    fn publish(&self, done: &Done<'_, K>, notices: Vec<Notice>) {
        let notices = self.kind.report(done, notices);
        if notices.is_empty() {
            return;
        }
        let about = reference(&self.resource, K::metadata(done.world));
        for notice in notices {
            self.ctx.events.send(about.clone(), notice);
        }
    }

    /// Puts the outcome into the world, and records the version that the cache must show before the next pass.
    fn learn(&self, world: &mut K::World, outcome: K::Outcome) -> Remains {
        let before = K::metadata(world).resource_version.clone();
        let left = self.kind.learn(world, outcome);
        let metadata = K::metadata(world);
        match left {
            Remains::Nothing => self.recent.ended(metadata),
            Remains::Unknown => self.recent.forget(metadata),
            Remains::Object if metadata.resource_version != before => self.recent.wrote(metadata),
            Remains::Object => {}
        }
        left
    }

    /// Handles an error: logs it, which nothing else does, publishes its Event, and returns how long the object waits.
    fn failed(&self, object: &Readable<K::Object>, error: &Error) -> Duration {
        let controller = K::TRAITS.controller;
        let ObjectMeta {
            namespace, name, ..
        } = object.meta();
        if error.is_conflict() {
            tracing::debug!(
                controller,
                namespace,
                name,
                "another writer was faster, trying again"
            );
            return self.backoff.conflicted(object.meta());
        }
        let cause = plain(error);
        match error {
            Error::Panicked { .. } => tracing::error!(
                controller,
                namespace,
                name,
                error = cause,
                "reconcile hit a bug, trying again"
            ),
            _ => tracing::warn!(
                controller,
                namespace,
                name,
                error.type = error.reason(),
                error = cause,
                "reconcile failed, trying again"
            ),
        }
        if let Some(notice) = error.notice() {
            let about = reference(&self.resource, object.meta());
            self.ctx.events.send(about, notice);
        }
        self.backoff.failed(object.meta(), error.retry_within())
    }

    fn report_unreadable(&self, unreadable: &InvalidObject) {
        let InvalidObject { metadata, error } = unreadable;
        tracing::warn!(
            controller = K::TRAITS.controller,
            namespace = metadata.namespace,
            name = metadata.name,
            %error,
            "object cannot be read and is left alone"
        );
        let note = format!("the operator cannot read this object and leaves it alone: {error}");
        let about = reference(&self.resource, metadata);
        let notice = Notice::warning(names::event::UNREADABLE, note);
        self.ctx.events.send(about, notice);
    }

    /// Reports an object that our types cannot hold, and leaves it alone. If it is deleted, the kind decides whether our finalizer is
    /// removed.
    async fn leave_alone(&self, unreadable: &InvalidObject) -> Result<Next, Error> {
        let metadata = &unreadable.metadata;
        if self.reported.is_new(metadata) {
            self.report_unreadable(unreadable);
        }
        let Some(patch) = released::<K>(metadata) else {
            return Ok(Next::Change);
        };
        let target = Target::of(
            &self.ctx.client,
            &self.resource,
            metadata,
            K::TRAITS.field_manager,
        );
        match target.set_metadata::<IgnoredAny>(metadata, &patch).await? {
            Patched::Gone => Ok(Next::Resync),
            _ => Ok(Next::Change),
        }
    }
}

/// The patch that removes our finalizer from an unreadable object, if it is deleted and its kind wants that.
fn released<K: Kind>(metadata: &ObjectMeta) -> Option<MetadataPatch> {
    let ours = K::TRAITS.finalizer?;
    if K::TRAITS.unreadable == Unreadable::Keep || metadata.deletion_timestamp.is_none() {
        return None;
    }
    MetadataPatch::without(metadata, ours)
}

/// When the next pass is due after a plan without an action.
fn rest(then: Then, now: Timestamp) -> Result<Next, Error> {
    match then {
        Then::GoOn | Then::Change => Ok(Next::Resync),
        Then::At(at) => Ok(Next::Within(until(now, at))),
        Then::Retry {
            reason,
            message,
            until: at,
        } => Err(Error::Retry {
            reason,
            message,
            within: until(now, at),
        }),
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

/// The outermost step of a pass, in traces.
fn traced<K: Kind>(metadata: &ObjectMeta) -> Span {
    tracing::trace_span!(
        target: TRACES,
        "reconcile",
        trace = metadata.uid,
        controller = K::TRAITS.controller,
        namespace = metadata.namespace,
        name = metadata.name,
        error.type = Empty
    )
}

/// The reference of an object for Events.
fn reference(resource: &ApiResource, metadata: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

// Runs the controller of a kind: kube schedules the objects, and each scheduled object gets a pass.

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
    let stopped = stop.clone();
    let at_work = Arc::new((passes, stop));
    let done = controller.run(
        |object: Arc<Readable<K::Object>>, at_work| async move {
            let (passes, stop): &(Passes<K>, CancellationToken) = &at_work;
            tokio::select! {
                biased;
                // First: no pass begins after a stop, whether the caches are filled or not.
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
                tracing::debug!(
                    controller = name,
                    namespace = id.namespace,
                    name = id.name,
                    "deleted before its pass"
                );
            }
            Err(error) => tracing::warn!(
                controller = name,
                error = plain(&error),
                "controller failed"
            ),
        }
    }
}

// Which unreadable objects were reported: each list request shows them all again.

/// How many objects are remembered. With more, some are reported again.
const MOST: usize = 1000;

/// The resourceVersion of each object when it was reported, by UID.
#[derive(Default)]
pub(super) struct Reported(Mutex<HashMap<String, String>>);

impl Reported {
    /// Whether an object was not reported as it is now; from now on it was.
    pub(super) fn is_new(&self, object: &ObjectMeta) -> bool {
        let uid = object.uid.clone().unwrap_or_default();
        let version = object.resource_version.clone().unwrap_or_default();
        let mut versions = lock(&self.0);
        if versions.len() >= MOST && !versions.contains_key(&uid) {
            versions.clear();
        }
        versions.insert(uid, version.clone()) != Some(version)
    }
}

#[cfg(test)]
mod tests;
