//! What the programs of the control plane need.

use std::time::Duration;

use anyhow::Result;
use podloom_control_plane::{ControlPlane, Program};
use podloom_tests::usage::{Usage, usage};

/// What one program of the control plane needed.
pub(crate) struct PlaneCost {
    pub(crate) program: Program,
    pub(crate) cpu: Duration,
    /// Resident at the end, in bytes.
    pub(crate) resident: u64,
}

/// The process of the API server.
pub(crate) fn api_server(plane: &ControlPlane) -> Option<u32> {
    let processes = plane.processes();
    let found = processes.iter().find(|(it, _)| *it == Program::ApiServer);
    found.map(|(_, pid)| *pid)
}

/// What all programs of a control plane have used so far.
pub(crate) fn usages(plane: Option<&ControlPlane>) -> Result<Vec<(Program, Usage)>> {
    let processes = plane.map(ControlPlane::processes).unwrap_or_default();
    let all = processes.into_iter();
    all.map(|(program, pid)| Ok((program, usage(pid)?)))
        .collect()
}

/// What they have used since then.
pub(crate) fn since(before: &[(Program, Usage)], now: Vec<(Program, Usage)>) -> Vec<PlaneCost> {
    let cost = |((program, now), (_, before)): ((Program, Usage), &(Program, Usage))| PlaneCost {
        program,
        cpu: now.cpu.saturating_sub(before.cpu),
        resident: now.resident,
    };
    now.into_iter().zip(before).map(cost).collect()
}
