//! The conditions of a PortalExpose.

use jiff::Timestamp;
use podloom_api::names::portal::{condition, event, reason};
use podloom_api::{PortalExposeStatus, PortalPhase, RelayStates, TunnelPods};
use podloom_engine::conditions::{ConditionStatus, NewCondition, Summary, conditions as merged};
use podloom_engine::events::Notice;
use podloom_engine::shown::shown;

use super::check::{Blocker, no, yes};
use super::deployment::{failure, is_rolling, lags};
use super::naming;
use super::relays::Observation;
use super::step::Step;
use super::view::{Blocked, Facts, View, seen};

/// Returns all conditions of a tunnel.
fn of(view: &View<'_>, observation: Observation) -> Vec<NewCondition> {
    let valid = (reason::VALID, "the spec is valid".to_owned());
    let unique = "no older PortalExpose has the same hostname".to_owned();
    let progressing = progressing(view);
    let summary = summary(view, progressing.status == ConditionStatus::True);
    let own = [
        available(view),
        progressing,
        tunnel_deployment_ready(view),
        relay_connected(view, observation),
        checked(view, condition::SERVICE_EXISTS, service_found(view)),
        checked(view, condition::TUNNEL_CLASS_EXISTS, class_found(view)),
        checked(view, condition::SPEC_VALID, valid),
        checked(view, condition::HOSTNAME_UNIQUE, (reason::UNIQUE, unique)),
        mutators_applied(view),
    ];
    own.into_iter().chain(summary).collect()
}

/// The phase, for tools that know no kind.
fn summary(view: &View<'_>, is_progressing: bool) -> [NewCondition; 3] {
    let blocker = view.blockers.first();
    let summary = match view.phase {
        PortalPhase::Ready => Summary::Ready,
        // That is tried again.
        _ if blocker.is_some_and(|it| it.reason == reason::MUTATOR_FAILED) => Summary::Waiting,
        _ if blocker.is_some() || view.facts.is_overdue => Summary::Stalled,
        _ if is_progressing => Summary::Reconciling,
        // A node or a relay that is away may come back.
        _ => Summary::Waiting,
    };
    let reason = blocker.map_or(view.phase.as_str(), |blocker| blocker.reason);
    summary.conditions(reason, &trouble(view))
}

/// A condition that is False for a blocker, else True.
fn checked(
    view: &View<'_>,
    type_: &'static str,
    (reason, message): (&'static str, String),
) -> NewCondition {
    match view.blocker_of(type_) {
        Some(blocker) => blocked_by(blocker),
        None => yes(type_, reason, message),
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
    let counts = view.relay_counts();
    let serves = match view.phase {
        PortalPhase::Ready => true,
        PortalPhase::Degraded => facts.connected > 0,
        PortalPhase::Pending | PortalPhase::Failed => false,
    };
    if serves {
        let url = view.public_url().unwrap_or_default();
        let message = format!("{counts}; the URL at the first one is {url}");
        return yes(type_, reason::PORTAL_EXPOSE_AVAILABLE, message);
    }
    let of_service = view.blocker_of(condition::SERVICE_EXISTS);
    let (reason, message) = if let Some(blocker) = of_service.or(view.blockers.first()) {
        let reason = match blocker.reason {
            reason::SERVICE_NOT_FOUND => reason::SERVICE_NOT_FOUND,
            _ => reason::PORTAL_EXPOSE_NOT_AVAILABLE,
        };
        (reason, blocker.message.clone())
    } else if facts.ready == 0 {
        (reason::PORTAL_EXPOSE_NOT_AVAILABLE, pods(view))
    } else if facts.connected == 0 {
        let message = format!("{counts}; {LOOK_AT_RELAYS}");
        (reason::NO_RELAY_CONNECTED, message)
    } else {
        // Only for a moment, between Failed and what comes next.
        (reason::PORTAL_EXPOSE_NOT_AVAILABLE, counts)
    };
    no(type_, reason, message)
}

const LOOK_AT_RELAYS: &str = "status.relay.connected says what each relay lacks";

/// True as long as the tunnel has time to start: the rollout, and then that of the relays.
fn progressing(view: &View<'_>) -> NewCondition {
    let type_ = condition::PROGRESSING;
    let name = naming::deployment_name(view.world.name());
    if *view.step == Step::Queued {
        let message = format!("Deployment {name} waits until fewer others replace their pods");
        return yes(type_, reason::ROLLOUT_QUEUED, message);
    }
    if let Some(blocker) = view.blockers.first() {
        let message = format!("no change is made while {} is False", blocker.condition);
        return no(type_, reason::BLOCKED, message);
    }
    if view.facts.is_overdue {
        let message = format!(
            "Deployment {name} made no progress in time; look at its pods with kubectl describe"
        );
        return no(type_, reason::PROGRESS_DEADLINE_EXCEEDED, message);
    }
    let Some(deployment) = view.world.own_deployment() else {
        let message = format!("there is no Deployment {name}");
        return no(type_, reason::BLOCKED, message);
    };
    let is_first = deployment.metadata.generation.is_none_or(|it| it <= 1);
    let (reason, message) = if is_first && is_rolling(deployment) {
        let message = format!("Deployment {name} creates its pods");
        (reason::DEPLOYMENT_CREATED, message)
    } else if lags(deployment) {
        let message = format!("Deployment {name} was changed");
        (reason::DEPLOYMENT_UPDATING, message)
    } else if is_rolling(deployment) {
        let message = format!("Deployment {name} replaces its pods");
        (reason::ROLLING_UPDATE, message)
    } else if view.facts.is_open && view.facts.connected < view.facts.targets {
        let message = format!("the pods of Deployment {name} are ready, and connect to the relays");
        (reason::ROLLING_UPDATE, message)
    } else {
        let message = format!("Deployment {name} does not change");
        return no(type_, reason::DEPLOYMENT_STABLE, message);
    };
    yes(type_, reason, message)
}

fn tunnel_deployment_ready(view: &View<'_>) -> NewCondition {
    let type_ = condition::TUNNEL_DEPLOYMENT_READY;
    match view.blocker_of(type_) {
        Some(blocker) => blocked_by(blocker),
        None if view.are_pods_ready => yes(type_, reason::ALL_PODS_READY, pods(view)),
        None => no(type_, reason::PODS_NOT_READY, pods(view)),
    }
}

/// How many pods are ready, and where to look if some are not.
fn pods(view: &View<'_>) -> String {
    let name = naming::deployment_name(view.world.name());
    let Some(deployment) = view.world.own_deployment() else {
        return format!("there is no Deployment {name}");
    };
    let Facts { ready, desired, .. } = view.facts;
    let counts = format!("Deployment {name}: {ready} of {desired} pods ready");
    if view.are_pods_ready {
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
    let counts = view.relay_counts();
    let Facts {
        targets,
        connected,
        disconnected,
        ..
    } = view.facts;
    if connected == targets && targets > 0 {
        return match observation {
            Observation::Poll => yes(type_, reason::ALL_RELAYS_CONNECTED, counts),
            Observation::Assume => {
                let message = format!("{counts}, as is assumed of every tunnel with a ready pod");
                yes(type_, reason::RELAYS_ASSUMED, message)
            }
        };
    }
    let unknown = targets.saturating_sub(connected + disconnected);
    if unknown > 0 && disconnected == 0 {
        let message = format!("{counts}; of {unknown} nothing is known yet");
        let status = ConditionStatus::Unknown;
        return NewCondition::new(type_, status, reason::NOT_OBSERVED, message);
    }
    let reason = match connected {
        0 => reason::NO_RELAY_CONNECTED,
        _ => reason::PARTIAL_RELAY_CONNECTION,
    };
    no(type_, reason, format!("{counts}; {LOOK_AT_RELAYS}"))
}

fn mutators_applied(view: &View<'_>) -> NewCondition {
    let type_ = condition::MUTATORS_APPLIED;
    if let Some(blocker) = view.blocker_of(type_) {
        return blocked_by(blocker);
    }
    let (reason, message) = match view.step {
        Step::Deferred => (
            reason::CHAIN_OUTDATED,
            "the plugin chain changed; the next other change of the tunnel goes through the new one",
        ),
        Step::Queued => (
            reason::CHAIN_OUTDATED,
            "the plugin chain changed; the tunnel gets the new one when fewer others replace their pods",
        ),
        _ if view.world.own_deployment().is_some() && view.world.applied().is_some() => (
            reason::CHAIN_APPLIED,
            "the pod template went through the plugin chain",
        ),
        _ => {
            let message = match view.facts.blocked {
                Blocked::No => "the pod template did not go through the plugin chain yet",
                _ => "nothing is rendered while another condition forbids it",
            };
            let status = ConditionStatus::Unknown;
            return NewCondition::new(type_, status, reason::BLOCKED, message);
        }
    };
    yes(type_, reason, message)
}

fn blocked_by(blocker: &Blocker) -> NewCondition {
    no(blocker.condition, blocker.reason, blocker.message.clone())
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
            of(view, observation),
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
        PortalPhase::Degraded if !view.facts.is_open && (changes || was_excused(before)) => {
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
