//! The state of a Cluster: a table, in which the first row that fits counts.

use podloom_api::ClusterState;

/// What the state depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// It is being deleted.
    pub(crate) is_deleted: bool,
    /// Trying again is useless until something changes.
    pub(crate) is_stalled: bool,
    /// Something failed and is tried again.
    pub(crate) is_failing: bool,
    /// A create request was recorded, and the machines were never configured.
    pub(crate) is_created: bool,
    /// An update, a repair or a start is under way, or about to be.
    pub(crate) is_changed: bool,
    /// The machines are configured.
    pub(crate) is_configured: bool,
    /// The kubeconfig is stored, and the API server answers.
    pub(crate) is_connected: bool,
}

/// Returns the state.
pub(crate) fn state(facts: Facts) -> ClusterState {
    let rows = [
        (facts.is_deleted, ClusterState::Deleting),
        (facts.is_stalled, ClusterState::Failed),
        (facts.is_failing, ClusterState::FailingReconciliation),
        (facts.is_created, ClusterState::Creating),
        (facts.is_changed, ClusterState::Reconciling),
        (
            facts.is_configured && facts.is_connected,
            ClusterState::Online,
        ),
        (facts.is_configured, ClusterState::Connecting),
    ];
    let fits = rows.into_iter().find(|(fits, _)| *fits);
    fits.map_or(ClusterState::Pending, |(_, state)| state)
}

#[cfg(test)]
mod tests;
