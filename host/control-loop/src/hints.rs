//! Hints from outside the source.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::Id;

/// Pushes ids into a loop: "handle this id". For code that learns of changes but is not a stream that a [`Source`](crate::Source) could
/// watch: a request handler, another loop, a test.
///
/// Clones push into the same loop. Take one from [`ControlLoop::hints`](crate::ControlLoop::hints) before the loop runs. Ids that are
/// pushed before are handled when it starts.
///
/// ```
/// use podloom_control_loop::{ControlLoop, Next, handler_fn, source_fn, storage_fn};
/// use tokio::sync::mpsc;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (handled, mut seen) = mpsc::channel(10);
/// let numbers = ControlLoop::new(
///     "numbers",
///     source_fn(|_ctx| async { Ok(vec![]) }),
///     storage_fn(|_ctx, id: u32| async move { Ok(Some(id)) }),
///     handler_fn(move |_ctx, id, _object: Option<u32>| {
///         let handled = handled.clone();
///         async move {
///             handled.send(id).await?;
///             Ok(Next::Settled)
///         }
///     }),
/// );
/// let hints = numbers.hints.clone();
///
/// let stop = tokio_util::sync::CancellationToken::new();
/// let running = tokio::spawn(numbers.run(stop.clone()));
/// hints.push(7);
/// assert_eq!(seen.recv().await, Some(7));
/// stop.cancel();
/// running.await.unwrap();
/// # }
/// ```
pub struct Hints<I>(Arc<Shared<I>>);

struct Shared<I> {
    /// None once the loop has ended.
    pending: Mutex<Option<Pending<I>>>,
    pushed: Notify,
}

/// The ids in their order, and as a set. Each is there once, so the size is bounded by the number of ids, like the queue's.
type Pending<I> = (Vec<I>, HashSet<I>);

impl<I: Id> Hints<I> {
    /// Asks for an id to be handled, at once if a worker is free.
    ///
    /// Never waits. An id that is pending already is not pushed twice. After the loop has ended it does nothing.
    pub fn push(&self, id: I) {
        let is_new = self.change(|pending| {
            let Some((order, known)) = pending else {
                return false;
            };
            let is_new = known.insert(id.clone());
            if is_new {
                order.push(id);
            }
            is_new
        });
        if is_new {
            self.0.pushed.notify_one();
        }
    }

    /// Waits until an id may have been pushed since the last call.
    pub(crate) async fn pushed(&self) {
        self.0.pushed.notified().await;
    }

    /// Takes the pending ids, in order.
    pub(crate) fn take(&self) -> Vec<I> {
        let taken = self.change(|pending| {
            let (order, known) = pending.as_mut()?;
            known.clear();
            Some(std::mem::take(order))
        });
        taken.unwrap_or_default()
    }
}

impl<I> Hints<I> {
    /// Drops pending ids, and ignores all later ones.
    pub(crate) fn close(&self) {
        self.change(|pending| *pending = None);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Option<Pending<I>>) -> T) -> T {
        let pending = self.0.pending.lock();
        change(&mut pending.unwrap_or_else(PoisonError::into_inner))
    }
}

impl<I> Clone for Hints<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I> Default for Hints<I> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            pending: Mutex::new(Some((Vec::new(), HashSet::new()))),
            pushed: Notify::new(),
        }))
    }
}

impl<I> fmt::Debug for Hints<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hints").finish_non_exhaustive()
    }
}
