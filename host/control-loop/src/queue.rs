//! The queue: decides which id is handled when. A state machine without I/O; every call passes the current time.
//!
//! It has one entry for each id, however many hints come, so its memory is bounded by the number of ids. The tables that it
//! implements are in the documentation of the crate.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::Id;

/// How long an id waits for a busy lock, if the locker names no time.
const BUSY: Duration = Duration::from_secs(1);
/// Longer than any process lives, and short enough that no clock overflows.
pub(crate) const FAR: Duration = Duration::from_hours(24 * 365 * 30);
/// The resolution of timers. A shorter pause would be none.
pub(crate) const LEAST: Duration = Duration::from_millis(1);

/// Why an id should be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It may have changed. A hint is never lost: if it comes during a run, another run follows.
    Hint,
    /// All ids are due. If the id is running, no other run follows; if it waits after a failure, it is not handled earlier.
    Resync,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Settled,
    After(Duration),
    Failed,
    Busy(Option<Duration>),
}

/// The state of an id after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Absent from the queue until its next hint or resync.
    Gone,
    /// The same, because it failed too often.
    Dropped,
    /// Ready again.
    Ready,
    /// Ready after this time.
    Delayed(Duration),
}

/// An id to be handled now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Popped<I> {
    pub(crate) id: I,
    /// 1, plus 1 for each failure since the last success.
    pub(crate) attempt: u32,
    /// How long it was ready.
    pub(crate) waited: Duration,
}

/// The ids that are ready, running or delayed. Any other id is absent: there is nothing to do for it.
#[derive(Debug)]
pub(crate) struct Queue<I> {
    entries: HashMap<I, Entry>,
    /// The ids in the state Ready, in the order in which they became ready.
    ready: VecDeque<I>,
    /// The ids in the state Delayed, by ticket.
    delayed: BTreeMap<Ticket, I>,
    tickets: u64,
    became_ready: u64,
    backoff: Backoff,
    max_retries: Option<u32>,
}

/// When a delayed id becomes ready. The number makes it unique, and orders ids that are due at the same time.
type Ticket = (Instant, u64);

#[derive(Debug)]
struct Entry {
    state: EntryState,
    /// Failures in a row. Reset by a success, or when the id is dropped.
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
enum EntryState {
    Ready { since: Instant },
    Running { dirty: bool },
    Delayed(Ticket, Delay),
}

#[derive(Clone, Copy, Debug)]
enum Delay {
    After,
    /// Counted from the end of the failed run.
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
            MapEntry::Occupied(entry) => entry.into_mut(),
            MapEntry::Vacant(slot) => {
                slot.insert(Entry {
                    state: EntryState::Ready { since: now },
                    failures: 0,
                });
                return self.join(id);
            }
        };
        match (entry.state, reason) {
            (EntryState::Running { .. }, Reason::Hint) => {
                entry.state = EntryState::Running { dirty: true };
            }
            (EntryState::Delayed(ticket, Delay::After), _) => {
                entry.state = EntryState::Ready { since: now };
                self.delayed.remove(&ticket);
                self.join(id);
            }
            (EntryState::Delayed(ticket, by @ Delay::Backoff { since }), Reason::Hint) => {
                let earliest = now.max(since + self.backoff.base());
                if earliest < ticket.0 {
                    self.delayed.remove(&ticket);
                    self.delay(id, earliest, by);
                    self.advance(now);
                }
            }
            (EntryState::Ready { .. } | EntryState::Delayed(_, Delay::Busy), _)
            | (
                EntryState::Running { .. } | EntryState::Delayed(_, Delay::Backoff { .. }),
                Reason::Resync,
            ) => {}
        }
    }

    /// Takes the id that has been ready longest. It is running, and not returned again, until [`done`](Self::done) is called for it.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Popped<I>> {
        self.advance(now);
        let id = self.ready.pop_front()?;
        let entry = self.entries.get_mut(&id)?;
        let EntryState::Ready { since } = entry.state else {
            return None;
        };
        entry.state = EntryState::Running { dirty: false };
        Some(Popped {
            attempt: entry.failures.saturating_add(1),
            waited: now.saturating_duration_since(since),
            id,
        })
    }

    /// Ends the run of an id.
    pub(crate) fn done(&mut self, id: &I, ended: Ended, now: Instant) -> Fate {
        self.advance(now);
        let Some(entry) = self.entries.get_mut(id) else {
            return Fate::Gone;
        };
        let EntryState::Running { dirty } = entry.state else {
            return Fate::Gone;
        };
        let (pause, by) = match ended {
            Ended::Settled | Ended::After(_) if dirty => {
                *entry = Entry {
                    state: EntryState::Ready { since: now },
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
        // Without any pause a worker would spin.
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

    /// How many times an id became ready since the last call.
    pub(crate) fn take_became_ready(&mut self) -> u64 {
        std::mem::take(&mut self.became_ready)
    }

    /// Makes due ids ready. Every other method does this first, so that ids become ready in the order in which they were due.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(due) = self.delayed.first_entry()
            && due.key().0 <= now
        {
            let ((since, _), id) = due.remove_entry();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.state = EntryState::Ready { since };
                self.join(id);
            }
        }
    }

    /// Puts an id in the state Ready at the end of the queue.
    fn join(&mut self, id: I) {
        self.became_ready += 1;
        self.ready.push_back(id);
    }

    fn delay(&mut self, id: I, due: Instant, by: Delay) {
        self.tickets += 1;
        let ticket = (due, self.tickets);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = EntryState::Delayed(ticket, by);
            self.delayed.insert(ticket, id);
        }
    }
}

/// A pause that doubles with each failure up to a cap. Jitter shortens it by up to a fifth, so that ids that failed together are not
/// retried together.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    random: fastrand::Rng,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration, random: fastrand::Rng) -> Self {
        let base = base.clamp(LEAST, FAR);
        Self {
            base,
            cap: cap.clamp(LEAST, FAR),
            random,
        }
    }

    /// The shortest pause after a failed run.
    pub(crate) fn base(&self) -> Duration {
        self.base.min(self.cap)
    }

    /// The pause after so many failures in a row.
    pub(crate) fn pause(&mut self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let most = self.base.saturating_mul(doubled).min(self.cap);
        most.mul_f64(0.8 + 0.2 * self.random.f64()).min(most)
    }
}

#[cfg(test)]
mod tests;
