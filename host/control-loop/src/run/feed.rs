//! Runs the source's watch and its lists.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, info_span, warn};

use super::call::{CallError, caught, causes, expired, until};
use super::meter::Meter;
use crate::queue::{Backoff, FAR, LEAST};
use crate::recorder::CallOutcome;
use crate::source::HintStream;
use crate::{Ctx, Id, Options, Source};

/// The first pause before a watch is opened again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// After a watch that lasted this long, the pauses start from the first again.
const GOOD: Duration = Duration::from_mins(1);

/// What the source reports.
pub(super) enum News<I> {
    Hint(I),
    Listed(Vec<I>),
}

pub(super) struct Feed<I, So> {
    pub(super) source: So,
    pub(super) outbox: mpsc::Sender<News<I>>,
    /// A watch was opened, so a list is due. If a list is running, the notification is kept for another one: the running list may have
    /// started too early.
    pub(super) opened: Notify,
    pub(super) meter: Arc<Meter>,
    pub(super) options: Arc<Options>,
    pub(super) stopping: CancellationToken,
}

impl<I: Id, So: Source<I>> Feed<I, So> {
    /// Starts the watch and the lists in two endless tasks, so that neither waits for the other.
    pub(super) fn start(self, random: fastrand::Rng) -> JoinSet<()> {
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
        let open = async { until(|| self.source.watch(ctx), expired(limit), &ctx.cancel).await };
        caught(open).instrument(ctx.span.clone()).await
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
        let list = async { until(|| self.source.list(&ctx), expired(limit), &ctx.cancel).await };
        let listed = caught(list).instrument(ctx.span.clone()).await;
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
