//! The conditions of a PortalExpose.

use jiff::Timestamp;
use podloom_api::names::portal::{condition, event, reason};
use podloom_api::{PortalExposeStatus, PortalPhase, RelayStates, TunnelPods};
use podloom_engine::conditions::{ConditionStatus, NewCondition, conditions as merged};
use podloom_engine::events::Notice;
use podloom_engine::shown::shown;

use super::deployment::{failure, is_rolling, lags};
use super::relays::Observation;
use super::step::Step;
use super::verdict::Blocker;
use super::view::{Blocked, Facts, Window};
use super::view::{View, seen};
use super::{conditions, naming};

/// Returns all conditions of a tunnel.
pub(crate) fn of(view: &View<'_>, observation: Observation) -> Vec<NewCondition> {
    vec![
        available(view),
        progressing(view),
        tunnel_deployment_ready(view),
        relay_connected(view, observation),
        checked(view, condition::SERVICE_EXISTS, || service_found(view)),
        checked(view, condition::TUNNEL_CLASS_EXISTS, || class_found(view)),
        checked(view, condition::SPEC_VALID, || {
            (reason::VALID, "the spec is valid".to_owned())
        }),
        checked(view, condition::HOSTNAME_UNIQUE, || {
            let message = "no older PortalExpose has the same hostname".to_owned();
            (reason::UNIQUE, message)
        }),
        mutators_applied(view),
    ]
}

/// A condition that is False for a blocker, else True.
fn checked(
    view: &View<'_>,
    type_: &'static str,
    found: impl FnOnce() -> (&'static str, String),
) -> NewCondition {
    match view.blocker_of(type_) {
        Some(blocker) => blocked_by(blocker),
        None => {
            let (reason, message) = found();
            NewCondition::new(type_, ConditionStatus::True, reason, message)
        }
    }
}

fn service_found(view: &View<'_>) -> (&'static str, String) {
    let service = &view.world.expose.spec.app.service;
    let message = format!("Service {} has port {}", service.name, service.port);
    (reason::SERVICE_FOUND, message)
}

fn class_found(view: &View<'_>) -> (&'static str, String) {
    let class = view.verdict.class.as_ref();
    let name = class.map_or("", |class| &class.name);
    match class.map(|class| class.rivals.as_slice()) {
        None | Some([]) => (
            reason::TUNNEL_CLASS_FOUND,
            format!("TunnelClass {name} is used"),
        ),
        Some(rivals) => {
            let message = format!(
                "TunnelClass {name} is used, the oldest of several defaults: {}; keep the annotation on one of them",
                rivals.join(", ")
            );
            (reason::MULTIPLE_DEFAULT_CLASSES, message)
        }
    }
}

fn available(view: &View<'_>) -> NewCondition {
    let type_ = condition::AVAILABLE;
    let facts = &view.facts;
    let url = view.public_url().unwrap_or_default();
    let counts = view.relay_counts();
    let serves = match view.phase {
        PortalPhase::Ready => true,
        PortalPhase::Degraded => facts.connected > 0,
        PortalPhase::Pending | PortalPhase::Failed => false,
    };
    if serves {
        let message = format!("{counts}; the URL at the first one is {url}");
        let reason = reason::PORTAL_EXPOSE_AVAILABLE;
        return NewCondition::new(type_, ConditionStatus::True, reason, message);
    }
    let unavailable =
        |reason, message| NewCondition::new(type_, ConditionStatus::False, reason, message);
    let of_service = view.blocker_of(condition::SERVICE_EXISTS);
    if let Some(blocker) = of_service.or(view.blockers.first()) {
        let reason = match blocker.reason {
            reason::SERVICE_NOT_FOUND => reason::SERVICE_NOT_FOUND,
            _ => reason::PORTAL_EXPOSE_NOT_AVAILABLE,
        };
        return unavailable(reason, blocker.message.clone());
    }
    if facts.ready == 0 {
        let message = pods(view);
        return unavailable(reason::PORTAL_EXPOSE_NOT_AVAILABLE, message);
    }
    if facts.connected == 0 {
        let message = format!("{counts}; {LOOK_AT_RELAYS}");
        return unavailable(reason::NO_RELAY_CONNECTED, message);
    }
    // Only for a moment, between Failed and what comes next.
    unavailable(reason::PORTAL_EXPOSE_NOT_AVAILABLE, counts)
}

const LOOK_AT_RELAYS: &str = "status.relay.connected says what each relay lacks";

/// True as long as the tunnel has time to start: the rollout, and then that of the relays.
fn progressing(view: &View<'_>) -> NewCondition {
    let type_ = condition::PROGRESSING;
    let yes = |reason, message| NewCondition::new(type_, ConditionStatus::True, reason, message);
    let no = |reason, message| NewCondition::new(type_, ConditionStatus::False, reason, message);
    let name = naming::deployment_name(view.world.name());
    if *view.step == Step::Queued {
        let message = format!("Deployment {name} waits until fewer others replace their pods");
        return yes(reason::ROLLOUT_QUEUED, message);
    }
    if let Some(blocker) = view.blockers.first() {
        let message = format!("no change is made while {} is False", blocker.condition);
        return no(reason::BLOCKED, message);
    }
    if view.facts.is_overdue {
        let message = format!(
            "Deployment {name} made no progress in time; look at its pods with kubectl describe"
        );
        return no(reason::PROGRESS_DEADLINE_EXCEEDED, message);
    }
    let Some(deployment) = view.deployment() else {
        return no(reason::BLOCKED, format!("there is no Deployment {name}"));
    };
    let is_first = deployment.metadata.generation.is_none_or(|it| it <= 1);
    if is_first && is_rolling(deployment) {
        yes(
            reason::DEPLOYMENT_CREATED,
            format!("Deployment {name} creates its pods"),
        )
    } else if lags(deployment) {
        yes(
            reason::DEPLOYMENT_UPDATING,
            format!("Deployment {name} was changed"),
        )
    } else if is_rolling(deployment) {
        yes(
            reason::ROLLING_UPDATE,
            format!("Deployment {name} replaces its pods"),
        )
    } else if waits_for_relays(view) {
        let message = format!("the pods of Deployment {name} are ready, and connect to the relays");
        yes(reason::ROLLING_UPDATE, message)
    } else {
        no(
            reason::DEPLOYMENT_STABLE,
            format!("Deployment {name} does not change"),
        )
    }
}

/// Whether the window is open for the relays alone, and they need it.
fn waits_for_relays(view: &View<'_>) -> bool {
    view.facts.window == Window::Open && view.facts.connected < view.facts.targets
}

fn tunnel_deployment_ready(view: &View<'_>) -> NewCondition {
    let type_ = condition::TUNNEL_DEPLOYMENT_READY;
    if let Some(blocker) = view.blocker_of(type_) {
        return blocked_by(blocker);
    }
    match view.are_pods_ready() {
        true => NewCondition::new(
            type_,
            ConditionStatus::True,
            reason::ALL_PODS_READY,
            pods(view),
        ),
        false => NewCondition::new(
            type_,
            ConditionStatus::False,
            reason::PODS_NOT_READY,
            pods(view),
        ),
    }
}

/// How many pods are ready, and where to look if some are not.
fn pods(view: &View<'_>) -> String {
    let facts = &view.facts;
    let name = naming::deployment_name(view.world.name());
    let Some(deployment) = view.deployment() else {
        return format!("there is no Deployment {name}");
    };
    let Facts { ready, desired, .. } = *facts;
    let counts = format!("Deployment {name}: {ready} of {desired} pods ready");
    if view.are_pods_ready() {
        return counts;
    }
    match failure(deployment) {
        Some(failure) => format!("{counts}; no pods can be created: {failure}"),
        None if ready == desired => format!("{counts}, but some of them are old"),
        None => format!("{counts}; if that stays, look at them with kubectl describe"),
    }
}

fn relay_connected(view: &View<'_>, observation: Observation) -> NewCondition {
    let type_ = condition::RELAY_CONNECTED;
    let facts = &view.facts;
    let counts = view.relay_counts();
    let unknown = facts
        .targets
        .saturating_sub(facts.connected + facts.disconnected);
    if facts.connected == facts.targets && facts.targets > 0 {
        return match observation {
            Observation::Poll => NewCondition::new(
                type_,
                ConditionStatus::True,
                reason::ALL_RELAYS_CONNECTED,
                counts,
            ),
            Observation::Assume => {
                let message = format!("{counts}, as is assumed of every tunnel with a ready pod");
                NewCondition::new(
                    type_,
                    ConditionStatus::True,
                    reason::RELAYS_ASSUMED,
                    message,
                )
            }
        };
    }
    if unknown > 0 && facts.disconnected == 0 {
        let message = format!("{counts}; of {unknown} nothing is known yet");
        return NewCondition::new(
            type_,
            ConditionStatus::Unknown,
            reason::NOT_OBSERVED,
            message,
        );
    }
    let reason = match facts.connected {
        0 => reason::NO_RELAY_CONNECTED,
        _ => reason::PARTIAL_RELAY_CONNECTION,
    };
    let message = format!("{counts}; {LOOK_AT_RELAYS}");
    NewCondition::new(type_, ConditionStatus::False, reason, message)
}

fn mutators_applied(view: &View<'_>) -> NewCondition {
    let type_ = condition::MUTATORS_APPLIED;
    if let Some(blocker) = view.blocker_of(type_) {
        return blocked_by(blocker);
    }
    let yes =
        |reason, message: &str| NewCondition::new(type_, ConditionStatus::True, reason, message);
    match view.step {
        Step::Deferred => yes(
            reason::CHAIN_OUTDATED,
            "the plugin chain changed; the next other change of the tunnel goes through the new one",
        ),
        Step::Queued => yes(
            reason::CHAIN_OUTDATED,
            "the plugin chain changed; the tunnel gets the new one when fewer others replace their pods",
        ),
        _ if view.deployment().is_some() && view.world.applied().is_some() => yes(
            reason::CHAIN_APPLIED,
            "the pod template went through the plugin chain",
        ),
        _ => {
            let message = match view.facts.blocked {
                Blocked::No => "the pod template did not go through the plugin chain yet",
                _ => "nothing is rendered while another condition forbids it",
            };
            NewCondition::new(type_, ConditionStatus::Unknown, reason::BLOCKED, message)
        }
    }
}

fn blocked_by(blocker: &Blocker) -> NewCondition {
    let Blocker {
        condition,
        reason,
        message,
    } = blocker;
    NewCondition::new(condition, ConditionStatus::False, reason, message.clone())
}

// The status of a PortalExpose, computed from the world.

/// Returns the status. Times stay as they are where nothing changes.
pub(crate) fn status(
    view: &View<'_>,
    observation: Observation,
    now: Timestamp,
) -> PortalExposeStatus {
    let world = view.world;
    let seen = world.status();
    let facts = &view.facts;
    let generation = world.expose.metadata.generation;
    PortalExposeStatus {
        observed_generation: generation,
        phase: Some(view.phase),
        public_url: view.public_url(),
        tunnel_class_name: view.verdict.class.as_ref().map(|class| class.name.clone()),
        tunnel_pods: Some(TunnelPods {
            ready: facts.ready,
            total: facts.desired,
        }),
        relay: Some(RelayStates {
            summary: Some(format!("{}/{}", facts.connected, facts.targets)),
            connected: Some(view.relays.clone()),
        }),
        applied: world.applied().cloned(),
        conditions: Some(merged(
            seen.and_then(|status| status.conditions.as_ref()),
            conditions::of(view, observation),
            generation,
            now,
        )),
    }
}

// The Events of a PortalExpose. Each is about a transition: what the status said before is not said again.

/// Returns the Events that the next status is worth.
pub(crate) fn notices(view: &View<'_>) -> Vec<Notice> {
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
