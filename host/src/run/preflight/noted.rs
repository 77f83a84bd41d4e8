//! What a check found: stored, counted, and logged when it changes.

use std::sync::atomic::Ordering;

use podloom_controllers::duties::Switch;

use crate::run::checks::APPLY_ROLES;
use crate::run::state::{Access, DutyState, Lack};

/// Stores which optional rights are missing, and logs which are missing now and which no longer.
pub(super) fn note_lacks(state: &DutyState, lacks: Vec<Lack>) {
    let before = state.lacks.send_replace(lacks);
    let now = state.lacks.borrow();
    let is_in = |all: &[Lack], one: &Lack| all.iter().any(|lack| lack.without == one.without);
    let duty = state.row.name;
    if now.iter().all(|lack| !lack.is_for_labels) {
        state.had_label_rights.store(true, Ordering::Relaxed);
    }
    for Lack {
        reason, without, ..
    } in now.iter().filter(|lack| !is_in(&before, lack))
    {
        let remedy = APPLY_ROLES;
        tracing::warn!(
            duty,
            reason,
            without,
            remedy,
            "an optional right is missing"
        );
    }
    for Lack { without, .. } in before.iter().filter(|lack| !is_in(&now, lack)) {
        tracing::info!(duty, without, "an optional right is no longer missing");
    }
    state
        .lacking
        .set(i64::try_from(now.len()).unwrap_or(i64::MAX));
}

/// Stores the result of a check, and logs it if it changed.
pub(super) fn note(state: &DutyState, access: Access) {
    if *state.access.borrow() == access {
        return;
    }
    match &access {
        Access::Lacking(reasons) => {
            for reason in reasons {
                tracing::error!(duty = state.row.name, reason, "not ready");
            }
        }
        // Webhooks are served all the same.
        Access::Unanswered(reason) if state.row.switch != Switch::Controllers => {
            tracing::warn!(duty = state.row.name, reason, "rights are not checked yet");
        }
        Access::Unanswered(reason) => {
            tracing::error!(duty = state.row.name, reason, "not ready");
        }
        Access::Granted => {
            tracing::info!(
                duty = state.row.name,
                "all kinds are served and all required rights granted"
            );
        }
        Access::Unknown => {}
    }
    state.access.send_replace(access);
}
