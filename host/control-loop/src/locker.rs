//! Who may handle an id, if several loops look after the same ones.

mod memory;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{BoxError, Ctx, Id};

pub use memory::MemoryLocker;

/// Lets one holder at a time handle an id, across loops and processes.
///
/// Within one loop the queue already sees to that, so a loop that shares its ids with nobody needs no more than the
/// [`MemoryLocker`] it has by default.
pub trait ObjectLocker<I: Id>: Send + Sync + 'static {
    /// Tries to take the lock of an id, without waiting for its holder.
    ///
    /// The loop drops this future when it shuts down or when it takes longer than
    /// [`get_timeout`](crate::Options::get_timeout). A lock that was taken by then must become free by itself.
    fn acquire<'a>(&'a self, ctx: &'a Ctx, id: &'a I) -> BoxFuture<'a, Result<Acquired, BoxError>>;
}

impl<I: Id, T: ObjectLocker<I> + ?Sized> ObjectLocker<I> for Arc<T> {
    fn acquire<'a>(&'a self, ctx: &'a Ctx, id: &'a I) -> BoxFuture<'a, Result<Acquired, BoxError>> {
        (**self).acquire(ctx, id)
    }
}

/// What became of an attempt to take a lock.
pub enum Acquired {
    /// It is ours until the guard is released.
    Held(Box<dyn Guard>),
    /// Somebody else has it. That is no failure: the id is tried again later.
    Busy {
        /// When to try again; a second by default.
        retry_after: Option<Duration>,
    },
}

/// A lock that is held.
///
/// Dropping it without [`release`](Self::release) happens when the whole loop is dropped. The lock must then become free by itself,
/// at once or when it expires.
pub trait Guard: Send + 'static {
    /// Gives the lock back. Called after the handler has ended or been dropped, and given up after five seconds.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>>;

    /// Gives the lock back for good, in place of [`release`](Self::release): the id is absent and was cleaned up, so nothing of it
    /// need be remembered.
    fn retire(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>> {
        self.release()
    }

    /// Is cancelled when the lock is lost before it was released: then somebody else may hold it soon, so the handler is cancelled
    /// and, four seconds later, dropped. By default it is never lost.
    fn lost(&self) -> CancellationToken {
        CancellationToken::new()
    }

    /// A number that grows with each holder, by which what is written to can refuse a holder that was too slow.
    fn fence(&self) -> Option<u64> {
        None
    }
}

/// Makes a locker of a closure.
///
/// ```
/// use podloom_control_loop::{Acquired, locker_fn};
///
/// let nobody = locker_fn(|_ctx, _id: u32| async { Ok(Acquired::Busy { retry_after: None }) });
/// # fn is_locker(_: impl podloom_control_loop::ObjectLocker<u32>) {}
/// # is_locker(nobody);
/// ```
pub fn locker_fn<I, A, Answer>(acquire: A) -> LockerFn<A>
where
    I: Id,
    A: Fn(Ctx, I) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Acquired, BoxError>> + Send + 'static,
{
    LockerFn { acquire }
}

/// What [`locker_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct LockerFn<A> {
    acquire: A,
}

impl<I, A, Answer> ObjectLocker<I> for LockerFn<A>
where
    I: Id,
    A: Fn(Ctx, I) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Acquired, BoxError>> + Send + 'static,
{
    fn acquire<'a>(&'a self, ctx: &'a Ctx, id: &'a I) -> BoxFuture<'a, Result<Acquired, BoxError>> {
        Box::pin((self.acquire)(ctx.clone(), id.clone()))
    }
}
