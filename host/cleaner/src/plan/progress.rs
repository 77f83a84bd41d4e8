//! How far a deletion is, and how that is written.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{DeletionPhase, DeletionProgress};
use podloom_engine::plan::Plan;

use super::{released, report};
use crate::action::Action;
use crate::status;
use crate::world::World;

/// How long a phase that is late waits between two attempts.
pub(super) const LATE_INTERVAL: Duration = Duration::from_mins(5);

/// Plans to write how far the deletion is; the finalizer goes if all is done.
pub(super) fn record(
    world: &World,
    written: &DeletionProgress,
    progress: DeletionProgress,
    now: Timestamp,
) -> Plan<Action> {
    // Nothing is lost if nobody learns that only the phase has changed: with the finalizer, the status goes too.
    if progress.phase == DeletionPhase::Done && progress.objects == written.objects {
        return released(world).with_notices(report::deleted(written, &progress));
    }
    let notices = report::deleted(written, &progress);
    let status = status::deleting(world, progress, None, now);
    Plan::act(Action::WriteStatus(Box::new(status))).with_notices(notices)
}

/// Returns the progress once a phase is done.
pub(super) fn advanced(progress: &DeletionProgress, now: Timestamp) -> DeletionProgress {
    let next = match progress.phase {
        DeletionPhase::Targets if progress.helm.is_some() => DeletionPhase::Helm,
        DeletionPhase::Targets | DeletionPhase::Helm if progress.event.is_some() => {
            DeletionPhase::Event
        }
        _ => DeletionPhase::Done,
    };
    DeletionProgress {
        phase: next,
        phase_started_at: MicroTime(status::micros(now)),
        ..progress.clone()
    }
}
