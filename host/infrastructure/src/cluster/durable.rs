//! What a status says that nothing else does: it cannot be computed again, so it is carried from one status to the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{CloudRef, ClusterOperation, ClusterStatus, Machines, OperationKind};
use serde::Serialize;
use serde_json::Value;

use crate::im::InfrastructureId;

/// What is carried from one status to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Durable {
    /// The binding.
    pub(crate) scheduled_to: Option<CloudRef>,
    /// Where the infrastructure is, or where the create request went that may have made it.
    pub(crate) running_on: Option<CloudRef>,
    /// Its id; none before it is known.
    pub(crate) id: Option<InfrastructureId>,
    /// The URL that last answered for it, or that the create request went to.
    pub(crate) provider_url: Option<String>,
    /// The template of the last accepted request. While the outcome of a create request is unknown, the template of that one.
    #[serde(skip)]
    pub(crate) applied: Option<Arc<Value>>,
    /// The names of removed nodes.
    pub(crate) retired: BTreeSet<String>,
    /// The operation that is under way, or the last one.
    pub(crate) operation: Option<ClusterOperation>,
    /// IM's last word about the state.
    pub(crate) im_state: Option<String>,
    pub(crate) machines: Option<Machines>,
}

impl Durable {
    /// Reads a status.
    pub(crate) fn of(status: Option<&ClusterStatus>) -> Self {
        let Some(status) = status else {
            return Self::default();
        };
        Self {
            scheduled_to: status.scheduled_to.clone(),
            running_on: status.running_on.clone(),
            // One that is no id was not written by us. It counts as lost, so it is looked up.
            id: status
                .cluster_id
                .as_deref()
                .and_then(InfrastructureId::parse),
            provider_url: status.provider_url.clone(),
            applied: status.last_applied_tosca.clone().map(Arc::new),
            retired: status.retired_nodes.iter().flatten().cloned().collect(),
            // A status may be forged: a negative number would never grow to one.
            operation: status.operation.clone().map(|it| ClusterOperation {
                attempts: it.attempts.max(0),
                ..it
            }),
            im_state: status.im_state.clone(),
            machines: status.vms,
        }
    }

    /// Returns a status that says this, and nothing else.
    pub(crate) fn status(&self) -> ClusterStatus {
        let retired: Vec<String> = self.retired.iter().cloned().collect();
        ClusterStatus {
            scheduled_to: self.scheduled_to.clone(),
            running_on: self.running_on.clone(),
            cluster_id: self.id.as_ref().map(ToString::to_string),
            provider_url: self.provider_url.clone(),
            last_applied_tosca: self.applied.as_deref().cloned(),
            retired_nodes: (!retired.is_empty()).then_some(retired),
            operation: self.operation.clone(),
            im_state: self.im_state.clone(),
            vms: self.machines,
            ..ClusterStatus::default()
        }
    }

    /// Whether it says nothing of an infrastructure.
    pub(crate) fn is_empty(&self) -> bool {
        self.id.is_none() && self.operation.is_none()
    }

    /// The operation, if it is under way.
    pub(crate) fn under_way(&self) -> Option<&ClusterOperation> {
        let operation = self.operation.as_ref();
        operation.filter(|it| it.finished_at.is_none())
    }

    /// When the last mutating request was recorded.
    pub(crate) fn last_call_at(&self) -> Option<Timestamp> {
        Some(self.operation.as_ref()?.last_call_at.as_ref()?.0)
    }

    /// Whether a create request was recorded whose outcome is not.
    pub(crate) fn is_attempt_open(&self) -> bool {
        self.id.is_none() && self.last_call_at().is_some()
    }

    /// What the annotation of the Secret with the kubeconfig says.
    pub(crate) fn mark(&self) -> Option<String> {
        let id = self.id.as_ref()?;
        let started = self.operation.as_ref().map(|it| it.started_at.0);
        Some(match started {
            Some(started) => format!("{id}/{started}"),
            None => format!("{id}/"),
        })
    }
}

/// Returns an operation without any request yet.
pub(crate) fn new_operation(kind: OperationKind, at: Timestamp) -> ClusterOperation {
    ClusterOperation {
        kind,
        started_at: micros(at),
        last_call_at: None,
        finished_at: None,
        attempts: 0,
    }
}

/// Returns a time as the status can hold it: in whole microseconds.
pub(crate) fn micros(at: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at))
}

/// A request that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Change {
    Create,
    /// Send what is different.
    Update,
    /// Send the last template again.
    Resend,
    Reconfigure,
    Start,
    Delete {
        force: bool,
    },
}

impl Change {
    /// The operation that it begins, if none is under way that it is part of.
    pub(crate) fn kind(self) -> OperationKind {
        match self {
            Self::Create => OperationKind::Create,
            Self::Update | Self::Resend => OperationKind::Update,
            Self::Reconfigure => OperationKind::Reconfigure,
            Self::Start => OperationKind::Start,
            Self::Delete { .. } => OperationKind::Delete,
        }
    }
}

#[cfg(test)]
mod tests;
