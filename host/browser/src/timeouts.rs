//! How long the steps of a session may take.

use std::time::Duration;

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the creation of a Browser until it has a pod, and from then until the pod runs; 5 minutes each by default.
    pub pod_creation: Duration,
    /// How long to wait for a pod to terminate; 5 minutes by default.
    pub pod_deletion: Duration,
    /// How long a failed Browser stays; none by default.
    pub failed_retention: Duration,
    /// How long a Browser waits for its BrowserConfig from when it is first seen; 5 seconds by default.
    pub config_grace: Duration,
    /// How long a container may lack the Secret or ConfigMap that it needs, from when that is first seen; 10 seconds by default.
    pub container_config_grace: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            pod_creation: Duration::from_mins(5),
            pod_deletion: Duration::from_mins(5),
            failed_retention: Duration::ZERO,
            config_grace: Duration::from_secs(5),
            container_config_grace: Duration::from_secs(10),
        }
    }
}
