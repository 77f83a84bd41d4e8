//! The parts that every loop has: ids, their source, their storage and their handler; and the context of each call.

use std::fmt::Display;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::BoxError;

/// Identifies one thing that the loop handles: a path, a number, a UID.
///
/// Implemented for every suitable type. Ids are cloned often, so prefer `Arc<str>` to a long `String`.
/// `Display` is for the log; ids never become metric labels.
/// The implementations of these traits must not panic: they run in the loop itself, where panics are not caught.
pub trait Id: Clone + Eq + Hash + Display + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Display + Send + Sync + 'static> Id for T {}

/// The context of one call of a [`Source`], [`Storage`], [`Handler`] or
/// [`ObjectLocker`](crate::ObjectLocker).
///
/// Cheap to clone. The default is for calling a handler in a test: it never stops, and it is the first attempt.
///
/// The loop cancels the tokens but does not listen to them: if the called code cancels one, nothing else stops.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The loop is shutting down: finish soon, and start nothing long.
    pub stopping: CancellationToken,
    /// Stop now: the time is up, the lock is lost, or the drain is over. A call that continues is dropped a few seconds later, and
    /// whatever it still returns counts as a failure.
    pub cancel: CancellationToken,
    /// The number of this attempt: 1, plus 1 for each failure since the last success. Lists and watches have one too.
    pub attempt: u32,
    /// The fencing token of the held lock, larger than that of any earlier holder. None if the lock has none.
    pub fence: Option<u64>,
    /// The span of the call, for tasks that it spawns.
    pub span: Span,
}

impl Default for Ctx {
    fn default() -> Self {
        Self {
            stopping: CancellationToken::new(),
            cancel: CancellationToken::new(),
            attempt: 1,
            fence: None,
            span: Span::none(),
        }
    }
}

/// What [`Source::watch`] returns: an endless stream of hints.
pub type HintStream<I> = BoxStream<'static, Result<I, BoxError>>;

/// Provides the ids that a loop handles.
///
/// The loop opens the watch first and lists after that, so no change is missed in between.
pub trait Source<I: Id>: Send + Sync + 'static {
    /// Lists every id to handle.
    ///
    /// Called at the start, each time the watch was opened, and at every resync; never twice at once.
    /// A missing id is not deleted: only [`Storage`] decides what exists. So an incomplete list does no harm, but an
    /// error is better, since it is retried sooner.
    ///
    /// A delete while the process was down is found only if the list also contains the ids for which the handler still owns something.
    fn list(&self, ctx: &Ctx) -> impl Future<Output = Result<Vec<I>, BoxError>> + Send;

    /// Opens a stream of hints: "handle this id". A hint contains neither a kind of change nor an object.
    ///
    /// A stream that ends or yields an error is opened again after a pause, and a list follows. By default the stream never yields, so
    /// a polled source implements only [`list`](Self::list).
    fn watch(&self, ctx: &Ctx) -> impl Future<Output = Result<HintStream<I>, BoxError>> + Send {
        let _ = ctx;
        async { Ok(Box::pin(stream::pending()) as HintStream<I>) }
    }
}

impl<I: Id, T: Source<I>> Source<I> for Arc<T> {
    fn list(&self, ctx: &Ctx) -> impl Future<Output = Result<Vec<I>, BoxError>> + Send {
        (**self).list(ctx)
    }

    fn watch(&self, ctx: &Ctx) -> impl Future<Output = Result<HintStream<I>, BoxError>> + Send {
        (**self).watch(ctx)
    }
}

/// Makes a closure a polled source: `async |ctx| list of ids`.
///
/// ```
/// use podloom_control_loop::source_fn;
///
/// let source = source_fn(|_ctx| async { Ok(vec!["a", "b"]) });
/// # fn is_source(_: impl podloom_control_loop::Source<&'static str>) {}
/// # is_source(source);
/// ```
pub fn source_fn<I, L, Listed>(list: L) -> SourceFn<I, L>
where
    I: Id,
    L: Fn(Ctx) -> Listed + Send + Sync + 'static,
    Listed: Future<Output = Result<Vec<I>, BoxError>> + Send,
{
    SourceFn {
        list,
        id: PhantomData,
    }
}

/// Makes two closures a source. The second one opens the stream of hints.
///
/// ```
/// use futures::{StreamExt, stream};
/// use podloom_control_loop::watched_source_fn;
///
/// let source = watched_source_fn(
///     |_ctx| async { Ok(vec![1, 2]) },
///     |_ctx| async { Ok(stream::iter([Ok(2)]).chain(stream::pending()).boxed()) },
/// );
/// # fn is_source(_: impl podloom_control_loop::Source<i32>) {}
/// # is_source(source);
/// ```
pub fn watched_source_fn<I, L, Listed, W, Watched>(list: L, watch: W) -> WatchedSourceFn<I, L, W>
where
    I: Id,
    L: Fn(Ctx) -> Listed + Send + Sync + 'static,
    Listed: Future<Output = Result<Vec<I>, BoxError>> + Send,
    W: Fn(Ctx) -> Watched + Send + Sync + 'static,
    Watched: Future<Output = Result<HintStream<I>, BoxError>> + Send,
{
    WatchedSourceFn {
        list,
        watch,
        id: PhantomData,
    }
}

/// What [`source_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct SourceFn<I, L> {
    list: L,
    // The closure's type alone does not determine the type of the ids.
    id: PhantomData<fn() -> I>,
}

impl<I, L, Listed> Source<I> for SourceFn<I, L>
where
    I: Id,
    L: Fn(Ctx) -> Listed + Send + Sync + 'static,
    Listed: Future<Output = Result<Vec<I>, BoxError>> + Send,
{
    async fn list(&self, ctx: &Ctx) -> Result<Vec<I>, BoxError> {
        (self.list)(ctx.clone()).await
    }
}

/// What [`watched_source_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct WatchedSourceFn<I, L, W> {
    list: L,
    watch: W,
    id: PhantomData<fn() -> I>,
}

impl<I, L, Listed, W, Watched> Source<I> for WatchedSourceFn<I, L, W>
where
    I: Id,
    L: Fn(Ctx) -> Listed + Send + Sync + 'static,
    Listed: Future<Output = Result<Vec<I>, BoxError>> + Send,
    W: Fn(Ctx) -> Watched + Send + Sync + 'static,
    Watched: Future<Output = Result<HintStream<I>, BoxError>> + Send,
{
    async fn list(&self, ctx: &Ctx) -> Result<Vec<I>, BoxError> {
        (self.list)(ctx.clone()).await
    }

    async fn watch(&self, ctx: &Ctx) -> Result<HintStream<I>, BoxError> {
        (self.watch)(ctx.clone()).await
    }
}

/// Reads the object of an id.
pub trait Storage<I: Id>: Send + Sync + 'static {
    /// The type of the objects.
    type Object: Send + 'static;

    /// Reads the current object; `None` if it does not exist.
    ///
    /// It is called for every id just before the handler, and `None` makes the handler clean up. So if it is unknown whether the
    /// object exists, return an error, never `None`.
    fn get(
        &self,
        ctx: &Ctx,
        id: &I,
    ) -> impl Future<Output = Result<Option<Self::Object>, BoxError>> + Send;
}

impl<I: Id, T: Storage<I>> Storage<I> for Arc<T> {
    type Object = T::Object;

    fn get(
        &self,
        ctx: &Ctx,
        id: &I,
    ) -> impl Future<Output = Result<Option<Self::Object>, BoxError>> + Send {
        (**self).get(ctx, id)
    }
}

/// Makes a closure a storage.
///
/// ```
/// use podloom_control_loop::storage_fn;
///
/// let storage = storage_fn(|_ctx, id: u32| async move { Ok((id < 10).then(|| format!("object {id}"))) });
/// # fn is_storage(_: impl podloom_control_loop::Storage<u32, Object = String>) {}
/// # is_storage(storage);
/// ```
pub fn storage_fn<I, O, G, Got>(get: G) -> StorageFn<G>
where
    I: Id,
    O: Send + 'static,
    G: Fn(Ctx, I) -> Got + Send + Sync + 'static,
    Got: Future<Output = Result<Option<O>, BoxError>> + Send,
{
    StorageFn { get }
}

/// What [`storage_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct StorageFn<G> {
    get: G,
}

impl<I, O, G, Got> Storage<I> for StorageFn<G>
where
    I: Id,
    O: Send + 'static,
    G: Fn(Ctx, I) -> Got + Send + Sync + 'static,
    Got: Future<Output = Result<Option<O>, BoxError>> + Send,
{
    type Object = O;

    async fn get(&self, ctx: &Ctx, id: &I) -> Result<Option<O>, BoxError> {
        (self.get)(ctx.clone(), id.clone()).await
    }
}

/// Brings the actual state to the desired state of an object.
pub trait Handler<I: Id, O>: Send + Sync + 'static {
    /// Converges if there is an object, cleans up if there is none.
    ///
    /// Must be idempotent: it is called again after errors, at every resync, and for hints without a change. It is also called for
    /// absent ids that it has never seen.
    /// The loop never calls it twice at once for the same id, but for as many ids at once as there are workers.
    ///
    /// An error is retried after a growing pause. Report an error that a retry cannot fix, such as invalid input, where its author
    /// sees it, and return [`Settled`](Next::Settled).
    fn handle(
        &self,
        ctx: &Ctx,
        id: &I,
        object: Option<O>,
    ) -> impl Future<Output = Result<Next, BoxError>> + Send;
}

impl<I: Id, O, T: Handler<I, O>> Handler<I, O> for Arc<T> {
    fn handle(
        &self,
        ctx: &Ctx,
        id: &I,
        object: Option<O>,
    ) -> impl Future<Output = Result<Next, BoxError>> + Send {
        (**self).handle(ctx, id, object)
    }
}

/// When a handled id is handled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At the next hint or resync.
    Settled,
    /// After this time, or at the next hint or resync if that comes first.
    After(Duration),
}

/// Makes a closure a handler.
///
/// ```
/// use podloom_control_loop::{Next, handler_fn};
///
/// let handler = handler_fn(|_ctx, id: u32, object: Option<String>| async move {
///     match object {
///         Some(object) => println!("{id} is {object}"),
///         None => println!("{id} is gone"),
///     }
///     Ok(Next::Settled)
/// });
/// # fn is_handler(_: impl podloom_control_loop::Handler<u32, String>) {}
/// # is_handler(handler);
/// ```
pub fn handler_fn<I, O, H, Handled>(handle: H) -> HandlerFn<H>
where
    I: Id,
    H: Fn(Ctx, I, Option<O>) -> Handled + Send + Sync + 'static,
    Handled: Future<Output = Result<Next, BoxError>> + Send,
{
    HandlerFn { handle }
}

/// What [`handler_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct HandlerFn<H> {
    handle: H,
}

impl<I, O, H, Handled> Handler<I, O> for HandlerFn<H>
where
    I: Id,
    O: Send + 'static,
    H: Fn(Ctx, I, Option<O>) -> Handled + Send + Sync + 'static,
    Handled: Future<Output = Result<Next, BoxError>> + Send,
{
    async fn handle(&self, ctx: &Ctx, id: &I, object: Option<O>) -> Result<Next, BoxError> {
        (self.handle)(ctx.clone(), id.clone(), object).await
    }
}
