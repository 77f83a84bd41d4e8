//! What to do next about a Cluster.
//!
//! A pass sends at most one request to IM. What would be the second is due at once, in the next pass.

mod create;
mod existing;
mod kubeconfig;
mod registered;
mod release;
mod repair;

use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, Ask};
use super::backoff;
use super::change::Change;
use super::edit::Edit;
use super::world::{Settings, World};
use podloom_engine::plan::later;

pub(crate) use self::registered::step as registered;
pub(crate) use self::release::{End, end, step as release};

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Act(Action),
    /// Record a change, then send it.
    Change(Change),
    /// Nothing before this time, unless something changes.
    Wait(Timestamp),
    /// Nothing, unless something changes.
    Rest,
}

/// What a step is decided from, besides the world.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) world: &'a World,
    pub(crate) edit: &'a Edit,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
}

/// Decides the next step for a Cluster with a template that is not being deleted.
pub(crate) fn step(case: Case<'_>) -> Step {
    let of_infrastructure = infrastructure(case);
    if of_infrastructure.is_active() {
        return of_infrastructure;
    }
    of_infrastructure.or(kubeconfig::step(case))
}

fn infrastructure(case: Case<'_>) -> Step {
    let world = case.world;
    // What is somebody else's is left alone.
    if world.rival.is_some() || world.resolved().is_none() {
        return Step::Rest;
    }
    match &world.durable.id {
        None => create::step(case),
        Some(id) => existing::step(case, id),
    }
}

impl Step {
    /// Whether there is something to do now.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Act(_) | Self::Change(_))
    }

    /// The first of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (active @ (Self::Act(_) | Self::Change(_)), _)
            | (_, active @ (Self::Act(_) | Self::Change(_))) => active,
            (Self::Wait(one), Self::Wait(other)) => Self::Wait(one.min(other)),
            (Self::Wait(at), Self::Rest) | (Self::Rest, Self::Wait(at)) => Self::Wait(at),
            (Self::Rest, Self::Rest) => Self::Rest,
        }
    }
}

impl Case<'_> {
    /// Asks IM, if it may be asked now. The finalizer precedes the first request.
    pub(crate) fn ask(self, ask: Ask) -> Step {
        match self.not_now() {
            Some(step) => step,
            None => Step::Act(Action::Ask(ask)),
        }
    }

    /// Reads the Secrets of the next request, if IM may be asked now.
    fn prepare(self) -> Step {
        let Self { world, now, .. } = self;
        match world.known.rest.filter(|rest| now < *rest) {
            Some(rest) => Step::Wait(rest),
            None => Step::Act(Action::Prepare),
        }
    }

    /// Records a change and sends it, if IM may be asked now.
    pub(crate) fn change(self, change: Change) -> Step {
        self.not_now().unwrap_or(Step::Change(change))
    }

    /// What to do instead of asking IM.
    fn not_now(self) -> Option<Step> {
        let Self { world, now, .. } = self;
        if world.learned.is_asked {
            return Some(Step::Wait(now));
        }
        if let Some(rest) = world.known.rest.filter(|rest| now < *rest) {
            return Some(Step::Wait(rest));
        }
        if world.has_finalizer() {
            return None;
        }
        // Being deleted, it gets none. And without one, what a request makes could be left behind.
        match world.is_deleted() || world.learned.metadata_rejected.is_some() {
            true => Some(Step::Rest),
            false => Some(Step::Act(Action::SetMetadata(world.with_finalizer()))),
        }
    }

    /// When the next request of the operation that is under way may be sent: each time later.
    pub(crate) fn retry_at(self) -> Option<Timestamp> {
        let operation = self.world.durable.under_way()?;
        let last = operation.last_call_at?;
        Some(later(last, self.wait(operation.attempts)))
    }

    /// How long to wait after this many failures in a row.
    pub(crate) fn wait(self, failures: u32) -> Duration {
        backoff::wait(self.world.poll(), failures, self.world.uid())
    }
}
