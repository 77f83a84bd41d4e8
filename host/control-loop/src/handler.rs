//! The handler: acts on an id.

use std::sync::Arc;
use std::time::Duration;

use crate::{BoxError, Ctx, Id};

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
