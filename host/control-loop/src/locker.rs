//! Locks, for several loops that handle the same ids.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use tokio_util::sync::CancellationToken;

use crate::{BoxError, Ctx, Id};

/// Lets only one holder at a time handle an id, across loops and processes.
///
/// Within one loop the queue guarantees that already, so a loop that does not share its ids needs only its default
/// [`MemoryLocker`].
pub trait ObjectLocker<I: Id>: Send + Sync + 'static {
    /// Tries to take the lock of an id, without waiting for its holder.
    ///
    /// The loop drops this future when it shuts down or when it takes longer than
    /// [`get_timeout`](crate::Options::get_timeout). A lock that was taken before that must become free by itself.
    fn acquire<'a>(&'a self, ctx: &'a Ctx, id: &'a I) -> BoxFuture<'a, Result<Acquired, BoxError>>;
}

impl<I: Id, T: ObjectLocker<I> + ?Sized> ObjectLocker<I> for Arc<T> {
    fn acquire<'a>(&'a self, ctx: &'a Ctx, id: &'a I) -> BoxFuture<'a, Result<Acquired, BoxError>> {
        (**self).acquire(ctx, id)
    }
}

/// The result of an attempt to take a lock.
pub enum Acquired {
    /// This loop holds it until it releases the guard.
    Held(Box<dyn Guard>),
    /// Another holder has it. That is not a failure: the id is tried again later.
    Busy {
        /// When to try again; a second by default.
        retry_after: Option<Duration>,
    },
}

/// A held lock.
///
/// Dropping it without [`release`](Self::release) happens when the whole loop is dropped. The lock must then become free by itself,
/// at once or when it expires.
pub trait Guard: Send + 'static {
    /// Releases the lock. Called after the handler has ended or was dropped. The future is dropped after five seconds.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>>;

    /// Releases the lock for good, instead of [`release`](Self::release): the id is absent and cleaned up, so the locker may forget
    /// it.
    fn retire(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>> {
        self.release()
    }

    /// A token that is cancelled when the lock is lost before its release. Another holder may take it soon, so the handler is
    /// cancelled and, four seconds later, dropped. By default a lock is never lost.
    fn lost(&self) -> CancellationToken {
        CancellationToken::new()
    }

    /// A number that grows with each holder. With it, the system that is written to can reject a holder that was too slow.
    fn fence(&self) -> Option<u64> {
        None
    }
}

/// Makes a closure a locker.
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

/// Locks ids among the loops of one process that share it. Clones share the locks.
///
/// A lock is free again when its guard is dropped, for whatever reason.
#[derive(Debug)]
pub struct MemoryLocker<I>(Arc<Mutex<HashSet<I>>>);

impl<I> Clone for MemoryLocker<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I> Default for MemoryLocker<I> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<I: Id> MemoryLocker<I> {
    fn change<T>(&self, change: impl FnOnce(&mut HashSet<I>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<I: Id> ObjectLocker<I> for MemoryLocker<I> {
    fn acquire<'a>(&'a self, _: &'a Ctx, id: &'a I) -> BoxFuture<'a, Result<Acquired, BoxError>> {
        let acquired = if self.change(|held| held.insert(id.clone())) {
            Acquired::Held(Box::new(Held {
                locker: self.clone(),
                id: id.clone(),
            }))
        } else {
            Acquired::Busy { retry_after: None }
        };
        future::ready(Ok(acquired)).boxed()
    }
}

struct Held<I: Id> {
    locker: MemoryLocker<I>,
    id: I,
}

impl<I: Id> Drop for Held<I> {
    fn drop(&mut self) {
        self.locker.change(|held| held.remove(&self.id));
    }
}

impl<I: Id> Guard for Held<I> {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), BoxError>> {
        drop(self);
        future::ready(Ok(())).boxed()
    }
}
