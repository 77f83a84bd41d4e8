//! The clock of the time limits: a thread that advances the engine's epoch.
//!
//! It is an OS thread, not a timer of an asynchronous runtime, since a starved runtime must not disable the limits.

use std::time::Duration;
use std::{io, thread};

/// How often the epoch advances, and so how precise a time limit is.
const TICK: Duration = Duration::from_millis(2);

/// Starts the thread. It holds the engine only weakly and ends within a tick after it.
pub(super) fn start(engine: &wasmtime::Engine) -> io::Result<()> {
    let engine = engine.weak();
    thread::Builder::new()
        .name("podloom-epoch".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
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
