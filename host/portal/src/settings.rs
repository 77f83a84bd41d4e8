//! What the operator's flags say about tunnels.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What all tunnels have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelSettings {
    /// The image of the tunnel client, for TunnelClasses without one.
    pub image: String,
    /// The version of the client in that image.
    pub version: ClientVersion,
    /// How long a rollout may make no progress before it has failed.
    pub progress_deadline: Duration,
}

impl Default for TunnelSettings {
    /// Returns the settings of an operator without flags.
    fn default() -> Self {
        Self {
            image: "ghcr.io/gosuda/portal-tunnel:2.4.3".to_owned(),
            version: ClientVersion::of(2, 4, 3),
            progress_deadline: Duration::from_mins(2),
        }
    }
}

// The version of a tunnel client. It decides which flags the client understands.

/// A version `X.Y.Z` of the tunnel client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientVersion([u64; 3]);

/// Why a text is not the version of a tunnel client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version; write three numbers with dots between them, such as 2.4.3")]
pub struct VersionError;

impl ClientVersion {
    /// The oldest version whose flags we know.
    pub const OLDEST: Self = Self::of(2, 1, 1);
    /// The first version that serves metrics. Newer ones have the same flags.
    pub const WITH_METRICS: Self = Self::of(2, 4, 3);

    /// Returns a version.
    pub const fn of(major: u64, minor: u64, patch: u64) -> Self {
        Self([major, minor, patch])
    }
}

impl FromStr for ClientVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let numbers: Option<Vec<u64>> = text.split('.').map(number).collect();
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers.map(Self).ok_or(VersionError)
    }
}

/// A number without sign and leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_plain && !is_padded)
}

impl fmt::Display for ClientVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests;
