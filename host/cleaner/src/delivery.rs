//! The phase in which the CloudEvent about a deletion is delivered.
//!
//! An attempt may take ten seconds, so it runs beside the passes: a pass begins it ([`Delivery::send`]), and the Cleaner is woken when it
//! ends. What came of it is then asked for ([`Delivery::attempt`]). Each sink gets an event at least once: an answer may be lost, and a
//! restarted operator sends the event again. All attempts have the same id.
//!
//! - `terms` is what the live spec says, and `step` decides what comes next. Both are pure.
//! - `event` builds the event, and `client` sends it once, with the client of `outbound`. `retry_after` reads when the sink wants to be
//!   asked again.
//! - `board` remembers the attempts and keeps them within bounds, `attempt` is one of them, and `metrics` counts them.
//!
//! No text of a sink ever gets into a status or a log: only the number of its answer, and our words.

mod attempt;
mod board;
mod client;
mod event;
#[cfg(test)]
mod fixtures;
mod metrics;
mod retry_after;
mod step;
mod terms;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

pub(super) use self::attempt::{Attempt, AttemptState, Pause};
pub(super) use self::board::Begun;
pub(super) use self::client::SinkSettings;
pub(super) use self::event::CloudEvent;
pub(super) use self::metrics::{Delivered, DeliveryMetrics};
pub(super) use self::step::{DeliveryState, DeliveryStep, Shot, progress, step};
pub(super) use self::terms::{SinkSetting, Terms};

use self::attempt::wait;
use self::board::{Board, Room};
use self::client::{ATTEMPTS, ATTEMPTS_PER_NAMESPACE, Sent, SinkClient};
use super::who::CleanerId;
use podloom_engine::backoff::jittered;
use podloom_engine::clock::Clock;

/// How long to wait if too many of our requests run.
const BUSY: Duration = Duration::from_secs(2);

/// All attempts of the process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Delivery {
    board: Arc<Board>,
    jobs: mpsc::Sender<Job>,
}

/// An attempt to make.
struct Job {
    id: CleanerId,
    sink: String,
    event: CloudEvent,
}

/// What an attempt needs. Cheap to clone.
#[derive(Clone)]
struct Sender {
    client: Arc<SinkClient>,
    board: Arc<Board>,
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
        let board = Arc::new(Board::new(Room {
            attempts: ATTEMPTS.into(),
            per_namespace: ATTEMPTS_PER_NAMESPACE.into(),
        }));
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

    /// Begins an attempt, unless one of this Cleaner runs or there is no room. The Cleaner is woken when it has ended, or when there may
    /// be room.
    pub(super) fn send(&self, id: &CleanerId, shot: &Shot, event: CloudEvent) -> Begun {
        let (is_new, begun) = self.board.begin(id, shot);
        if !is_new {
            return begun;
        }
        let job = Job {
            id: id.clone(),
            sink: shot.sink.clone(),
            event,
        };
        if self.jobs.try_send(job).is_err() {
            // Attempts of Cleaners that were forgotten still run, or the process stops.
            self.board.withdraw(&id.uid);
            return Begun::Full;
        }
        begun
    }

    /// Returns the attempt of a Cleaner that runs, or the last one of this process.
    pub(super) fn attempt(&self, uid: &str) -> Option<Attempt> {
        self.board.attempt(uid)
    }

    /// Forgets a Cleaner that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.board.forget(uid);
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

    async fn attempt(self, job: Job) {
        let Job { id, sink, event } = job;
        let now = || self.clock.now();
        let sending = self.client.send(&id.namespace, &sink, event, now);
        let sent = sending.await;
        match &sent {
            Sent::Accepted => self.metrics.count(Delivered::Accepted, 1),
            Sent::Failed { .. } => self.metrics.count(Delivered::Failed, 1),
            Sent::Busy => {}
        }
        let ended = |attempt: &Attempt| self.ended(attempt, sent);
        for woken in self.board.end(&id, ended) {
            (self.wake)(&woken);
        }
    }

    fn ended(&self, attempt: &Attempt, sent: Sent) -> Attempt {
        let at = self.clock.now();
        let (failures, state) = match sent {
            Sent::Accepted => (0, AttemptState::Accepted),
            Sent::Busy => {
                let wait = jittered(BUSY);
                let pause = Pause { at, wait };
                (attempt.failures, AttemptState::Postponed(pause))
            }
            Sent::Failed {
                message,
                retry_after,
            } => {
                let failures = attempt.failures.saturating_add(1);
                let wait = jittered(wait(failures, retry_after));
                let pause = Pause { at, wait };
                (failures, AttemptState::Failed(message, pause))
            }
        };
        Attempt {
            failures,
            state,
            ..attempt.clone()
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
