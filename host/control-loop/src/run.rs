//! Runs a loop: feeds the queue from the source, gives ids to workers, and drains them at the end.

mod work;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Notify, mpsc};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, error, info, info_span, warn};

use self::work::{CallError, End, GRACE, Shared, Work, called, caught, causes, expired};
use crate::parts::HintStream;
use crate::queue::{Backoff, Ended, FAR, Fate, LEAST, Popped, Queue, Reason};
use crate::recorder::CallOutcome;
use crate::{
    ControlLoop, Ctx, HandleKind, Handler, Hints, Id, Next, Options, Recorder, Report, Source,
    Storage,
};

/// How many hints may wait for the loop. If there are more, the source's stream waits.
const INBOX: usize = 128;

/// How long to wait for a cancelled worker: it drops its handler after one grace period, and stops releasing the lock after another. A
/// worker that takes longer blocks its thread and cannot be stopped.
const PATIENCE: Duration = GRACE.saturating_mul(3);

/// The first pause before a watch is opened again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// After a watch that lasted this long, the pauses start from the first again.
const GOOD: Duration = Duration::from_mins(1);

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
        let meter = Arc::new(Meter {
            name: parts.name,
            recorder: parts.recorder,
        });
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
            self.log_failure(&popped, step, failure, fate);
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

    fn log_failure(&self, popped: &Popped<I>, step: &'static str, failure: &CallError, fate: Fate) {
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
            step,
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

    /// Lets running handlers finish, then cancels them, then drops them.
    async fn drain(mut self) -> Report {
        self.feeds.abort_all();
        let mut report = Report::default();
        let drained = Instant::now() + self.shared.options.drain_timeout.min(FAR);
        self.join_until(drained, &mut report).await;
        self.shared.halt.cancel();
        let stuck = Instant::now() + self.patience;
        self.join_until(stuck, &mut report).await;
        self.workers.abort_all();
        let left = self.running.values().map(|popped| popped.id.to_string());
        report.abandoned.extend(left);
        // A feed ends when it is polled next, unless it blocks its thread.
        let stuck = Instant::now() + self.patience;
        while let Ok(Some(_)) = timeout_at(stuck, self.feeds.join_next()).await {}
        // In the queue, abandoned ids are still running.
        report.queued = self.queue.len().saturating_sub(report.abandoned.len());
        info!(
            "loop" = self.shared.meter.name,
            finished = report.finished,
            abandoned = ?report.abandoned,
            queued = report.queued,
            "the loop has stopped"
        );
        report
    }

    /// Waits for workers until the deadline.
    async fn join_until(&mut self, deadline: Instant, report: &mut Report) {
        while let Ok(Some(joined)) = timeout_at(deadline, self.workers.join_next_with_id()).await {
            let Some((popped, work)) = self.joined(joined) else {
                continue;
            };
            if work.end.is_halted() {
                report.abandoned.push(popped.id.to_string());
            } else if work.kind.is_some() {
                report.finished += 1;
            }
        }
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

/// What the source reports.
enum News<I> {
    Hint(I),
    Listed(Vec<I>),
}

/// The source's watch and its lists.
struct Feed<I, So> {
    source: So,
    outbox: mpsc::Sender<News<I>>,
    /// A watch was opened, so a list is due. If a list is running, the notification is kept for another one: the running list may have
    /// started too early.
    opened: Notify,
    meter: Arc<Meter>,
    options: Arc<Options>,
    stopping: CancellationToken,
}

impl<I: Id, So: Source<I>> Feed<I, So> {
    /// Starts the watch and the lists in two endless tasks, so that neither waits for the other.
    fn start(self, random: fastrand::Rng) -> JoinSet<()> {
        let feed = Arc::new(self);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&feed).watch());
        tasks.spawn(feed.list(random));
        tasks
    }

    async fn watch(self: Arc<Self>) {
        let (mut pause, longest) = PAUSES;
        let mut attempt = 1;
        let mut first = true;
        loop {
            let ctx = self.context(info_span!("watch", "loop" = self.meter.name), attempt);
            let opened = self.open(&ctx).await;
            // Even if the first watch cannot be opened, the loop lists.
            if opened.is_ok() || first {
                self.opened.notify_one();
            }
            first = false;
            let begun = Instant::now();
            let failure = match opened {
                Ok(hints) => self.forward(hints).instrument(ctx.span).await,
                Err(failure) => failure,
            };
            if begun.elapsed() >= GOOD {
                (pause, attempt) = (PAUSES.0, 0);
            }
            self.log_failure("watch", &failure, pause);
            sleep(pause).await;
            self.meter
                .record(|recorder, name| recorder.watch_restarted(name));
            pause = pause.saturating_mul(2).min(longest);
            attempt = attempt.saturating_add(1);
        }
    }

    async fn open(&self, ctx: &Ctx) -> Result<HintStream<I>, CallError> {
        let limit = self.options.list_timeout;
        let open = called(|| self.source.watch(ctx), expired(limit), &ctx.cancel);
        open.instrument(ctx.span.clone()).await
    }

    /// Forwards hints until the stream ends or fails, and returns why.
    async fn forward(&self, mut hints: HintStream<I>) -> CallError {
        let forwarded = caught(async move {
            while let Some(hint) = hints.next().await {
                let news = News::Hint(hint.map_err(CallError::Error)?);
                if self.outbox.send(news).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        forwarded.await.err().unwrap_or(CallError::Ended)
    }

    async fn list(self: Arc<Self>, mut random: fastrand::Rng) {
        let interval = self.options.resync_interval;
        let interval = interval.map(|interval| interval.clamp(LEAST, FAR));
        let cap = interval.unwrap_or(FAR).min(self.options.backoff_cap);
        let mut backoff = Backoff::new(self.options.backoff_base, cap, random.fork());
        let mut failures = 0_u32;
        self.opened.notified().await;
        loop {
            let pause = match self.list_once(failures).await {
                Ok(()) => {
                    failures = 0;
                    // Plus or minus a tenth, so that many loops do not list at the same time.
                    interval.map(|interval| interval.mul_f64(0.9 + 0.2 * random.f64()))
                }
                Err(failure) => {
                    failures = failures.saturating_add(1);
                    let pause = backoff.pause(failures);
                    self.log_failure("list", &failure, pause);
                    Some(pause)
                }
            };
            tokio::select! {
                () = self.opened.notified() => {}
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    async fn list_once(&self, failures: u32) -> Result<(), CallError> {
        let span = info_span!("list", "loop" = self.meter.name);
        let ctx = self.context(span, failures.saturating_add(1));
        let limit = self.options.list_timeout;
        let begun = Instant::now();
        let list = called(|| self.source.list(&ctx), expired(limit), &ctx.cancel);
        let listed = list.instrument(ctx.span.clone()).await;
        self.meter.record(|recorder, name| {
            recorder.list_duration(name, begun.elapsed(), CallOutcome::of(&listed));
        });
        // It fails only if the loop has ended, and then this task ends too.
        let _ = self.outbox.send(News::Listed(listed?)).await;
        Ok(())
    }

    fn context(&self, span: Span, attempt: u32) -> Ctx {
        Ctx {
            stopping: self.stopping.child_token(),
            cancel: CancellationToken::new(),
            attempt,
            fence: None,
            span,
        }
    }

    fn log_failure(&self, step: &'static str, failure: &CallError, pause: Duration) {
        if matches!(failure, CallError::Panic(_)) {
            self.meter.record(|recorder, name| recorder.panicked(name));
        }
        warn!(
            "loop" = self.meter.name,
            step,
            error = causes(failure),
            retry_in = ?pause,
            "the source failed"
        );
    }
}

/// The recorder, together with the name of the loop.
struct Meter {
    name: String,
    recorder: Arc<dyn Recorder>,
}

impl Meter {
    /// Records a measurement. If the recorder panics, the loop continues.
    fn record(&self, measure: impl FnOnce(&dyn Recorder, &str)) {
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            measure(&*self.recorder, &self.name);
        }));
        if recorded.is_err() {
            error!("loop" = self.name, "the recorder of a loop panicked");
        }
    }
}

#[cfg(test)]
mod tests;
