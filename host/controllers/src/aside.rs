//! Work that takes long, on threads that nobody waits for.

use std::future;
use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// Runs work on a thread of its own: on one of the runtime's, probes and the Lease would wait for it.
///
/// It cannot be stopped, so it must have an end.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends before the work has begun, and drops whoever waits here.
            Err(_) => future::pending().await,
        },
    }
}
