//! Threads with enough stack for what `cel` does by recursion: parsing, evaluating, and dropping.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, scope};

/// The stack of a thread that runs `cel`. The worst conditions of the tests need between 4 and 12 MiB of it without optimization.
/// Only what is used takes memory.
const BYTES: usize = 64 << 20;
const NAME: &str = "cel";

/// Why work was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// There is no place in the queue.
    #[error("conditions cannot be evaluated now: {0}")]
    Full(#[source] podloom_turns::Full),
    /// The operating system gave no thread.
    #[error("no thread could be started: {0}")]
    Start(#[source] io::Error),
    /// The work panicked: a defect in `cel`, or in ours.
    #[error("an internal error: {0}")]
    Panic(String),
}

/// Runs the work on a thread of its own, and waits for it.
///
/// # Errors
/// If there is no thread, or the work panics.
pub(crate) fn wait_for<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Broken> {
    let threads = scope(|scope| {
        let thread = Builder::new().name(NAME.to_owned()).stack_size(BYTES);
        let thread = thread.spawn_scoped(scope, || caught(work));
        thread.map(std::thread::ScopedJoinHandle::join)
    });
    match threads {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Broken::Panic(text(panic.as_ref()))),
        Err(error) => Err(Broken::Start(error)),
    }
}

/// Runs the work on a thread of its own, which goes on whatever happens to the caller.
///
/// # Errors
/// If there is no thread.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) -> Result<(), Broken> {
    let thread = Builder::new().name(NAME.to_owned()).stack_size(BYTES);
    thread.spawn(work).map(drop).map_err(Broken::Start)
}

/// Runs the work here.
///
/// # Errors
/// If it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Broken> {
    // Whatever the work was changing is dropped with it.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Broken::Panic(text(panic.as_ref())))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic")
        .to_owned()
}
