//! What the status of a Cluster says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use podloom_api::{ClusterState, ClusterStatus};

/// A condition as `Status/Reason`; empty if there is none.
#[must_use]
pub fn condition(status: &ClusterStatus, kind: &str) -> String {
    found(status, kind).map_or_else(String::new, |it| format!("{}/{}", it.status, it.reason))
}

/// The message of a condition; empty if there is none.
#[must_use]
pub fn message(status: &ClusterStatus, kind: &str) -> String {
    found(status, kind).map_or_else(String::new, |it| it.message.clone())
}

fn found<'s>(status: &'s ClusterStatus, kind: &str) -> Option<&'s Condition> {
    let conditions = status.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether all machines are configured, as many as this, and the kubeconfig is stored.
#[must_use]
pub fn is_configured(status: &ClusterStatus, machines: i32) -> bool {
    let vms = status.vms.unwrap_or_default();
    let is_done = [ClusterState::Connecting, ClusterState::Online]
        .map(Some)
        .contains(&status.state);
    is_done
        && (vms.total, vms.configured) == (machines, machines)
        && condition(status, "InfrastructureReady") == "True/Configured"
        && condition(status, "KubeconfigReady") == "True/Stored"
}

/// A status in one line, for a test that waited in vain.
pub(super) fn told(status: &ClusterStatus) -> String {
    let conditions = status.conditions.iter().flatten();
    let conditions: Vec<String> = conditions
        .map(|it| format!("{}={}/{}: {}", it.type_, it.status, it.reason, it.message))
        .collect();
    let ClusterStatus {
        state,
        vms,
        cluster_id,
        operation,
        ..
    } = status;
    format!("{state:?} {vms:?} {cluster_id:?} {operation:?} {conditions:#?}")
}
