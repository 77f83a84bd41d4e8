//! Shows on standard error what a long step does, that it is still running, and how long it took.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a long step shows that it is still running.
const SIGN_OF_LIFE: Duration = Duration::from_mins(1);

/// Runs a step under a name of a word or two; `what` says what it does and how long that takes.
pub(crate) fn step<T, E>(
    name: &str,
    what: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    eprintln!("{name}: {what}");
    let start = Instant::now();
    let (running, ended) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "{name}: still running, {} s so far",
                    start.elapsed().as_secs()
                );
            }
        });
        let result = work();
        drop(running);
        result
    });
    let outcome = match &result {
        Ok(_) => "done",
        Err(_) => "FAILED",
    };
    eprintln!("{name}: {outcome} after {} s", start.elapsed().as_secs());
    result
}
