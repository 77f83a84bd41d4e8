//! The phase in which the CloudEvent about a deletion is delivered.
//!
//! An attempt may take ten seconds, and in a pass it would hold up other deletions, a stop, and edits of its Cleaner. So it runs beside
//! the passes: a pass begins it ([`Delivery::send`]), and the Cleaner is woken when it ends. What came of it is then in `Memory`.
//! Each sink gets an event at least once: an answer may be lost, and a restarted operator sends the event again. All attempts have the
//! same id.
//!
//! - `step` decides what comes next, by what the live spec says. Pure.
//! - `event` builds the event, and `client` sends it once, with the client of `outbound`.
//! - [`Room`] keeps the attempts within bounds.
//!
//! No text of a sink ever gets into a status or a log: only the number of its answer, and our words.

mod client;
mod event;
#[cfg(test)]
mod fixtures;
mod step;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use podloom_engine::clock::Clock;
use podloom_engine::plan::later;
use podloom_turns::lock;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

pub(super) use self::client::SinkClient;
use self::client::{ATTEMPTS, ATTEMPTS_PER_NAMESPACE};
pub(super) use self::event::CloudEvent;
pub(super) use self::step::{DeliveryStep, progress, step};
use crate::memory::{Alarms, Attempt, AttemptState, CleanerId};
use crate::metrics::CleanerMetrics;

/// How long is waited for something that wakes the Cleaner. It is only for the case that the waking is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// All attempts of the process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Delivery {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

/// An attempt to make: of which Cleaner, and with which event.
type Job = (CleanerId, Attempt, CloudEvent);

/// What passes and attempts share.
struct Shared {
    room: Mutex<Room>,
    client: SinkClient,
    alarms: Alarms,
    clock: Clock,
    metrics: CleanerMetrics,
}

impl Delivery {
    /// Returns it and its work, which runs until all clones are dropped. Dropping the work ends all attempts.
    pub(super) fn start(
        client: SinkClient,
        alarms: Alarms,
        clock: Clock,
        metrics: CleanerMetrics,
    ) -> (Self, BoxFuture<'static, ()>) {
        // The room lets in no more than that.
        let (jobs, queue) = mpsc::channel(ATTEMPTS.into());
        let shared = Arc::new(Shared {
            room: Mutex::new(Room::new(ATTEMPTS, ATTEMPTS_PER_NAMESPACE)),
            client,
            alarms,
            clock,
            metrics,
        });
        let work = Arc::clone(&shared).run(queue).boxed();
        (Self { jobs, shared }, work)
    }

    /// Begins an attempt, unless one of this Cleaner runs. Returns the one that runs now. If there is no room, it is postponed. The
    /// Cleaner is woken when it has ended, or when there may be room.
    pub(super) fn send(&self, id: &CleanerId, attempt: &Attempt, event: CloudEvent) -> Attempt {
        let Shared { alarms, room, .. } = &*self.shared;
        let last = alarms.memory.recall(&id.uid, None).attempt;
        if let Some(running) = last.filter(|it| it.state == AttemptState::Running) {
            return running;
        }
        if !lock(room).enter(id) {
            let until = later(self.shared.clock.now(), PATIENCE);
            return Attempt {
                // A clock that is put back does not end the pause.
                state: AttemptState::Postponed(Timestamp::MIN..until),
                ..attempt.clone()
            };
        }
        alarms.memory.tried(&id.uid, attempt.clone());
        // This fails only if the process stops.
        let _ = self.jobs.try_send((id.clone(), attempt.clone(), event));
        attempt.clone()
    }
}

impl Shared {
    async fn run(self: Arc<Self>, mut queue: mpsc::Receiver<Job>) {
        let mut attempts = JoinSet::new();
        loop {
            tokio::select! {
                job = queue.recv() => match job {
                    Some(job) => drop(attempts.spawn(Arc::clone(&self).attempt(job))),
                    None => return,
                },
                Some(ended) = attempts.join_next() => {
                    if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
                        // Nobody would ever learn what came of this attempt.
                        resume_unwind(panic);
                    }
                }
            }
        }
    }

    async fn attempt(self: Arc<Self>, (id, attempt, event): Job) {
        let now = || self.clock.now();
        let ended = self.client.send(&id.namespace, attempt, event, now).await;
        let outcome = match &ended.state {
            AttemptState::Accepted => Some("delivered"),
            AttemptState::Failed(..) => Some("failed"),
            AttemptState::Running | AttemptState::Postponed(_) => None,
        };
        if let Some(outcome) = outcome {
            self.metrics.delivered.of([outcome]).inc();
        }
        let memory = &self.alarms.memory;
        memory.tried(&id.uid, ended);
        let is_known = |id: &CleanerId| memory.knows(&id.uid);
        let next = lock(&self.room).leave(&id.namespace, is_known);
        for id in [id].into_iter().filter(is_known).chain(next) {
            (self.alarms.wake)(&id);
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}

/// How many attempts run, and who waits for room. A state machine without I/O.
struct Room {
    /// How many attempts may run in all.
    attempts: u16,
    /// How many of them may be of Cleaners of one namespace.
    per_namespace: u16,
    /// How many run of each namespace.
    running: HashMap<Arc<str>, u16>,
    /// Cleaners that found no room, the first one first; each once.
    waiting: VecDeque<CleanerId>,
}

impl Room {
    fn new(attempts: u16, per_namespace: u16) -> Self {
        Self {
            attempts,
            per_namespace,
            running: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns whether there is room for an attempt of a Cleaner, which takes it; else it waits.
    fn enter(&mut self, id: &CleanerId) -> bool {
        if !self.is_free(&id.namespace) {
            if !self.waiting.contains(id) {
                self.waiting.push_back(id.clone());
            }
            return false;
        }
        self.waiting.retain(|waiting| waiting != id);
        *self.running.entry(Arc::clone(&id.namespace)).or_default() += 1;
        true
    }

    /// Frees the room of an attempt of this namespace. Returns the first one that waits and has room now; those that are gone do not
    /// wait any more.
    fn leave(
        &mut self,
        namespace: &str,
        is_known: impl Fn(&CleanerId) -> bool,
    ) -> Option<CleanerId> {
        if let Some(running) = self.running.get_mut(namespace) {
            *running = running.saturating_sub(1);
        }
        self.running.retain(|_, running| *running > 0);
        self.waiting.retain(is_known);
        let mut waiting = self.waiting.iter();
        let next = waiting.position(|waiting| self.is_free(&waiting.namespace))?;
        self.waiting.remove(next)
    }

    fn is_free(&self, namespace: &str) -> bool {
        let of_it = self.running.get(namespace).copied().unwrap_or_default();
        self.running.values().sum::<u16>() < self.attempts && of_it < self.per_namespace
    }
}

/// How long to wait after the first failure.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// How long to wait at most, whatever the sink says.
const WAIT_LONGEST: Duration = Duration::from_mins(5);

/// Returns how long to wait after this number of failures in a row: twice as long each time, and not less than the sink wants.
fn wait(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1);
    let doubled = WAIT_FIRST.saturating_mul(2_u32.saturating_pow(doublings));
    let wanted = retry_after.unwrap_or_default();
    doubled.max(wanted).min(WAIT_LONGEST)
}

#[cfg(test)]
mod tests;
