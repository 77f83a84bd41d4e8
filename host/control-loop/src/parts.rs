//! The source: lists and watches ids.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::stream::{self, BoxStream};

use crate::{BoxError, Ctx, Id};

/// What [`Source::watch`] returns: an endless stream of hints.
pub type HintStream<I> = BoxStream<'static, Result<I, BoxError>>;

/// Provides the ids that a loop handles.
///
/// The loop opens the watch first and lists after that, so no change is missed in between.
pub trait Source<I: Id>: Send + Sync + 'static {
    /// Lists every id to handle.
    ///
    /// Called at the start, each time the watch was opened, and at every resync; never twice at once.
    /// A missing id is not deleted: only [`Storage`](crate::Storage) decides what exists. So an incomplete list does no harm, but an
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
