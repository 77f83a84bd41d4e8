//! The clock of the time limits: a thread that advances the engine's epoch while a call runs, and rests while none does.
//!
//! It is an OS thread, not a timer of an asynchronous runtime, since a starved runtime must not disable the limits.

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use super::permits::Permits;

/// How often the epoch advances, and so how precise a time limit is.
const TICK: Duration = Duration::from_millis(2);

/// Starts the thread. It ends within a tick after the permits were closed.
///
/// A call counts from the epoch at which it begins, so it does not matter for how long the clock stood still before. The
/// first tick comes a full interval after the clock was woken.
pub(super) fn start(
    permits: Arc<Permits>,
    mut tick: impl FnMut() + Send + 'static,
) -> io::Result<()> {
    thread::Builder::new()
        .name("podloom-epoch".to_owned())
        .spawn(move || {
            while permits.await_call() {
                thread::sleep(TICK);
                tick();
            }
        })?;
    Ok(())
}

/// The number of ticks after which at least `limit` has passed.
pub(crate) fn ticks(limit: Duration) -> u64 {
    let ticks = limit.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks)
        .unwrap_or(u64::MAX >> 1)
        .saturating_add(1)
}
