//! The infrastructure controller's part of the operator.

use std::sync::Arc;

use podloom_control_loop::LoopMetrics;
use podloom_controllers::InfrastructureSetup;

use super::own_pod;
use crate::cli::{InfrastructureArguments, OwnPodArguments};

/// Returns what the infrastructure controller runs with.
pub(super) fn setup(
    arguments: &InfrastructureArguments,
    own: &OwnPodArguments,
    loops: Arc<LoopMetrics>,
) -> InfrastructureSetup {
    InfrastructureSetup {
        workers: arguments.workers.get(),
        settle: arguments.settle,
        drift_interval: arguments.drift_interval,
        probe_clusters: arguments.probe_clusters,
        global_secret_namespace: global_secret_namespace(arguments, own),
        allow: arguments.allow.clone(),
        deny: arguments.deny.clone(),
        recorder: loops,
    }
}

/// The namespace of the Secrets of cluster-scoped objects.
pub(super) fn global_secret_namespace(
    arguments: &InfrastructureArguments,
    own: &OwnPodArguments,
) -> String {
    let given = arguments.global_secret_namespace.clone();
    given.unwrap_or_else(|| own_pod::namespace(own))
}
