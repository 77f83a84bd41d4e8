//! The next step of a delivery. Pure: the same state and time give the same step.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{CleanerSpec, DeliveryPolicy, DeliveryProgress, duration};
use podloom_engine::plan::later;
use serde::Serialize;

use crate::delivery::PATIENCE;
use crate::memory::{Attempt, AttemptState};

/// After which time is given up if the spec does not say it.
const DEADLINE: Duration = Duration::from_hours(1);

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

/// Returns the next step of a phase that began at this time, and is so far as [`progress`] has it. There is no attempt after a restart.
///
/// The deletion has begun, but the spec may still be edited: that is how a wrong sink is repaired. There is none if our types cannot hold
/// it. An attempt that runs is waited for, even past the deadline: the sink may accept the event. And nothing is given up before the first
/// attempt, which may come late if the operator did not run.
pub(crate) fn step(
    spec: Option<&CleanerSpec>,
    began: Timestamp,
    progress: &DeliveryProgress,
    attempt: Option<&Attempt>,
    now: Timestamp,
) -> DeliveryStep {
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
    DeliveryStep::Send(Attempt {
        number: progress.attempts.saturating_add(1),
        sink: sink.clone(),
        failures: attempt.map_or(0, |attempt| attempt.failures),
        state: AttemptState::Running,
    })
}

#[cfg(test)]
mod tests;
