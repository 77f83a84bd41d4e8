//! What is measured of Cleaners. No label is the name of an object.

use prometheus_client::registry::Registry;

use crate::engine::metrics::Objects;
use crate::outbound::OutboundMetrics;

/// The name of the controller in logs and metrics.
pub(super) const CONTROLLER: &str = "cleaner";

/// Metrics of the duty; cheap to clone, registered once.
#[derive(Clone)]
pub(crate) struct CleanerMetrics {
    /// All requests out of the cluster.
    pub(super) outbound: OutboundMetrics,
}

impl CleanerMetrics {
    /// Registers all of them.
    pub(crate) fn register(_: &mut Registry, _: &Objects, outbound: OutboundMetrics) -> Self {
        Self { outbound }
    }
}
