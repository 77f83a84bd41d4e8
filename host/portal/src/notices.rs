//! The Events of a PortalExpose. Each is about a transition: what the status said before is not said again.

use podloom_api::names::portal::{condition, event, reason};
use podloom_api::{PortalExposeStatus, PortalPhase};
use podloom_engine::events::Notice;
use podloom_engine::shown::shown;

use super::phase::Window;
use super::verdict::Blocker;
use super::view::{View, seen};

/// Returns the Events that the next status is worth.
pub(crate) fn of(view: &View<'_>) -> Vec<Notice> {
    let before = view.world.status();
    let blockers = view
        .blockers
        .iter()
        .filter(|blocker| is_new(before, blocker));
    let warnings = blockers.map(|blocker| Notice::warning(blocker.reason, blocker.message.clone()));
    warnings.chain(of_phase(before, view)).collect()
}

/// Whether the status does not say the same yet. Its message may name another Service, or another field.
fn is_new(before: Option<&PortalExposeStatus>, blocker: &Blocker) -> bool {
    let known = seen(before, blocker.condition);
    known.is_none_or(|known| known.status != "False" || known.reason != blocker.reason)
}

fn of_phase(before: Option<&PortalExposeStatus>, view: &View<'_>) -> Option<Notice> {
    let previous = before.and_then(|status| status.phase);
    let changes = previous != Some(view.phase);
    match view.phase {
        PortalPhase::Pending => None,
        PortalPhase::Ready if changes => Some(ready(view)),
        PortalPhase::Failed if changes => Some(Notice::warning(event::FAILED, trouble(view))),
        // A rollout degrades every tunnel for a moment. If it stays degraded, this is said at the end of that time.
        PortalPhase::Degraded
            if view.facts.window == Window::Closed && (changes || was_excused(before)) =>
        {
            Some(Notice::warning(event::DEGRADED, trouble(view)))
        }
        _ => None,
    }
}

/// Whether the status says that the tunnel still has time to start.
fn was_excused(before: Option<&PortalExposeStatus>) -> bool {
    let progressing = seen(before, condition::PROGRESSING);
    progressing.is_some_and(|progressing| {
        progressing.status == "True" && progressing.reason != reason::ROLLOUT_QUEUED
    })
}

fn ready(view: &View<'_>) -> Notice {
    let url = view.public_url().unwrap_or_default();
    Notice::normal(
        event::READY,
        format!("all pods are ready and all relays connected: {url}"),
    )
}

/// What is wrong, in one sentence.
fn trouble(view: &View<'_>) -> String {
    let facts = &view.facts;
    let (ready, desired) = (facts.ready, facts.desired);
    let counts = format!("{ready} of {desired} pods ready, {}", view.relay_counts());
    let error = || {
        view.lost_relays()
            .find_map(|relay| Some((&relay.name, relay.last_error.as_ref()?)))
    };
    match (view.blockers.first(), error()) {
        (Some(blocker), _) => format!("{counts}; {}", blocker.message),
        (None, Some((name, error))) => format!("{counts}; {}: {error}", shown(name)),
        (None, None) => counts,
    }
}
