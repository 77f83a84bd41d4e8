//! A few turns at something that many tenants share, such as the plugin chain: none of them can keep the others out.
//!
//! A tenant is in a group. The API server's calls are one group, and the namespaces that it speaks for are the tenants in it; another
//! caller can invent as many namespaces as it likes, and stays one group. What has no groups uses `()`.
//!
//! [`Turns`] is the queue: take a turn, do the work, drop the turn. The rules are in `line.rs`, which is pure. [`Rate`] is for what nobody
//! waits for: what is too much is left out. [`Lines`] does so with lines in the log. [`lock`] is the turn of a moment, at a value in memory:
//! it is here because each room that shares such a value may use this crate.

mod line;
mod lines;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::line::{Asked, Line};

pub use self::lines::{Cause, Lines, Passage, Rate};

/// How much there is to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many turns are taken at the same time, at least one.
    pub turns: usize,
    /// How many of them are free for a group that has none, whatever the other groups want. Fewer than `turns`.
    pub kept: usize,
    /// How many may wait, and half as many of one tenant.
    pub waiting: usize,
}

impl Limits {
    /// So many turns for a tenant that is alone, as many again for other tenants, and one for another group.
    ///
    /// More work than there are processors goes on at once only while several tenants want it; the machine then divides its time.
    #[must_use]
    pub fn for_each(tenant: usize, waiting: usize) -> Self {
        Self {
            turns: tenant.saturating_mul(2).saturating_add(1),
            kept: 1,
            waiting,
        }
    }
}

/// Hands out turns. Cheap to clone; all clones share the turns.
pub struct Turns<G: Key, T: Key>(Arc<Mutex<Shared<G, T>>>);

type Shared<G, T> = Line<G, T, oneshot::Sender<Turn<G, T>>>;

/// The right to work; it is over when this is dropped. Its length is charged to its tenant.
pub struct Turn<G: Key, T: Key> {
    turns: Turns<G, T>,
    key: (G, T),
    began: Instant,
}

/// Too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many wait already")]
pub struct Full;

/// What names a group or a tenant.
pub trait Key: Eq + Hash + Clone {}

impl<K: Eq + Hash + Clone> Key for K {}

/// Locks a value, also if a thread panicked while it held the lock: one bad pass must not stop the next ones.
pub fn lock<T: ?Sized>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<G: Key, T: Key> Turns<G, T> {
    /// All turns are free.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Line::new(limits))))
    }

    /// Waits for a turn. Whoever stops waiting drops the future, for example with a timeout.
    ///
    /// # Errors
    /// If too many wait, and no tenant has more waiting than this one.
    pub async fn take(&self, group: G, tenant: T) -> Result<Turn<G, T>, Full> {
        let ((sender, granted), key) = (oneshot::channel(), (group, tenant));
        let now = Instant::now().into_std();
        let asked = self.line().ask(&key, sender, now);
        match asked {
            Asked::Granted => Ok(self.turn(key)),
            Asked::Refused => Err(Full),
            Asked::Waits(number) => {
                let turns = self;
                let _place = Place { turns, key, number };
                // All others that wait may have as many turns as they can.
                self.pass_on();
                // One that waits may have to leave for one of a tenant with fewer.
                granted.await.map_err(|_| Full)
            }
        }
    }

    fn turn(&self, key: (G, T)) -> Turn<G, T> {
        Turn {
            turns: self.clone(),
            key,
            began: Instant::now(),
        }
    }

    /// Gives free turns to those who wait.
    fn pass_on(&self) {
        loop {
            let next = self.line().next();
            let Some((key, sender)) = next else {
                return;
            };
            // If nobody waits there any more, the turn comes back and goes to the next.
            drop(sender.send(self.turn(key)));
        }
    }

    fn line(&self) -> MutexGuard<'_, Shared<G, T>> {
        lock(&self.0)
    }
}

impl<G: Key, T: Key> Clone for Turns<G, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<G: Key, T: Key> fmt::Debug for Turns<G, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

impl<G: Key, T: Key> fmt::Debug for Turn<G, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl<G: Key, T: Key> Drop for Turn<G, T> {
    fn drop(&mut self) {
        let now = Instant::now();
        let spent = now.saturating_duration_since(self.began);
        self.turns.line().end(&self.key, spent, now.into_std());
        self.turns.pass_on();
    }
}

/// A place in the queue, which is given up when this is dropped.
struct Place<'a, G: Key, T: Key> {
    turns: &'a Turns<G, T>,
    key: (G, T),
    number: u64,
}

impl<G: Key, T: Key> Drop for Place<'_, G, T> {
    fn drop(&mut self) {
        self.turns.line().leave(&self.key, self.number);
    }
}

#[cfg(test)]
mod tests;
