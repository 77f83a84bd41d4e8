//! Runs a loop: feeds the queue from the source, gives ids to workers, and drains them at the end.

mod call;
mod drain;
mod feed;
mod meter;
mod work;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::queue::{Backoff, Ended, Fate, Popped, Queue, Reason};
use crate::{ControlLoop, HandleKind, Handler, Hints, Id, Next, Report, Source, Storage};
use call::{CallError, GRACE, causes};
use feed::{Feed, News};
use meter::Meter;
use work::{End, Shared, Step, Work};

/// How many hints may wait for the loop. If there are more, the source's stream waits.
const INBOX: usize = 128;

/// How long to wait for a cancelled worker: it drops its handler after one grace period, and stops releasing the lock after another. A
/// worker that takes longer blocks its thread and cannot be stopped.
const PATIENCE: Duration = GRACE.saturating_mul(3);

impl<I, So, St, Ha> ControlLoop<I, So, St, Ha>
where
    I: Id,
    So: Source<I>,
    St: Storage<I>,
    Ha: Handler<I, St::Object>,
{
    /// Runs until the token is cancelled and the running handlers are drained.
    ///
    /// It returns for no other reason: errors and panics of its parts are logged, counted and retried.
    /// Its tasks end with the future that this returns, whether that completes or is dropped. Only code that never yields to the
    /// runtime cannot be stopped: the report lists its id as abandoned, and `run` returns without it.
    pub async fn run(self, stop: CancellationToken) -> Report {
        Driver::start(self, stop).run().await
    }
}

/// The task that owns the queue. Its workers and feeds are tasks too, and end with it.
pub(crate) struct Driver<I: Id, St, Ha> {
    shared: Arc<Shared<I, St, Ha>>,
    queue: Queue<I>,
    /// The ids that may need cleanup: those that existed when last read, and those whose cleanup failed. After each list they are
    /// handled too, listed or not, so that a missed delete is found.
    known: HashSet<I>,
    workers: JoinSet<Work>,
    /// The id of each worker, since a task that panicked cannot return it.
    running: HashMap<task::Id, Popped<I>>,
    feeds: JoinSet<()>,
    inbox: mpsc::Receiver<News<I>>,
    hints: Hints<I>,
    stop: CancellationToken,
    /// How long to wait for cancelled tasks before they count as stuck.
    patience: Duration,
    /// The last values of the gauges: ids ready, and in flight.
    shown: (usize, usize),
}

type Joined = Result<(task::Id, Work), JoinError>;

impl<I, St, Ha> Driver<I, St, Ha>
where
    I: Id,
    St: Storage<I>,
    Ha: Handler<I, St::Object>,
{
    pub(crate) fn start<So: Source<I>>(
        parts: ControlLoop<I, So, St, Ha>,
        stop: CancellationToken,
    ) -> Self {
        let options = Arc::new(parts.options);
        let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
        let mut random = fastrand::Rng::with_seed(seed);
        let backoff = Backoff::new(options.backoff_base, options.backoff_cap, random.fork());
        let meter = Arc::new(Meter::new(parts.name, parts.recorder));
        let (outbox, inbox) = mpsc::channel(INBOX);
        let feed = Feed {
            source: parts.source,
            outbox,
            opened: Notify::new(),
            meter: Arc::clone(&meter),
            options: Arc::clone(&options),
            stopping: stop.clone(),
        };
        Self {
            queue: Queue::new(backoff, options.max_retries),
            feeds: feed.start(random),
            shared: Arc::new(Shared {
                storage: parts.storage,
                handler: parts.handler,
                locker: parts.locker,
                meter,
                options,
                stopping: stop.clone(),
                halt: CancellationToken::new(),
            }),
            known: HashSet::new(),
            workers: JoinSet::new(),
            running: HashMap::new(),
            inbox,
            hints: parts.hints,
            stop,
            patience: PATIENCE,
            shown: (0, 0),
        }
    }

    pub(crate) async fn run(mut self) -> Report {
        let stop = self.stop.clone();
        let mut news = Vec::with_capacity(INBOX);
        while !stop.is_cancelled() {
            self.keep_busy();
            let wake = self.queue.next_wake();
            tokio::select! {
                () = stop.cancelled() => {}
                Some(joined) = self.workers.join_next_with_id() => {
                    self.joined(joined);
                }
                // 0 is received only if the feeds are gone; the loop must not spin then.
                1.. = self.inbox.recv_many(&mut news, INBOX) => self.receive(&mut news),
                () = self.hints.pushed() => self.take_hints(),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
        self.drain().await
    }

    /// Gives every free worker an id.
    fn keep_busy(&mut self) {
        let now = Instant::now();
        // Also if no worker is free: with a wake-up time in the past the loop would spin.
        self.queue.advance(now);
        while self.workers.len() < self.shared.options.workers.get()
            && let Some(popped) = self.queue.pop(now)
        {
            self.shared.meter.record(|recorder, name| {
                recorder.queue_dequeued(name);
                recorder.queued_duration(name, popped.waited);
            });
            let shared = Arc::clone(&self.shared);
            let work = shared.work(popped.id.clone(), popped.attempt);
            let task = self.workers.spawn(work);
            self.running.insert(task.id(), popped);
        }
        self.measure();
    }

    /// Adds what the source reports to the queue.
    fn receive(&mut self, news: &mut Vec<News<I>>) {
        let now = Instant::now();
        for news in news.drain(..) {
            match news {
                News::Hint(id) => self.queue.push(id, Reason::Hint, now),
                News::Listed(ids) => {
                    for id in ids.into_iter().chain(self.known.iter().cloned()) {
                        self.queue.push(id, Reason::Resync, now);
                    }
                }
            }
        }
    }

    /// Adds hints from outside the source to the queue.
    fn take_hints(&mut self) {
        let now = Instant::now();
        for id in self.hints.take() {
            self.queue.push(id, Reason::Hint, now);
        }
    }

    /// Ends a run in the queue, and returns its id and its result.
    fn joined(&mut self, joined: Joined) -> Option<(Popped<I>, Work)> {
        let (task, work) = joined.unwrap_or_else(|error| (error.id(), Work::broken(error)));
        let popped = self.running.remove(&task)?;
        self.learn(&popped.id, &work);
        let ended = match &work.end {
            End::Done(Next::Settled) => Ended::Settled,
            End::Done(Next::After(pause)) => Ended::After(*pause),
            End::Busy(pause) => Ended::Busy(*pause),
            // Both occur only in the drain, which uses the queue only to count what is left.
            End::Unreached => return Some((popped, work)),
            end if end.is_halted() => return Some((popped, work)),
            End::Failed(..) => Ended::Failed,
        };
        let fate = self.queue.done(&popped.id, ended, Instant::now());
        if let End::Failed(step, failure) = &work.end {
            self.log_failure(&popped, *step, failure, fate);
        }
        self.measure();
        Some((popped, work))
    }

    /// Remembers ids that may need cleanup.
    fn learn(&mut self, id: &I, work: &Work) {
        match (work.kind, &work.end) {
            (Some(HandleKind::Add), _) | (Some(HandleKind::Delete), End::Failed(..)) => {
                if !self.known.contains(id) {
                    self.known.insert(id.clone());
                }
            }
            (Some(HandleKind::Delete), End::Done(_)) => {
                self.known.remove(id);
            }
            (Some(HandleKind::Delete), End::Busy(_) | End::Unreached) | (None, _) => {}
        }
    }

    fn log_failure(&self, popped: &Popped<I>, step: Step, failure: &CallError, fate: Fate) {
        let meter = &self.shared.meter;
        if matches!(failure, CallError::Panic(_)) {
            meter.record(|recorder, name| recorder.panicked(name));
        }
        let retry_in = match fate {
            Fate::Delayed(pause) => Some(pause),
            Fate::Ready | Fate::Gone | Fate::Dropped => None,
        };
        warn!(
            "loop" = meter.name,
            id = %popped.id,
            attempt = popped.attempt,
            step = step.as_str(),
            error = causes(failure),
            retry_in = retry_in.map(tracing::field::debug),
            "handling an id failed"
        );
        if fate == Fate::Dropped {
            meter.record(|recorder, name| recorder.dropped(name));
            info!("loop" = meter.name, id = %popped.id, "dropped an id that failed too often");
        } else {
            meter.record(|recorder, name| recorder.retried(name));
        }
    }

    /// Records what became ready, and the gauges if they changed.
    fn measure(&mut self) {
        let queued = self.queue.take_became_ready();
        let shows = (self.queue.ready(), self.workers.len());
        if queued == 0 && shows == self.shown {
            return;
        }
        self.shown = shows;
        self.shared.meter.record(|recorder, name| {
            if queued > 0 {
                recorder.queue_queued(name, queued);
            }
            recorder.queue_depth(name, shows.0);
            recorder.in_flight(name, shows.1);
        });
    }
}

impl<I: Id, St, Ha> Drop for Driver<I, St, Ha> {
    /// Resets the gauges, and closes the hints.
    fn drop(&mut self) {
        self.hints.close();
        self.shared.meter.record(|recorder, name| {
            recorder.queue_depth(name, 0);
            recorder.in_flight(name, 0);
        });
    }
}
