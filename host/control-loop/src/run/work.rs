//! One run of one id: lock, get, handle, release; each call of the user's code has a limit, and its panics are caught.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::pin;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span, warn};

use super::Meter;
use crate::recorder::{CallOutcome, HandleKind};
use crate::{Acquired, BoxError, Ctx, Guard, Handler, Id, Next, ObjectLocker, Options, Storage};

/// What all workers of a loop share.
pub(super) struct Shared<I, St, Ha> {
    pub(super) storage: St,
    pub(super) handler: Ha,
    pub(super) locker: Arc<dyn ObjectLocker<I>>,
    pub(super) meter: Arc<Meter>,
    pub(super) options: Arc<Options>,
    /// The loop is shutting down.
    pub(super) stopping: CancellationToken,
    /// The time to finish is over.
    pub(super) halt: CancellationToken,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) end: End,
    /// What the handler was called for; none if it was not called.
    pub(super) kind: Option<HandleKind>,
}

#[derive(Debug)]
pub(super) enum End {
    Done(Next),
    /// At this step: `acquire`, `get`, `handle`, or `task` for what is outside of them, such as a panic when a guard is dropped.
    Failed(&'static str, CallError),
    /// Another holder has the lock.
    Busy(Option<Duration>),
    /// The loop was stopped before the handler was called.
    Unreached,
}

impl End {
    /// Whether the handler was cancelled at the end of the drain.
    pub(super) fn is_halted(&self) -> bool {
        matches!(self, Self::Failed(_, CallError::Halted))
    }
}

impl Work {
    /// The result of a task that panicked or was aborted.
    pub(super) fn broken(error: JoinError) -> Self {
        let failure = if error.is_panic() {
            CallError::Panic(error.to_string())
        } else {
            CallError::Error(error.into())
        };
        Self {
            end: End::Failed("task", failure),
            kind: None,
        }
    }
}

impl<I, St, Ha> Shared<I, St, Ha>
where
    I: Id,
    St: Storage<I>,
    Ha: Handler<I, St::Object>,
{
    pub(super) async fn work(self: Arc<Self>, id: I, attempt: u32) -> Work {
        let ctx = Ctx {
            stopping: self.stopping.child_token(),
            cancel: self.halt.child_token(),
            attempt,
            fence: None,
            span: info_span!("run", "loop" = self.meter.name, %id, attempt),
        };
        let span = ctx.span.clone();
        self.lock(ctx, &id).instrument(span).await
    }

    /// Handles an id under its lock. The guard outlives everything that it guards, even if this future is dropped.
    async fn lock(&self, mut ctx: Ctx, id: &I) -> Work {
        let guard = match self.acquire(&ctx, id).await {
            Ok(guard) => guard,
            Err(end) => return Work { end, kind: None },
        };
        ctx.fence = guard.fence();
        let work = self.look(&ctx, id, &guard.lost()).await;
        self.release(guard, id, &work).await;
        work
    }

    async fn acquire(&self, ctx: &Ctx, id: &I) -> Result<Box<dyn Guard>, End> {
        let limit = expired(self.options.get_timeout);
        let call = called(|| self.locker.acquire(ctx, id), limit, &ctx.cancel);
        match self.unless_stopping(call).await? {
            Ok(Acquired::Held(guard)) => Ok(guard),
            Ok(Acquired::Busy { retry_after }) => {
                self.meter
                    .record(|recorder, name| recorder.lock_contended(name));
                Err(End::Busy(retry_after))
            }
            Err(failure) => Err(End::Failed("acquire", failure)),
        }
    }

    /// Reads the object and handles it.
    async fn look(&self, ctx: &Ctx, id: &I, lost: &CancellationToken) -> Work {
        let object = match self.get(ctx, id, lost).await {
            Ok(object) if !self.stopping.is_cancelled() => object,
            Ok(_) => {
                return Work {
                    end: End::Unreached,
                    kind: None,
                };
            }
            Err(end) => return Work { end, kind: None },
        };
        let kind = match object {
            Some(_) => HandleKind::Add,
            None => HandleKind::Delete,
        };
        let begun = Instant::now();
        let handled = self.handle(ctx, id, object, lost).await;
        self.meter.record(|recorder, name| {
            recorder.handle_duration(name, begun.elapsed(), kind, CallOutcome::of(&handled));
        });
        Work {
            end: handled.map_or_else(|failure| End::Failed("handle", failure), End::Done),
            kind: Some(kind),
        }
    }

    async fn get(
        &self,
        ctx: &Ctx,
        id: &I,
        lost: &CancellationToken,
    ) -> Result<Option<St::Object>, End> {
        let limit = self.options.get_timeout;
        let begun = Instant::now();
        let interrupt = async {
            tokio::select! {
                () = lost.cancelled() => CallError::LockLost,
                failure = expired(limit) => failure,
            }
        };
        let call = called(|| self.storage.get(ctx, id), interrupt, &ctx.cancel);
        let got = self.unless_stopping(call).await?;
        self.meter.record(|recorder, name| {
            recorder.get_duration(name, begun.elapsed(), CallOutcome::of(&got));
        });
        got.map_err(|failure| End::Failed("get", failure))
    }

    async fn handle(
        &self,
        ctx: &Ctx,
        id: &I,
        object: Option<St::Object>,
        lost: &CancellationToken,
    ) -> Result<Next, CallError> {
        let limit = self.options.handle_timeout;
        let interrupt = async {
            tokio::select! {
                () = lost.cancelled() => CallError::LockLost,
                () = self.halt.cancelled() => CallError::Halted,
                failure = expired(limit) => failure,
            }
        };
        let handling = || self.handler.handle(ctx, id, object);
        let handled = called(handling, interrupt, &ctx.cancel).await;
        // Another holder may have undone this work meanwhile.
        if lost.is_cancelled() && handled.is_ok() {
            return Err(CallError::LockLost);
        }
        handled
    }

    /// Releases the lock. A failure is not retried: the lock expires, or its locker knows that it is free.
    async fn release(&self, guard: Box<dyn Guard>, id: &I, work: &Work) {
        let cleaned = matches!(
            (&work.end, work.kind),
            (End::Done(_), Some(HandleKind::Delete))
        );
        let call = async {
            let released = if cleaned {
                guard.retire()
            } else {
                guard.release()
            };
            match timeout(GRACE, released).await {
                Ok(released) => released.map_err(CallError::Error),
                Err(_) => Err(CallError::Timeout(GRACE)),
            }
        };
        if let Err(failure) = caught(call).await {
            let error = causes(&failure);
            warn!("loop" = self.meter.name, %id, error, "releasing the lock failed");
        }
    }

    /// Runs a step before the handler. When the loop stops, the step is dropped at once; after that no step starts.
    async fn unless_stopping<T>(&self, call: impl Future<Output = T>) -> Result<T, End> {
        if self.stopping.is_cancelled() {
            return Err(End::Unreached);
        }
        tokio::select! {
            // If both are ready, the result counts: a lock that was just taken must be released properly.
            biased;
            result = call => Ok(result),
            () = self.stopping.cancelled() => Err(End::Unreached),
        }
    }
}

/// How long a cancelled call may continue before it is dropped.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// The same after the lock was lost. A lock reports its loss when a third of its time is left, five of the usual fifteen seconds. The
/// handler must have ended by then.
const LOST_GRACE: Duration = Duration::from_secs(4);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("{0}")]
    Error(BoxError),
    #[error("panicked: {0}")]
    Panic(String),
    #[error("took longer than {0:?}")]
    Timeout(Duration),
    #[error("the lock was lost")]
    LockLost,
    #[error("the loop was stopped, and the time to finish is over")]
    Halted,
    #[error("the stream ended")]
    Ended,
}

/// An error with all its causes, for the log.
pub(super) fn causes(failure: &CallError) -> String {
    let mut text = failure.to_string();
    let mut source = match failure {
        CallError::Error(error) => error.source(),
        _ => None,
    };
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Turns a panic into an error. What the call owns is dropped in here too, so a panic of a destructor is caught as well.
pub(super) async fn caught<T>(
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    AssertUnwindSafe(call)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(CallError::Panic(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

/// Runs a call as [`until`] does, and turns its panic into an error.
pub(super) async fn called<T, Call>(
    call: impl FnOnce() -> Call,
    interrupt: impl Future<Output = CallError>,
    cancel: &CancellationToken,
) -> Result<T, CallError>
where
    Call: Future<Output = Result<T, BoxError>>,
{
    caught(async { until(call, interrupt, cancel).await }).await
}

/// Runs a call until it ends or is interrupted. An interrupted call is cancelled, gets a grace period, and is dropped; whatever it still
/// returns, it counts as failed. A call that is interrupted before it starts never starts.
async fn until<T, Call>(
    call: impl FnOnce() -> Call,
    interrupt: impl Future<Output = CallError>,
    cancel: &CancellationToken,
) -> Result<T, CallError>
where
    Call: Future<Output = Result<T, BoxError>>,
{
    let begun = AtomicBool::new(false);
    let call = async {
        begun.store(true, Ordering::Relaxed);
        call().await
    };
    pin!(call);
    let failure = tokio::select! {
        // If both are ready, the interrupt counts: the call may have returned because of it.
        biased;
        failure = interrupt => failure,
        result = &mut call => return result.map_err(CallError::Error),
    };
    cancel.cancel();
    let grace = match failure {
        CallError::LockLost => LOST_GRACE,
        _ => GRACE,
    };
    if begun.load(Ordering::Relaxed) {
        // The result of an interrupted call is ignored.
        let _ = timeout(grace, call).await;
    }
    Err(failure)
}

/// Ends after this time.
pub(super) async fn expired(limit: Duration) -> CallError {
    sleep(limit).await;
    CallError::Timeout(limit)
}

#[cfg(test)]
mod tests;
