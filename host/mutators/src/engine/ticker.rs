//! The epoch thread, which enforces time limits: it advances the engine's epoch while a call runs, and sleeps while none does.
//!
//! It is an OS thread, not a timer of the asynchronous runtime, since a starved runtime must not disable the limits.

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use super::permits::Permits;

/// How often the epoch advances, which is the precision of time limits.
const TICK: Duration = Duration::from_millis(2);

/// Starts the thread. It ends within a tick after the permits are closed.
///
/// The deadline of a call is relative to the epoch at which it begins, so pauses of the thread do not matter. The first tick
/// comes a full interval after the thread wakes.
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

/// How many ticks it takes until at least `limit` has passed.
pub(crate) fn ticks(limit: Duration) -> u64 {
    let ticks = limit.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks)
        .unwrap_or(u64::MAX >> 1)
        .saturating_add(1)
}
