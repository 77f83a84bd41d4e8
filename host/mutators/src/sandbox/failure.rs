//! Why a call of a plugin came to nothing, in one short sentence.

use std::time::Duration;

use wasmtime::Trap;

use crate::limits::{HANDLES, PAYLOAD_BYTES, show_bytes, show_duration};
use crate::text::one_line;

/// Why a call failed. Each reads as the rest of a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The plugin itself says that it could not do its work.
    #[error("{0}")]
    Reported(String),
    /// It asked for more memory than it may have.
    #[error("it needs more memory than its limit of {}", show_bytes(*.limit))]
    OutOfMemory {
        /// The limit in bytes.
        limit: usize,
    },
    /// It did not return in time.
    #[error("it ran longer than its limit of {}", show_duration(*.limit))]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// It called itself too deeply.
    #[error("it exhausted its call stack")]
    StackExhausted,
    /// It wanted more of something that the host limits.
    #[error("{0}")]
    OverLimit(String),
    /// WebAssembly stopped it.
    #[error("it crashed: {0}")]
    Trapped(String),
    /// It broke the rules of the contract: text that is not UTF-8, memory that is not its own.
    #[error("it passed something that is not of the contract: {0}")]
    BrokeContract(String),
    /// It was not called: the time for building its chain was over.
    #[error(
        "it was not tried, since building the chain takes too long; lower `limits.timeout` of slow plugins"
    )]
    NoTimeLeft,
    /// Nobody waits for the pod any more.
    #[error("it was not done when the time for this pod was over")]
    Overdue,
}

impl CallFailure {
    /// One word for a metric: `reported`, `memory`, `timeout`, `stack`, `limit`, `trap`, `contract`,
    /// `no_time` or `overdue`.
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
        }
    }

    /// It handed over more in one call than the host takes.
    pub(super) fn payload() -> Self {
        Self::OverLimit(format!(
            "it passed more than {} to the host at once",
            show_bytes(PAYLOAD_BYTES)
        ))
    }

    /// Names what stopped the guest. The host's own limits travel through the engine as a `CallFailure`; for the rest the
    /// innermost error tells the cause, and everything around it is a backtrace. The engine's own limits have no types.
    pub(super) fn of(error: &wasmtime::Error, timeout: Duration) -> Self {
        if let Some(failure) = error.downcast_ref::<Self>() {
            return failure.clone();
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => return Self::TimedOut { limit: timeout },
            Some(Trap::StackOverflow) => return Self::StackExhausted,
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
        let over = if cause.contains("fuel allocated for hostcalls") {
            return Self::payload();
        } else if cause.contains("handle limit exceeded") {
            format!("it holds more than {HANDLES} handles at once")
        } else if cause.contains("resource limit exceeded") {
            format!("it brings too much: {}", one_line(&cause, 200))
        } else {
            return Self::BrokeContract(one_line(&cause, 200));
        };
        Self::OverLimit(over)
    }
}

fn trap_name(trap: Trap) -> String {
    let text = trap.to_string();
    text.strip_prefix("wasm trap: ")
        .unwrap_or(&text)
        .replace('`', "")
}
