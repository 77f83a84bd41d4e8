//! The state of an infrastructure, in IM's words.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// What IM calls the state of an infrastructure or of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImState {
    /// It is being created.
    Pending,
    /// The machines run, and are being configured.
    Running,
    /// All is configured.
    Configured,
    /// The configuration failed.
    Unconfigured,
    /// The machines are stopped.
    Stopped,
    /// The machines are off.
    Off,
    /// The creation failed.
    Failed,
    /// IM does not know.
    Unknown,
    /// It is being deleted.
    Deleting,
}

impl ImState {
    const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Configured,
        Self::Unconfigured,
        Self::Stopped,
        Self::Off,
        Self::Failed,
        Self::Unknown,
        Self::Deleting,
    ];

    /// Returns the state of that word; none if IM has no such state.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns the state of a word that was stored; `Unknown` for a word that is none.
    pub(crate) fn parse(word: &str) -> Self {
        Self::of(word).unwrap_or(Self::Unknown)
    }

    /// Returns IM's word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Configured => "configured",
            Self::Unconfigured => "unconfigured",
            Self::Stopped => "stopped",
            Self::Off => "off",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Deleting => "deleting",
        }
    }
}

impl fmt::Display for ImState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of an infrastructure and of each of its machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reading {
    pub(crate) state: ImState,
    /// The state of each machine, by IM's id of it.
    pub(crate) vms: BTreeMap<String, ImState>,
}
