//! What the operator's flags say about tunnels.

use std::time::Duration;

use super::version::ClientVersion;

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
