//! Where ids come from.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::stream::{self, BoxStream};

use crate::{BoxError, Ctx, Id};

/// What [`Source::watch`] returns: hints without end.
pub type HintStream<I> = BoxStream<'static, Result<I, BoxError>>;

/// Names the ids that a loop should look at.
///
/// The loop opens the watch first and lists then, so nothing falls between the two.
pub trait Source<I: Id>: Send + Sync + 'static {
    /// Lists every id that should be looked at.
    ///
    /// Called at the start, after each time that the watch was opened, and at every resync; never twice at once.
    /// An id that is missing is not deleted for that: [`Storage`](crate::Storage) decides what is there. So an incomplete list does
    /// no harm, but an error is better, since it is tried again sooner.
    ///
    /// What was deleted while the process was down is found only if the list also names the ids that the handler still owns
    /// something of.
    fn list(&self, ctx: &Ctx) -> impl Future<Output = Result<Vec<I>, BoxError>> + Send;

    /// Opens a stream of hints: "look at this id". They carry no kind and no object.
    ///
    /// A stream that ends or yields an error is opened anew after a pause, and a list follows. By default the stream never yields, so
    /// a source that is only polled has no more to write than [`list`](Self::list).
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

/// Makes a source that is only polled of a closure: `async |ctx| list of ids`.
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

/// Makes a source of two closures, the second of which opens the stream of hints.
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
    // Without it, the closure alone would not say of which ids it is a source.
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
