//! A loop that looks again and again at one thing. What goes wrong is counted each time, logged when it changes, and tried again after
//! growing pauses.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use podloom_control_loop::{
    ControlLoop, Next, Options, Recorder, handler_fn, source_fn, storage_fn,
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::slot::{CertificateMetrics, CertificateSlot};

/// How many times in a row somebody else may be faster. More of them have another reason.
const RACES: u32 = 4;

/// What is wrong, for people. It never contains an object.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) text: String,
    /// Whether the object is another one than the one that was looked at.
    pub(super) is_race: bool,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        let is_race = false;
        Self { text, is_race }
    }
}

/// What a loop does with what it finds.
pub(super) trait Look<Seen>: Send + 'static {
    /// Returns when to look again.
    fn look(&mut self, seen: Seen) -> impl Future<Output = Result<Duration, Problem>> + Send;
}

/// A loop.
pub(super) struct Looks<L> {
    /// Its name, in metrics and logs.
    name: &'static str,
    /// The first and the longest pause after a failure.
    pauses: (Duration, Duration),
    metrics: CertificateMetrics,
    /// Where a problem is shown. Without a certificate in it nothing works, so looks do not slow down.
    slot: Option<Arc<CertificateSlot>>,
    look: L,
    problem: Option<String>,
    /// How often something went wrong in a row.
    failures: u32,
    /// How often in a row somebody else was faster.
    races: u32,
}

impl<L> Looks<L> {
    pub(super) fn new(
        name: &'static str,
        pauses: (Duration, Duration),
        metrics: CertificateMetrics,
        slot: Option<Arc<CertificateSlot>>,
        look: L,
    ) -> Self {
        Self {
            name,
            pauses,
            metrics,
            slot,
            look,
            problem: None,
            failures: 0,
            races: 0,
        }
    }

    /// Runs until `stop` is cancelled. `see` reads what `id` stands for.
    pub(super) async fn run<Seen, Seeing>(
        self,
        id: String,
        see: impl Fn() -> Seeing + Send + Sync + 'static,
        recorder: Arc<dyn Recorder>,
        stop: CancellationToken,
    ) where
        L: Look<Seen>,
        Seen: Send + 'static,
        Seeing: Future<Output = Result<Seen, Problem>> + Send,
    {
        let (name, options) = (self.name, options(self.pauses.1));
        let source = source_fn(move |_| {
            let ids = vec![Arc::<str>::from(id.as_str())];
            async move { Ok(ids) }
        });
        // Never fails: the handler reports errors once, while the loop would log each of them.
        let storage = storage_fn(move |_, _: Arc<str>| {
            let seen = see();
            async move { Ok(Some(seen.await)) }
        });
        // There is one worker, so nobody waits for the lock.
        let looks = Arc::new(Mutex::new(self));
        let handler = handler_fn(move |_, _: Arc<str>, seen: Option<Result<Seen, Problem>>| {
            let looks = Arc::clone(&looks);
            async move {
                Ok(match seen {
                    Some(seen) => Next::After(looks.lock().await.turn(seen).await),
                    // The storage always returns something.
                    None => Next::Settled,
                })
            }
        });
        let control = ControlLoop {
            options,
            recorder,
            ..ControlLoop::new(name, source, storage, handler)
        };
        control.run(stop).await;
    }

    /// Looks once, and returns when to look again.
    async fn turn<Seen>(&mut self, seen: Result<Seen, Problem>) -> Duration
    where
        L: Look<Seen>,
    {
        let looked = match seen {
            Ok(seen) => self.look.look(seen).await,
            Err(problem) => Err(problem),
        };
        match looked {
            Ok(pause) => {
                if self.problem.take().is_some() {
                    let message = "the problem with the webhooks' certificate is solved";
                    tracing::info!("loop" = self.name, "{message}");
                }
                (self.failures, self.races) = (0, 0);
                pause
            }
            // Expected when leaders overlap or somebody applies a manifest. It says nothing of an earlier problem.
            Err(problem) if problem.is_race && self.races < RACES => {
                self.races += 1;
                tracing::debug!(error = problem.text, "looks again");
                self.pauses.0
            }
            Err(problem) => self.report(problem.text),
        }
    }

    /// Counts a problem, logs it unless it is the same as the last one, and returns when to try again.
    fn report(&mut self, problem: String) -> Duration {
        self.metrics.failed(self.name);
        let slot = self.slot.as_deref();
        if let Some(slot) = slot {
            slot.refuse(&problem);
        }
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(
                "loop" = self.name,
                error = problem,
                "cannot take care of the webhooks' certificate"
            );
            self.problem = Some(problem);
        }
        let (first, longest) = self.pauses;
        let pause = first.saturating_mul(2_u32.saturating_pow(self.failures.min(16)));
        self.failures = self.failures.saturating_add(1);
        if slot.is_some_and(|slot| slot.served().is_none()) {
            return first;
        }
        pause.min(longest)
    }
}

fn options(look: Duration) -> Options {
    Options {
        workers: NonZeroUsize::MIN,
        resync_interval: Some(look),
        backoff_cap: look,
        // The requests and the disk have shorter limits of their own.
        get_timeout: Duration::from_secs(60),
        handle_timeout: Duration::from_secs(60),
        drain_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}
