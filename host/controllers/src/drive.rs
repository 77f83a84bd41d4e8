//! What drives every controller: watches that tell when they break, passes that are counted, errors that are told once.

use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::mpsc;
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future};
use kube::core::error_boundary::InvalidObject;
use kube::core::{ApiResource, DeserializeGuard};
use kube::runtime::Controller;
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::act::{Actor, MetadataPatch};
use crate::backoff::{Backoff, watch_backoff};
use crate::error::ReconcileError;
use crate::events::Events;
use crate::metrics::ControllerMetrics;
use crate::mutator::PodMutator;
use crate::run::Timeouts;

/// What every controller needs.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) mutator: Arc<dyn PodMutator>,
    pub(crate) events: Events,
    pub(crate) timeouts: Timeouts,
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
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

/// One controller at work.
pub(crate) struct Driven<C: Reconcile> {
    pub(crate) name: &'static str,
    pub(crate) resource: ApiResource,
    pub(crate) ctx: Arc<Context>,
    pub(crate) controller: C,
    /// Resolves when every cache that a pass reads is filled.
    pub(crate) caches: Shared<BoxFuture<'static, ()>>,
}

/// Runs a controller to its end, which `stop` asks for.
pub(crate) async fn drive<C: Reconcile>(
    controller: Controller<DeserializeGuard<C::Object>>,
    driven: Driven<C>,
    stop: CancellationToken,
) {
    let name = driven.name;
    let caches = driven.caches.clone();
    let at_work = Arc::new((driven, Backoff::new(), stop));
    let passes = controller.run(
        |object: Arc<DeserializeGuard<C::Object>>, at_work| async move {
            let (driven, backoff, stop): &(Driven<C>, _, CancellationToken) = &at_work;
            tokio::select! {
                biased;
                () = driven.caches.clone() => {}
                // The watches that fill them have ended with it, so they would be awaited for ever.
                () = stop.cancelled() => return Ok(Action::await_change()),
            }
            driven.pass(&object, backoff).await
        },
        |object, error, at_work| {
            let (driven, backoff, _) = &*at_work;
            let wait = backoff.failed(driven.id(&object));
            Action::requeue(jittered(wait).min(error.retry_within()))
        },
        at_work,
    );
    tokio::select! {
        () = drain(name, passes) => {}
        // In an empty cluster there is no pass that would wait for the caches, and they would be awaited for ever.
        () = caches.then(|()| future::pending()) => {}
    }
}

impl<C: Reconcile> Driven<C> {
    fn id(&self, object: &DeserializeGuard<C::Object>) -> Id<C> {
        ObjectRef::from_obj_with(object, self.resource.clone())
    }

    /// Makes one pass, counts it and tells its error, once and here.
    async fn pass(
        &self,
        object: &DeserializeGuard<C::Object>,
        backoff: &Backoff<Id<C>>,
    ) -> Result<Action, ReconcileError> {
        let id = self.id(object);
        let begun = Instant::now();
        let result = match &object.0 {
            Ok(object) => self.controller.reconcile(&self.ctx, object).await,
            Err(unreadable) => self.leave_alone(&id, unreadable).await,
        };
        let reason = result.as_ref().err().map(ReconcileError::reason);
        self.ctx.metrics.reconciled(self.name, begun, reason);
        match &result {
            Ok(_) => backoff.succeeded(&id),
            Err(error) if error.is_conflict() => {
                tracing::debug!(controller = self.name, object = %id, "somebody else wrote, looking again");
            }
            Err(error) => tracing::warn!(
                controller = self.name,
                object = %id,
                reason = error.reason(),
                error = error as &dyn std::error::Error,
                "reconcile failed, trying again"
            ),
        }
        result
    }
}

impl<C: Reconcile> Driven<C> {
    /// Somebody stored an object that our types cannot hold: it harms no other, and our finalizer does not hold it.
    /// What it owns goes with it by garbage collection.
    async fn leave_alone(
        &self,
        id: &Id<C>,
        unreadable: &InvalidObject,
    ) -> Result<Action, ReconcileError> {
        tracing::warn!(controller = self.name, object = %id, error = %unreadable.error, "unreadable object left alone");
        let metadata = &unreadable.metadata;
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        let is_held = finalizers.iter().any(|name| name == C::FINALIZER);
        if metadata.deletion_timestamp.is_none() || !is_held {
            return Ok(Action::await_change());
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
        actor.set_metadata::<serde::de::IgnoredAny>(&patch).await?;
        Ok(Action::await_change())
    }
}

type Id<C> = ObjectRef<DeserializeGuard<<C as Reconcile>::Object>>;

/// Watches a kind into a cache, and returns the events too. `prune` drops what nobody reads before it is kept.
pub(crate) fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    dyntype: K::DynamicType,
    prune: impl FnMut(&mut K) + Send + 'static,
    broke: impl Fn(&watcher::Error) + Send + 'static,
) -> (
    Store<K>,
    impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug + Send + Sync + Unpin,
{
    let writer = Writer::new(dyntype);
    let reader = writer.as_reader();
    let stream = watcher(api, config)
        .backoff(watch_backoff())
        .modify(prune)
        .reflect(writer)
        .inspect_err(broke)
        // Told, and waited for here; to the controller an error would mean to hold back all of its other streams too.
        .filter(|event| future::ready(event.is_ok()));
    (reader, stream)
}

/// Tells whenever a watch has listed everything, as it does anew when it was broken for too long.
///
/// What went meanwhile shows in no event. What came shows in one before the cache has it: the pages of a list are told one by one,
/// and the cache changes with the last. So after each list everything has to be looked at, or both would be missed.
pub(crate) fn telling_lists<K, E>(
    events: impl Stream<Item = Result<watcher::Event<K>, E>> + Send + 'static,
    mut listed: mpsc::Sender<()>,
) -> impl Stream<Item = Result<watcher::Event<K>, E>> + Send + 'static
where
    K: 'static,
    E: 'static,
{
    events.inspect(move |event| {
        if matches!(event, Ok(watcher::Event::InitDone)) {
            // If it is full, this was told already and nobody has looked yet.
            let _ = listed.try_send(());
        }
    })
}

/// Takes what comes of the passes. Their own errors, and those of watches, were told where they arose.
async fn drain<K, S>(name: &'static str, passes: S)
where
    K: Resource,
    K::DynamicType: Debug,
    S: Stream<
        Item = Result<(ObjectRef<K>, Action), controller::Error<ReconcileError, watcher::Error>>,
    >,
{
    let mut passes = std::pin::pin!(passes);
    while let Some(done) = passes.next().await {
        match done {
            Ok(_)
            | Err(controller::Error::ReconcilerFailed(..) | controller::Error::QueueError(_)) => {}
            Err(controller::Error::ObjectNotFound(id)) => {
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

/// Spreads a wait over a tenth more, so that a thousand objects do not come back at once.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    let share = random % 1000;
    wait.saturating_add(wait.saturating_mul(u32::try_from(share).unwrap_or_default()) / 10_000)
}

#[cfg(test)]
mod tests;
