//! The next step of a delivery. Pure: the same state and time give the same step.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{CleanerSpec, DeliveryPolicy, DeliveryProgress, duration};
use podloom_engine::plan::later;
use serde::Serialize;

use crate::delivery::{Attempt, AttemptState};

/// How long is waited for something that wakes the Cleaner. It is only for the case that the waking is lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// After which time is given up if the spec does not say it.
const DEADLINE: Duration = Duration::from_hours(1);

/// Everything that the next step depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryState<'a> {
    /// The live spec; none if our types cannot hold it. The deletion has begun, but the spec may still be edited: that is how a wrong sink
    /// is repaired.
    pub(crate) spec: Option<&'a CleanerSpec>,
    /// When the phase began.
    pub(crate) began: Timestamp,
    /// How far it is, as [`progress`] has it.
    pub(crate) progress: &'a DeliveryProgress,
    /// The last attempt of this process; none after a restart.
    pub(crate) attempt: Option<&'a Attempt>,
    /// Whether there was no room for an attempt in this pass.
    pub(crate) is_full: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum DeliveryStep {
    /// Send the event.
    Send(Attempt),
    /// Wait until this time, or until something changes.
    Wait(Timestamp),
    /// Wait until the spec changes: it does not say where to send the event.
    WaitForSpec,
    /// The sink has accepted it.
    Delivered,
    /// It is not delivered, and not tried any more.
    GivenUp,
}

/// Returns how far the delivery is: what the status says, and what has come of the last attempt since.
pub(crate) fn progress(written: &DeliveryProgress, attempt: Option<&Attempt>) -> DeliveryProgress {
    let mut progress = written.clone();
    let Some(attempt) = attempt.filter(|attempt| attempt.number > written.attempts) else {
        return progress;
    };
    match &attempt.state {
        AttemptState::Running | AttemptState::Postponed(_) => {}
        AttemptState::Accepted => {
            progress.attempts = attempt.number;
            progress.last_error = None;
        }
        AttemptState::Failed(message, _) => {
            progress.attempts = attempt.number;
            progress.last_error = Some(message.clone());
        }
    }
    progress
}

/// Returns the next step.
///
/// An attempt that runs is waited for, even past the deadline: the sink may accept the event. And nothing is given up before the first
/// attempt, which may come late if the operator did not run.
pub(crate) fn step(state: DeliveryState<'_>, now: Timestamp) -> DeliveryStep {
    let DeliveryState {
        spec,
        began,
        progress,
        attempt,
        is_full,
    } = state;
    match attempt.map(|attempt| &attempt.state) {
        Some(AttemptState::Accepted) => return DeliveryStep::Delivered,
        Some(AttemptState::Running) => return DeliveryStep::Wait(later(now, PATIENCE)),
        _ => {}
    }
    let Some(CleanerSpec {
        cloud_event_sink,
        delivery,
        ..
    }) = spec
    else {
        return DeliveryStep::WaitForSpec;
    };
    let Some(sink) = cloud_event_sink else {
        return DeliveryStep::GivenUp;
    };
    let deadline = duration::parse(&delivery.deadline).unwrap_or(DEADLINE);
    let end = match delivery.policy {
        DeliveryPolicy::Ignore if progress.attempts > 0 => later(began, deadline),
        DeliveryPolicy::Ignore | DeliveryPolicy::Block => Timestamp::MAX,
    };
    if end <= now {
        return DeliveryStep::GivenUp;
    }
    // What was learned about another sink does not count.
    let attempt = attempt.filter(|attempt| attempt.sink == *sink);
    if let Some(until) = attempt.and_then(|attempt| attempt.state.pause(now)) {
        return DeliveryStep::Wait(until.min(end));
    }
    if is_full {
        return DeliveryStep::Wait(later(now, PATIENCE).min(end));
    }
    DeliveryStep::Send(Attempt {
        number: progress.attempts.saturating_add(1),
        sink: sink.clone(),
        failures: attempt.map_or(0, |attempt| attempt.failures),
        state: AttemptState::Running,
    })
}

#[cfg(test)]
mod tests;
