//! Finds out why a call of a plugin failed.

use std::collections::BTreeSet;
use std::time::Duration;

use podloom_mutation::{CallFailure, show_bytes};
use wasmtime::{Trap, WasmBacktrace};

use crate::engine::BACKTRACE_FRAMES;
use crate::limits::{HANDLES, PAYLOAD_BYTES};
use crate::text::one_line;

/// It passed more in one call than the host accepts.
pub(super) fn payload() -> CallFailure {
    CallFailure::OverLimit(format!(
        "it passed more than {} to the host at once",
        show_bytes(PAYLOAD_BYTES)
    ))
}

/// Finds out why a call failed. Limits of the host pass through wasmtime as a `CallFailure`. Of other errors the innermost
/// one is the cause, and the errors around it are a backtrace. Limits of wasmtime have no types, so their text is matched.
pub(super) fn of(error: &wasmtime::Error, timeout: Duration) -> CallFailure {
    if let Some(failure) = error.downcast_ref::<CallFailure>() {
        return failure.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return CallFailure::TimedOut { limit: timeout },
        Some(Trap::StackOverflow) => return CallFailure::StackExhausted,
        // The stack of Rust's plugins is at the start of their memory, so one that overflows leaves the memory.
        Some(Trap::MemoryOutOfBounds) if is_recursive(error) => return CallFailure::StackExhausted,
        Some(trap @ Trap::MemoryOutOfBounds) => {
            return CallFailure::Trapped(format!(
                "{}; perhaps its stack was too small for its local values",
                trap_name(*trap)
            ));
        }
        Some(
            trap @ (Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidDiscriminant
            | Trap::InvalidChar
            | Trap::UnalignedPointer),
        ) => return CallFailure::BrokeContract(trap_name(*trap)),
        Some(trap) => return CallFailure::Trapped(trap_name(*trap)),
        None => {}
    }
    let cause = error.root_cause().to_string();
    if let Some(import) = undefined(&cause) {
        return CallFailure::Trapped(format!(
            "it called {}; plugins have no files, clock, randomness, environment or network",
            one_line(import, 200)
        ));
    }
    let over = if cause.contains("fuel allocated for hostcalls") {
        return payload();
    } else if cause.contains("handle limit exceeded") {
        format!("it holds more than {HANDLES} handles at once")
    } else if cause.contains("resource limit exceeded") {
        format!(
            "it exceeds a limit of the engine: {}",
            one_line(&cause, 200)
        )
    } else {
        return CallFailure::BrokeContract(one_line(&cause, 200));
    };
    CallFailure::OverLimit(over)
}

/// The import that was called, if wasmtime says that nobody defines it: only those of WASI get so far, in plugins that are Large.
fn undefined(cause: &str) -> Option<&str> {
    let (import, _) = cause.strip_prefix("unknown import: `")?.split_once('`')?;
    Some(import)
}

/// Whether the innermost calls are those of a few functions, again and again.
fn is_recursive(error: &wasmtime::Error) -> bool {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else {
        return false;
    };
    let calls: Vec<u32> = backtrace
        .frames()
        .iter()
        .map(|frame| frame.func_index())
        .collect();
    let functions: BTreeSet<u32> = calls.iter().copied().collect();
    calls.len() >= BACKTRACE_FRAMES && functions.len() <= calls.len() / 2
}

/// What a plugin lacks, if its last words come from a part of Rust's standard library that needs it.
pub(super) fn lacking(words: &str) -> Option<&'static str> {
    const LACKING: [(&str, &str); 6] = [
        (
            "time not implemented on this platform",
            "plugins have no clock",
        ),
        ("can't sleep", "plugins have no clock and no threads"),
        ("failed to spawn thread", "plugins have no threads"),
        ("getrandom", "plugins have no randomness"),
        ("no filesystem on this platform", "plugins have no files"),
        (
            "operation not supported on this platform",
            "plugins have no files, no threads and no network",
        ),
    ];
    let found = LACKING.iter().find(|(part, _)| words.contains(part));
    found.map(|(_, lacking)| *lacking)
}

fn trap_name(trap: Trap) -> String {
    let text = trap.to_string();
    text.strip_prefix("wasm trap: ")
        .unwrap_or(&text)
        .replace('`', "")
}
