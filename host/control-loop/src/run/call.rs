//! Calls of the user's code: limits their time and catches their panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::pin;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::BoxError;

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

/// Runs a call until it ends or is interrupted. An interrupted call is cancelled, gets a grace period, and is dropped; whatever it still
/// returns, it counts as failed. A call that is interrupted before it starts never starts.
pub(super) async fn until<T, Call>(
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
