//! What to do about machines that are not configured.

use jiff::Timestamp;
use podloom_api::names::infrastructure::reason;
use podloom_engine::plan::later;

use super::{Case, Step};
use crate::cluster::action::Ask;
use crate::cluster::change::Change;
use crate::cluster::shortage::Shortage;
use crate::cluster::world::World;
use crate::im::{ImState, InfrastructureId, Reading};

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing is wrong.
    None,
    /// To wait.
    Wait,
    /// This request.
    Send(Change),
}

/// Whether the operation that is under way is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    Ahead,
    Passed,
}

/// What an infrastructure lacks although its machines are configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lack {
    /// It has no outputs: an IM that crashed forgot what it was told.
    pub(crate) has_no_template: bool,
    /// Machines.
    pub(crate) shortage: Shortage,
}

impl Lack {
    fn remedy(self) -> Remedy {
        match self.shortage {
            _ if self.has_no_template => Remedy::Send(Change::Resend),
            Shortage::Found => Remedy::Send(Change::Resend),
            Shortage::Seen(_) => Remedy::Wait,
            Shortage::None | Shortage::Sent | Shortage::Accepted(_) => Remedy::None,
        }
    }
}

/// Returns what helps in a state: a table, in which the first row that fits counts.
pub(crate) fn remedy(reading: &Reading, lack: Lack, deadline: Deadline) -> Remedy {
    let late = deadline == Deadline::Passed;
    let has_machines = !reading.vms.is_empty();
    match reading.state {
        ImState::Configured => lack.remedy(),
        ImState::Pending | ImState::Deleting if late => Remedy::Send(Change::Resend),
        ImState::Pending | ImState::Deleting => Remedy::Wait,
        ImState::Running if late => Remedy::Send(Change::Reconfigure),
        ImState::Running => Remedy::Wait,
        ImState::Unconfigured => Remedy::Send(Change::Reconfigure),
        // To configure it again would erase the cause.
        ImState::Failed => Remedy::Send(Change::Resend),
        ImState::Stopped | ImState::Off => Remedy::Send(Change::Start),
        ImState::Unknown if !has_machines || late => Remedy::Send(Change::Resend),
        ImState::Unknown => Remedy::Wait,
    }
}

pub(super) fn step(case: Case<'_>, id: &InfrastructureId, reading: &Reading) -> Step {
    let Case { world, now, .. } = case;
    let deadline = match world.is_overdue(now) {
        true => Deadline::Passed,
        false => Deadline::Ahead,
    };
    let again = read_again(world, now);
    let lack = Lack {
        has_no_template: world.known.has_no_template,
        shortage: world.known.shortage,
    };
    let change = match remedy(reading, lack, deadline) {
        // Whoever looks for drift wakes the Cluster.
        Remedy::None => return Step::Rest,
        Remedy::Wait => return Step::Wait(again),
        Remedy::Send(change) => change,
    };
    if change == Change::Resend && world.whole().is_none() {
        return Step::Wait(again);
    }
    if lacks_log(world, reading) {
        return case.ask(Ask::Log(id.clone()));
    }
    let refusal = world.known.refusal.as_ref();
    let is_rejected = refusal.is_some_and(|it| it.reason == reason::TEMPLATE_REJECTED);
    if !world.is_repaired() || (is_rejected && change == Change::Resend) {
        return Step::Wait(again);
    }
    match case.retry_at().filter(|at| now < *at) {
        Some(at) => Step::Wait(at.min(again)),
        None => case.change(change),
    }
}

/// When the reading must be made again, or the deadline is passed.
fn read_again(world: &World, now: Timestamp) -> Timestamp {
    let reading = world.known.reading.as_ref();
    let again = reading.map_or(now, |reading| later(reading.at, world.poll()));
    match world.deadline().filter(|deadline| now < *deadline) {
        Some(deadline) => again.min(deadline),
        None => again,
    }
}

/// Whether IM may say why it failed, and was not asked since the last request.
fn lacks_log(world: &World, reading: &Reading) -> bool {
    if !matches!(reading.state, ImState::Failed | ImState::Unconfigured) {
        return false;
    }
    let last = world.durable.last_call_at();
    let log = world.known.log.as_ref().map(|log| log.at);
    log.is_none() || log < last
}

#[cfg(test)]
mod tests;
