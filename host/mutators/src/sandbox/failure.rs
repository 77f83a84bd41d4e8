//! Why a call of a plugin failed, in one short sentence.

use std::collections::BTreeSet;
use std::time::Duration;

use wasmtime::{Trap, WasmBacktrace};

use crate::engine::BACKTRACE_FRAMES;
use crate::limits::{HANDLES, PAYLOAD_BYTES, show_bytes, show_duration};
use crate::text::one_line;

/// Why a call failed. Each message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The plugin itself returned `failed`.
    #[error("{0}")]
    Reported(String),
    /// It needs more memory than its limit.
    #[error("it needs more memory than its limit of {}", show_bytes(*.limit))]
    OutOfMemory {
        /// The limit in bytes.
        limit: usize,
    },
    /// It ran longer than its limit.
    #[error("it ran longer than its limit of {}", show_duration(*.limit))]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// Its calls are nested too deeply.
    #[error(
        "it ran out of stack: its functions call each other too deeply; use a loop in place of recursion"
    )]
    StackExhausted,
    /// It exceeded another limit of the host.
    #[error("{0}")]
    OverLimit(String),
    /// It trapped.
    #[error("it crashed: {0}")]
    Trapped(String),
    /// It passed something that the contract does not allow, such as text that is not UTF-8, or a pointer out of bounds.
    #[error("it broke the plugin contract: {0}")]
    BrokeContract(String),
    /// It was not called: building its chain took too long.
    #[error(
        "it was not tried, because building the chain took too long; lower `limits.timeout` of slow plugins"
    )]
    NoTimeLeft,
    /// The deadline of the pod has passed.
    #[error("it did not finish before the deadline of this pod")]
    Overdue,
    /// It needs labels or annotations of a namespace that are not known.
    #[error("it needs the labels or annotations of the pod's namespace, which could not be read")]
    NamespaceUnread,
}

impl CallFailure {
    /// Whether it is not the plugin's own failure, so that its failure policy does not decide.
    pub(crate) fn is_of_the_host(&self) -> bool {
        matches!(self, Self::Overdue | Self::NamespaceUnread)
    }

    /// One word for a metric: `reported`, `memory`, `timeout`, `stack`, `limit`, `trap`, `contract`,
    /// `no_time`, `overdue` or `namespace`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reported(_) => "reported",
            Self::OutOfMemory { .. } => "memory",
            Self::TimedOut { .. } => "timeout",
            Self::StackExhausted => "stack",
            Self::OverLimit(_) => "limit",
            Self::Trapped(_) => "trap",
            Self::BrokeContract(_) => "contract",
            Self::NoTimeLeft => "no_time",
            Self::Overdue => "overdue",
            Self::NamespaceUnread => "namespace",
        }
    }

    /// It passed more in one call than the host accepts.
    pub(super) fn payload() -> Self {
        Self::OverLimit(format!(
            "it passed more than {} to the host at once",
            show_bytes(PAYLOAD_BYTES)
        ))
    }

    /// Finds out why a call failed. Limits of the host pass through wasmtime as a `CallFailure`. Of other errors the innermost
    /// one is the cause, and the errors around it are a backtrace. Limits of wasmtime have no types, so their text is matched.
    pub(super) fn of(error: &wasmtime::Error, timeout: Duration) -> Self {
        if let Some(failure) = error.downcast_ref::<Self>() {
            return failure.clone();
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => return Self::TimedOut { limit: timeout },
            Some(Trap::StackOverflow) => return Self::StackExhausted,
            // The stack of Rust's plugins is at the start of their memory, so one that overflows leaves the memory.
            Some(Trap::MemoryOutOfBounds) if is_recursive(error) => return Self::StackExhausted,
            Some(trap @ Trap::MemoryOutOfBounds) => {
                return Self::Trapped(format!(
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
            ) => return Self::BrokeContract(trap_name(*trap)),
            Some(trap) => return Self::Trapped(trap_name(*trap)),
            None => {}
        }
        let cause = error.root_cause().to_string();
        if let Some(import) = undefined(&cause) {
            return Self::Trapped(format!(
                "it called {}; plugins have no files, clock, randomness, environment or network",
                one_line(import, 200)
            ));
        }
        let over = if cause.contains("fuel allocated for hostcalls") {
            return Self::payload();
        } else if cause.contains("handle limit exceeded") {
            format!("it holds more than {HANDLES} handles at once")
        } else if cause.contains("resource limit exceeded") {
            format!(
                "it exceeds a limit of the engine: {}",
                one_line(&cause, 200)
            )
        } else {
            return Self::BrokeContract(one_line(&cause, 200));
        };
        Self::OverLimit(over)
    }
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
