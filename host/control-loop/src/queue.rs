//! Which id is handled when: a state machine without I/O, to which every call tells the time.
//!
//! It holds one entry for each id, however many hints come, so its memory is bounded by the number of ids. The tables that it
//! follows are in the documentation of the crate.

mod backoff;

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use backoff::{Backoff, FAR, LEAST};

use crate::Id;

/// How long an id waits whose lock is busy, if the locker does not say.
const BUSY: Duration = Duration::from_secs(1);

/// Why an id should be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody says that it changed. A hint is never lost: a run that has begun when it comes is followed by another.
    Hint,
    /// It is time to look at all ids. That need not follow a run that goes on, nor hurry one that waits after a failure.
    Resync,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Settled,
    After(Duration),
    Failed,
    Busy(Option<Duration>),
}

/// What becomes of an id after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is forgotten until its next hint or resync.
    Gone,
    /// Likewise, but it failed too often.
    Dropped,
    /// It is ready again.
    Ready,
    /// It will be ready after this time.
    Delayed(Duration),
}

/// An id to be handled now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Popped<I> {
    pub(crate) id: I,
    /// One more than it failed since its last success.
    pub(crate) attempt: u32,
    /// How long it was ready.
    pub(crate) waited: Duration,
}

/// The ids that wait or run. An id that is in none of its states is absent: nothing is to be done about it.
#[derive(Debug)]
pub(crate) struct Queue<I> {
    entries: HashMap<I, Entry>,
    /// Each id whose state is Ready, once, in the order in which they became so.
    ready: VecDeque<I>,
    /// Each id whose state is Delayed, once, by its ticket.
    delayed: BTreeMap<Ticket, I>,
    tickets: u64,
    became_ready: u64,
    backoff: Backoff,
    max_retries: Option<u32>,
}

/// When a delayed id becomes ready; the number makes it unique, and keeps ids that are due at the same time in order.
type Ticket = (Instant, u64);

#[derive(Debug)]
struct Entry {
    state: State,
    /// Failures in a row. Only success resets them, or giving up.
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Ready { since: Instant },
    Running { dirty: bool },
    Delayed(Ticket, Delay),
}

#[derive(Clone, Copy, Debug)]
enum Delay {
    After,
    /// Since the end of the run that failed.
    Backoff {
        since: Instant,
    },
    Busy,
}

impl<I: Id> Queue<I> {
    pub(crate) fn new(backoff: Backoff, max_retries: Option<u32>) -> Self {
        Self {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            delayed: BTreeMap::new(),
            tickets: 0,
            became_ready: 0,
            backoff,
            max_retries,
        }
    }

    /// Asks for an id to be handled.
    pub(crate) fn push(&mut self, id: I, reason: Reason, now: Instant) {
        self.advance(now);
        let entry = match self.entries.entry(id.clone()) {
            Slot::Occupied(entry) => entry.into_mut(),
            Slot::Vacant(slot) => {
                slot.insert(Entry {
                    state: State::Ready { since: now },
                    failures: 0,
                });
                return self.join(id);
            }
        };
        match (entry.state, reason) {
            (State::Running { .. }, Reason::Hint) => {
                entry.state = State::Running { dirty: true };
            }
            (State::Delayed(ticket, Delay::After), _) => {
                entry.state = State::Ready { since: now };
                self.delayed.remove(&ticket);
                self.join(id);
            }
            (State::Delayed(ticket, by @ Delay::Backoff { since }), Reason::Hint) => {
                let earliest = now.max(since + self.backoff.base());
                if earliest < ticket.0 {
                    self.delayed.remove(&ticket);
                    self.delay(id, earliest, by);
                    self.advance(now);
                }
            }
            (State::Ready { .. } | State::Delayed(_, Delay::Busy), _)
            | (State::Running { .. } | State::Delayed(_, Delay::Backoff { .. }), Reason::Resync) => {
            }
        }
    }

    /// Takes the id that has been ready longest. It runs until [`done`](Self::done) is called for it, and is not returned meanwhile.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Popped<I>> {
        self.advance(now);
        let id = self.ready.pop_front()?;
        let entry = self.entries.get_mut(&id)?;
        let State::Ready { since } = entry.state else {
            return None;
        };
        entry.state = State::Running { dirty: false };
        Some(Popped {
            attempt: entry.failures.saturating_add(1),
            waited: now.saturating_duration_since(since),
            id,
        })
    }

    /// Says how the run of an id ended.
    pub(crate) fn done(&mut self, id: &I, ended: Ended, now: Instant) -> Fate {
        self.advance(now);
        let Some(entry) = self.entries.get_mut(id) else {
            return Fate::Gone;
        };
        let State::Running { dirty } = entry.state else {
            return Fate::Gone;
        };
        let (pause, by) = match ended {
            Ended::Settled | Ended::After(_) if dirty => {
                *entry = Entry {
                    state: State::Ready { since: now },
                    failures: 0,
                };
                self.join(id.clone());
                return Fate::Ready;
            }
            Ended::Settled => {
                self.entries.remove(id);
                return Fate::Gone;
            }
            Ended::After(pause) => {
                entry.failures = 0;
                (pause, Delay::After)
            }
            Ended::Busy(pause) => (pause.unwrap_or(BUSY), Delay::Busy),
            Ended::Failed => {
                entry.failures = entry.failures.saturating_add(1);
                let spent = self.max_retries.is_some_and(|max| entry.failures > max);
                if spent && !dirty {
                    self.entries.remove(id);
                    return Fate::Dropped;
                }
                let pause = if dirty {
                    self.backoff.base()
                } else {
                    self.backoff.pause(entry.failures)
                };
                if spent {
                    entry.failures = 0;
                }
                (pause, Delay::Backoff { since: now })
            }
        };
        // No pause at all would keep a worker spinning.
        let pause = pause.clamp(LEAST, FAR);
        self.delay(id.clone(), now + pause, by);
        Fate::Delayed(pause)
    }

    /// When the next delayed id becomes ready.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.delayed.keys().next().map(|(due, _)| *due)
    }

    /// How many ids are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many ids are ready, delayed or running.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many times an id became ready since this was last asked.
    pub(crate) fn take_became_ready(&mut self) -> u64 {
        std::mem::take(&mut self.became_ready)
    }

    /// Makes ready what is due. Every call begins with it, so an id that was due first is ready first, whoever looks when.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(due) = self.delayed.first_entry()
            && due.key().0 <= now
        {
            let ((since, _), id) = due.remove_entry();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.state = State::Ready { since };
                self.join(id);
            }
        }
    }

    /// Puts an id, whose state is Ready, at the tail.
    fn join(&mut self, id: I) {
        self.became_ready += 1;
        self.ready.push_back(id);
    }

    fn delay(&mut self, id: I, due: Instant, by: Delay) {
        self.tickets += 1;
        let ticket = (due, self.tickets);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = State::Delayed(ticket, by);
            self.delayed.insert(ticket, id);
        }
    }
}

#[cfg(test)]
mod tests;
