//! The phase in which the CloudEvent about a deletion is delivered.
//!
//! An attempt may take ten seconds, so it runs beside the passes: a pass begins it ([`Delivery::send`]), and the Cleaner is woken when it
//! ends. What came of it is then asked for ([`Delivery::attempt`]). Each sink gets an event at least once: an answer may be lost, and a
//! restarted operator sends the event again. All attempts have the same id.
//!
//! - `step` decides what comes next, by what the live spec says. Pure.
//! - `event` builds the event, and `client` sends it once, with the client of `outbound`.
//! - [`Board`] remembers the attempts and keeps them within bounds.
//!
//! No text of a sink ever gets into a status or a log: only the number of its answer, and our words.

mod client;
mod event;
#[cfg(test)]
mod fixtures;
mod step;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use podloom_engine::backoff::jittered;
use podloom_engine::clock::Clock;
use podloom_engine::plan::later;
use podloom_metrics::{Counted, Values};
use podloom_turns::lock;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

pub(super) use self::client::SinkSettings;
use self::client::{ATTEMPTS, ATTEMPTS_PER_NAMESPACE, Sent, SinkClient};
pub(super) use self::event::CloudEvent;
pub(super) use self::step::{DeliveryState, DeliveryStep, progress, step};
use crate::memory::CleanerId;

/// How long to wait if too many of our requests run.
const BUSY: Duration = Duration::from_secs(2);

/// All attempts of the process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Delivery {
    board: Arc<Mutex<Board>>,
    jobs: mpsc::Sender<Job>,
}

/// An attempt to make: of which Cleaner, at which sink, with which event.
type Job = (CleanerId, String, CloudEvent);

/// What an attempt needs. Cheap to clone.
#[derive(Clone)]
struct Sender {
    client: Arc<SinkClient>,
    board: Arc<Mutex<Board>>,
    clock: Clock,
    metrics: DeliveryMetrics,
    wake: Wake,
}

/// Wakes a Cleaner.
pub(super) type Wake = Arc<dyn Fn(&CleanerId) + Send + Sync>;

impl Delivery {
    /// Returns it and its work, which runs until all clones are dropped. Dropping the work ends all attempts.
    pub(super) fn start(
        settings: &SinkSettings,
        clock: Clock,
        metrics: DeliveryMetrics,
        wake: Wake,
    ) -> (Self, BoxFuture<'static, ()>) {
        Self::start_with(SinkClient::new(settings), clock, metrics, wake)
    }

    fn start_with(
        client: SinkClient,
        clock: Clock,
        metrics: DeliveryMetrics,
        wake: Wake,
    ) -> (Self, BoxFuture<'static, ()>) {
        let board = Board::new(ATTEMPTS.into(), ATTEMPTS_PER_NAMESPACE.into());
        let board = Arc::new(Mutex::new(board));
        // The board lets in no more than that.
        let (jobs, queue) = mpsc::channel(ATTEMPTS.into());
        let sender = Sender {
            client: Arc::new(client),
            board: Arc::clone(&board),
            clock,
            metrics,
            wake,
        };
        (Self { board, jobs }, sender.run(queue).boxed())
    }

    /// Begins an attempt, unless one of this Cleaner runs. Returns the one that runs now; none if there is no room. The Cleaner is woken
    /// when it has ended, or when there may be room.
    pub(super) fn send(
        &self,
        id: &CleanerId,
        attempt: &Attempt,
        event: CloudEvent,
    ) -> Option<Attempt> {
        let (is_new, running) = lock(&self.board).begin(id, attempt);
        let job = (id.clone(), attempt.sink.clone(), event);
        if is_new && self.jobs.try_send(job).is_err() {
            // Attempts of Cleaners that were forgotten still run, or the process stops.
            lock(&self.board).withdraw(&id.uid);
            return None;
        }
        running
    }

    /// Returns the attempt of a Cleaner that runs, or the last one of this process.
    pub(super) fn attempt(&self, uid: &str) -> Option<Attempt> {
        lock(&self.board).attempt(uid)
    }

    /// Forgets a Cleaner that is gone.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.board).forget(uid);
    }
}

impl Sender {
    async fn run(self, mut queue: mpsc::Receiver<Job>) {
        let mut attempts = JoinSet::new();
        loop {
            tokio::select! {
                job = queue.recv() => match job {
                    Some(job) => drop(attempts.spawn(self.clone().attempt(job))),
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

    async fn attempt(self, (id, sink, event): Job) {
        let now = || self.clock.now();
        let sent = self.client.send(&id.namespace, &sink, event, now).await;
        match &sent {
            Sent::Accepted => self.metrics.count(Delivered::Accepted, 1),
            Sent::Failed { .. } => self.metrics.count(Delivered::Failed, 1),
            Sent::Busy => {}
        }
        let ended = |attempt: Attempt| self.ended(attempt, sent);
        let woken = lock(&self.board).end(&id, ended);
        woken.iter().for_each(|id| (self.wake)(id));
    }

    fn ended(&self, attempt: Attempt, sent: Sent) -> Attempt {
        let now = self.clock.now();
        let pause = |wait| now..later(now, jittered(wait));
        let (failures, state) = match sent {
            Sent::Accepted => (0, AttemptState::Accepted),
            Sent::Busy => (attempt.failures, AttemptState::Postponed(pause(BUSY))),
            Sent::Failed {
                message,
                retry_after,
            } => {
                let failures = attempt.failures.saturating_add(1);
                let pause = pause(wait(failures, retry_after));
                (failures, AttemptState::Failed(message, pause))
            }
        };
        Attempt {
            failures,
            state,
            ..attempt
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}

/// Which attempts run, what came of the last one of each Cleaner, and who waits for room. A state machine without I/O.
struct Board {
    /// How many attempts may run in all.
    attempts: usize,
    /// How many of them may be of Cleaners of one namespace.
    per_namespace: usize,
    /// Those that run and their namespaces, by the UID of the Cleaner: at most one of each.
    running: HashMap<Arc<str>, (Arc<str>, Attempt)>,
    /// Those that have ended, by UID.
    ended: HashMap<Arc<str>, Attempt>,
    /// Cleaners that found no room, the first one first; each once.
    waiting: VecDeque<CleanerId>,
}

impl Board {
    fn new(attempts: usize, per_namespace: usize) -> Self {
        Self {
            attempts,
            per_namespace,
            running: HashMap::new(),
            ended: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Notes that an attempt begins, if none runs and there is room. Returns whether it is to be made, and the one that runs now; none if
    /// there is no room.
    fn begin(&mut self, id: &CleanerId, attempt: &Attempt) -> (bool, Option<Attempt>) {
        if let Some((_, running)) = self.running.get(&id.uid) {
            return (false, Some(running.clone()));
        }
        if !self.has_room(&id.namespace) {
            if !self.waiting.contains(id) {
                self.waiting.push_back(id.clone());
            }
            return (false, None);
        }
        self.waiting.retain(|waiting| waiting != id);
        let attempt = Attempt {
            state: AttemptState::Running,
            ..attempt.clone()
        };
        let running = (Arc::clone(&id.namespace), attempt.clone());
        self.running.insert(Arc::clone(&id.uid), running);
        (true, Some(attempt))
    }

    /// Notes what came of an attempt, unless the Cleaner was forgotten. Returns who is woken: that Cleaner, and the first one that waits
    /// and has room now.
    fn end(&mut self, id: &CleanerId, ended: impl FnOnce(Attempt) -> Attempt) -> Vec<CleanerId> {
        let mut woken = Vec::new();
        if let Some((_, attempt)) = self.running.remove(&id.uid) {
            self.ended.insert(Arc::clone(&id.uid), ended(attempt));
            woken.push(id.clone());
        }
        let mut waiting = self.waiting.iter();
        let next = waiting.position(|waiting| self.has_room(&waiting.namespace));
        woken.extend(next.and_then(|next| self.waiting.remove(next)));
        woken
    }

    /// Takes back that an attempt has begun: it was not made.
    fn withdraw(&mut self, uid: &str) {
        self.running.remove(uid);
    }

    /// Returns the attempt that runs, or the last one that has ended.
    fn attempt(&self, uid: &str) -> Option<Attempt> {
        let running = self.running.get(uid).map(|(_, attempt)| attempt);
        running.or_else(|| self.ended.get(uid)).cloned()
    }

    /// Forgets a Cleaner that is gone. What comes of an attempt that runs does not matter any more.
    fn forget(&mut self, uid: &str) {
        self.running.remove(uid);
        self.ended.remove(uid);
        self.waiting.retain(|waiting| &*waiting.uid != uid);
    }

    fn has_room(&self, namespace: &str) -> bool {
        let of_it = self.running.values().filter(|(it, _)| &**it == namespace);
        self.running.len() < self.attempts && of_it.count() < self.per_namespace
    }
}

/// How long to wait after the first failure.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// How long to wait at most, whatever the sink says.
const WAIT_LONGEST: Duration = Duration::from_mins(5);

/// An attempt to deliver the event of a Cleaner, as the process remembers it. After a restart, nothing of it is needed: the event is sent
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Attempt {
    /// Which one it is of this event; the first has 1.
    pub(crate) number: i32,
    /// Where the event goes.
    pub(crate) sink: String,
    /// How many attempts at this sink have failed in a row.
    pub(crate) failures: u32,
    /// What came of it.
    #[serde(skip)]
    pub(crate) state: AttemptState,
}

/// What came of an attempt. A failure and what postpones an attempt have a time without attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptState {
    /// It runs, or is to be made.
    Running,
    /// The sink accepted the event.
    Accepted,
    /// It failed. The message is for the status: in our words, nothing of it is from the sink.
    Failed(String, Range<Timestamp>),
    /// It never began, since too many of our requests run. This says nothing about the sink.
    Postponed(Range<Timestamp>),
}

impl AttemptState {
    /// Returns until when there is no other attempt, if not at once. A clock that was put back ends the pause too.
    fn pause(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Running | Self::Accepted => None,
            Self::Failed(_, pause) | Self::Postponed(pause) => {
                pause.contains(&now).then_some(pause.end)
            }
        }
    }
}

/// Returns how long to wait after this number of failures in a row: twice as long each time, and not less than the sink wants.
fn wait(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1);
    let doubled = WAIT_FIRST.saturating_mul(2_u32.saturating_pow(doublings));
    let wanted = retry_after.unwrap_or_default();
    doubled.max(wanted).min(WAIT_LONGEST)
}

/// Attempts to deliver CloudEvents by what came of them; cheap to clone.
pub(crate) type DeliveryMetrics = Counted<Delivered>;

/// What came of an attempt, or of a whole delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The sink accepted the event.
    Accepted,
    /// The attempt failed.
    Failed,
    /// The deadline passed, and no other attempt is made.
    GivenUp,
}

impl Values for Delivered {
    const LABEL: &'static str = "outcome";
    const ALL: &'static [Self] = &[Self::Accepted, Self::Failed, Self::GivenUp];

    fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        }
    }
}

#[cfg(test)]
mod tests;
