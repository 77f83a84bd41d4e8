//! The phase of a PortalExpose: a table, in which the first row that fits counts.
//!
//! `Pending → Ready, Degraded, Failed`; `Ready ↔ Degraded`; `Ready, Degraded → Failed`; `Failed → Pending` only.

use podloom_api::PortalPhase;

/// What the phase depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// How many pods there should be.
    pub(crate) desired: i32,
    /// How many of them are ready, at most as many as there should be.
    pub(crate) ready: i32,
    /// Whether the Deployment's controller has seen its newest template, and made all pods from it.
    pub(crate) is_settled: bool,
    /// Whether the rollout made no progress for too long.
    pub(crate) is_overdue: bool,
    /// How many relays there are.
    pub(crate) targets: usize,
    /// How many of them serve the hostname.
    pub(crate) connected: usize,
    /// How many of them do not. Of the others nobody knows.
    pub(crate) disconnected: usize,
    /// What forbids to write the tunnel.
    pub(crate) blocked: Blocked,
    /// Whether the tunnel still has time to start.
    pub(crate) window: Window,
    /// The phase in the status.
    pub(crate) previous: Option<PortalPhase>,
}

/// What forbids to write the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Nothing.
    No,
    /// The Service is missing or lacks the port, so that nothing can be reached.
    ByService,
    /// Something else. A tunnel that runs goes on.
    Otherwise,
}

/// Whether a tunnel still has time to start: while it rolls, and for a moment after its pods are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Open,
    Closed,
}

/// Returns the phase for a status.
///
/// A PortalExpose leaves `Failed` for `Pending`, whatever fits. The next plan, made at once, goes on from there.
pub(crate) fn phase(facts: &Facts) -> PortalPhase {
    match (facts.previous, row(facts)) {
        (Some(PortalPhase::Failed), PortalPhase::Failed) => PortalPhase::Failed,
        (Some(PortalPhase::Failed), _) => PortalPhase::Pending,
        (_, fits) => fits,
    }
}

/// The first row of the table that fits.
fn row(facts: &Facts) -> PortalPhase {
    let Facts {
        desired,
        ready,
        targets,
        connected,
        ..
    } = *facts;
    let is_starting = matches!(
        facts.previous,
        None | Some(PortalPhase::Pending | PortalPhase::Failed)
    );
    if facts.blocked == Blocked::ByService || desired == 0 {
        PortalPhase::Failed
    } else if ready == desired
        && facts.is_settled
        && connected == targets
        && facts.blocked == Blocked::No
        && !facts.is_overdue
    {
        PortalPhase::Ready
    } else if facts.window == Window::Open {
        match is_starting && ready == 0 && connected == 0 {
            true => PortalPhase::Pending,
            // A rollout leaves no pod ready for a moment, and has not failed.
            false => PortalPhase::Degraded,
        }
    } else if ready == 0 || facts.disconnected == targets {
        PortalPhase::Failed
    } else {
        PortalPhase::Degraded
    }
}

#[cfg(test)]
mod tests;
