//! Why a call of a plugin failed, in one short sentence.

use std::time::Duration;

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
    /// Returns whether it is not the plugin's own failure, so that its failure policy does not decide.
    pub fn is_of_the_host(&self) -> bool {
        matches!(self, Self::Overdue | Self::NamespaceUnread)
    }

    /// Returns one word for a metric: `reported`, `memory`, `timeout`, `stack`, `limit`, `trap`, `contract`,
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
}

/// Returns bytes for people: `16 MiB`, `1.5 KiB`.
pub fn show_bytes(bytes: usize) -> String {
    let units = [("GiB", 1_usize << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, size)| bytes >= *size);
    match unit {
        None => format!("{bytes} bytes"),
        Some((name, size)) if bytes.is_multiple_of(size) => format!("{} {name}", bytes / size),
        Some((name, size)) => format!("{}.{} {name}", bytes / size, bytes % size * 10 / size),
    }
}

/// Returns a duration for people: `1 s`, `250 ms`.
pub fn show_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}
