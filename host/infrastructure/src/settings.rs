//! What the controllers of infrastructures run with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use podloom_control_loop::Recorder;
use podloom_engine::outbound::Cidr;

/// What the operator's flags say about infrastructures.
#[derive(Clone)]
pub struct InfrastructureSetup {
    /// How many Clusters are reconciled at once, in each watch scope; 16 by default.
    pub workers: u16,
    /// How long to wait after a request whose outcome is unknown before it is looked up; 60 seconds by default.
    pub settle: Duration,
    /// The pause between two comparisons with what Infrastructure Managers have, plus or minus a tenth; 300 seconds by default.
    pub drift_interval: Duration,
    /// Whether the API servers of clusters are asked whether they answer.
    pub probe_clusters: bool,
    /// The namespace of the Secrets of GlobalClouds and GlobalInfrastructureProviders.
    pub global_secret_namespace: String,
    /// Addresses that requests may go to although the policy blocks them.
    pub allow: Vec<Cidr>,
    /// Addresses that no request may go to.
    pub deny: Vec<Cidr>,
    /// Receives the measurements of the loops `infrastructure-drift`, `infrastructure-orphans` and `infrastructure-secrets`.
    pub recorder: Arc<dyn Recorder>,
}

impl fmt::Debug for InfrastructureSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InfrastructureSetup")
            .field("workers", &self.workers)
            .field("settle", &self.settle)
            .field("drift_interval", &self.drift_interval)
            .field("probe_clusters", &self.probe_clusters)
            .field("global_secret_namespace", &self.global_secret_namespace)
            .field("allow", &self.allow)
            .field("deny", &self.deny)
            .finish_non_exhaustive()
    }
}
