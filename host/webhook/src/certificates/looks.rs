//! A loop that looks again and again at one thing. What goes wrong is counted each time, logged when it changes, and tried again after
//! growing pauses.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Next, Options, Recorder, source_fn, storage_fn,
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::slot::{CertificateMetrics, CertificateSlot};

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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
    pub(super) name: &'static str,
    /// The first and the longest pause after a failure.
    pub(super) pauses: (Duration, Duration),
    pub(super) metrics: CertificateMetrics,
    /// Where a problem is shown. Without a certificate in it nothing works, so looks do not slow down.
    pub(super) slot: Option<Arc<CertificateSlot>>,
    pub(super) look: L,
}

struct Running<L> {
    looks: Looks<L>,
    problem: Option<String>,
    /// How often something went wrong in a row.
    failures: u32,
}

/// The handler of the loop. There is one worker, so nobody waits for the lock.
struct Turn<L>(Mutex<Running<L>>);

impl<L> Looks<L> {
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
        let id: Arc<str> = id.into();
        let source = source_fn(move |_| {
            let id = Arc::clone(&id);
            async move { Ok(vec![id]) }
        });
        // Never fails: the handler reports errors once, while the loop would log each of them.
        let storage = storage_fn(move |_, _: Arc<str>| {
            let seen = see();
            async move { Ok(Some(seen.await)) }
        });
        let (name, options) = (self.name, options(self.pauses.1));
        let turn = Turn(Mutex::new(Running {
            looks: self,
            problem: None,
            failures: 0,
        }));
        let control = ControlLoop {
            options,
            recorder,
            ..ControlLoop::new(name, source, storage, turn)
        };
        control.run(stop).await;
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

impl<Seen: Send + 'static, L: Look<Seen>> Handler<Arc<str>, Result<Seen, Problem>> for Turn<L> {
    async fn handle(
        &self,
        _: &Ctx,
        _: &Arc<str>,
        object: Option<Result<Seen, Problem>>,
    ) -> Result<Next, BoxError> {
        let mut running = self.0.lock().await;
        // The storage always returns something.
        let looked = match object {
            None => return Ok(Next::Settled),
            Some(Ok(seen)) => running.looks.look.look(seen).await,
            Some(Err(problem)) => Err(problem),
        };
        Ok(Next::After(match looked {
            Ok(pause) => {
                running.resolve();
                pause
            }
            Err(problem) => running.report(problem.text),
        }))
    }
}

impl<L> Running<L> {
    /// Counts a problem, logs it unless it is the same as the last one, and returns when to try again.
    fn report(&mut self, problem: String) -> Duration {
        self.looks.metrics.failed(self.looks.name);
        let slot = self.looks.slot.as_deref();
        if let Some(slot) = slot {
            slot.refuse(&problem);
        }
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(
                "loop" = self.looks.name,
                error = problem,
                "cannot take care of the webhooks' certificate"
            );
            self.problem = Some(problem);
        }
        let (first, longest) = self.looks.pauses;
        let pause = first.saturating_mul(2_u32.saturating_pow(self.failures.min(16)));
        self.failures = self.failures.saturating_add(1);
        if slot.is_some_and(|slot| slot.served().is_none()) {
            return first;
        }
        pause.min(longest)
    }

    /// Forgets the last problem: this time all was well.
    fn resolve(&mut self) {
        if self.problem.take().is_some() {
            tracing::info!(
                "loop" = self.looks.name,
                "the problem with the webhooks' certificate is solved"
            );
        }
        self.failures = 0;
    }
}
