//! Calls of foreign code: bounded in time, and none of its panics goes further.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::pin;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::BoxError;

/// How long a call may go on that was told to stop.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// The same when the lock is lost. A lock that expires tells so when a third of its time is left: five seconds of the usual
/// fifteen, and by then the handler must be gone.
const LOST_GRACE: Duration = Duration::from_secs(4);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
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
pub(super) fn causes(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut source = match failure {
        Failure::Error(error) => error.source(),
        _ => None,
    };
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Turns a panic into a failure. What the call owns is dropped in here too, so a panic of that is caught as well.
pub(super) async fn caught<T>(
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    AssertUnwindSafe(call)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(Failure::Panic(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

/// Makes a call and waits for it until it is interrupted. Then it is cancelled, has a moment to end, and is dropped; whatever it
/// still returns, it failed. What is interrupted before it has begun does not begin.
pub(super) async fn until<T, Call>(
    call: impl FnOnce() -> Call,
    interrupt: impl Future<Output = Failure>,
    cancel: &CancellationToken,
) -> Result<T, Failure>
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
        // A call that returns because it was interrupted did not do its work.
        biased;
        failure = interrupt => failure,
        result = &mut call => return result.map_err(Failure::Error),
    };
    cancel.cancel();
    let grace = match failure {
        Failure::LockLost => LOST_GRACE,
        _ => GRACE,
    };
    if begun.load(Ordering::Relaxed) {
        // Nothing is lost with the result: it comes from a call that was interrupted.
        let _ = timeout(grace, call).await;
    }
    Err(failure)
}

/// Ends after this time.
pub(super) async fn expired(limit: Duration) -> Failure {
    sleep(limit).await;
    Failure::Timeout(limit)
}

#[cfg(test)]
mod tests;
