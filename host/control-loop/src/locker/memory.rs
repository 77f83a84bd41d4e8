//! Locks within one process.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{self, BoxFuture};

use super::{Acquired, Guard, ObjectLocker};
use crate::{BoxError, Ctx, Id};

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
