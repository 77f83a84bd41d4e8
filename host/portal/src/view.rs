//! What the status of a PortalExpose is made from: the checks, the counts and the phase.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use podloom_api::names::portal::condition;
use podloom_api::{PortalExposeStatus, PortalPhase, RelayConnection, RelayState};
use podloom_engine::conditions::time;
use podloom_engine::plan::later;
use podloom_engine::shown::few;

use super::check::{Authority, Blocker, TARGETS_MAX};
use super::deployment::{is_overdue, is_rolling, is_settled, ready, replicas};
use super::step::Step;
use super::verdict::Verdict;
use super::world::{Settings, World};

/// What is known of a tunnel.
pub(crate) struct View<'a> {
    pub(crate) world: &'a World,
    pub(crate) verdict: &'a Verdict,
    pub(crate) step: &'a Step,
    /// What forbids writes, and what was tried and failed.
    pub(crate) blockers: Vec<Blocker>,
    pub(crate) relays: Vec<RelayState>,
    pub(crate) facts: Facts,
    /// Whether all pods are ready, and nothing is wrong with the Deployment.
    pub(crate) are_pods_ready: bool,
    /// Until when the relays have time, if nothing else keeps the window open.
    pub(crate) window_ends: Option<Timestamp>,
    pub(crate) phase: PortalPhase,
}

impl<'a> View<'a> {
    /// Counts pods and relays, and decides the phase.
    pub(crate) fn of(
        world: &'a World,
        verdict: &'a Verdict,
        step: &'a Step,
        (settings, now): (&Settings, Timestamp),
    ) -> Self {
        let mut blockers = verdict.blockers.clone();
        if let Step::Refused(refusal) = step {
            blockers.push(refusal.problem.clone());
        }
        let deployment = world.own_deployment();
        let desired = match &verdict.class {
            Some(class) => class.spec.replicas,
            None => deployment.map_or(0, replicas),
        };
        let relays = relays(world, verdict);
        let count = |status| relays.iter().filter(|relay| relay.status == status).count();
        let mut facts = Facts {
            desired,
            ready: deployment.map_or(0, ready).min(desired),
            is_settled: deployment.is_some_and(|it| is_settled(it, desired)),
            is_overdue: deployment.is_some_and(is_overdue),
            targets: relays.len(),
            connected: count(RelayConnection::Connected),
            disconnected: count(RelayConnection::Disconnected),
            blocked: blocked(&blockers),
            is_open: false,
            previous: world.status().and_then(|status| status.phase),
        };
        let are_pods_ready = are_pods_ready(&facts, &blockers);
        let relays_since = are_pods_ready.then(|| ready_since(world, now));
        let window_ends = relays_since.map(|since| later(since, settings.relay_grace));
        let window_ends = window_ends.filter(|end| now < *end && may_open(&facts));
        let rolls_until = world
            .rolls_since
            .map(|since| later(since, settings.tunnel.progress_deadline));
        let rolls = deployment.is_some_and(is_rolling) || rolls_until.is_some_and(|end| now < end);
        facts.is_open = may_open(&facts) && (rolls || window_ends.is_some());
        Self {
            world,
            verdict,
            step,
            blockers,
            relays,
            facts,
            are_pods_ready,
            window_ends,
            phase: phase(&facts),
        }
    }

    /// What makes a condition False, if anything does.
    pub(crate) fn blocker_of(&self, condition: &str) -> Option<&Blocker> {
        let mut blockers = self.blockers.iter();
        blockers.find(|blocker| blocker.condition == condition)
    }

    /// The relays that do not serve the hostname, unless no pod could make them do so.
    pub(crate) fn lost_relays(&self) -> impl Iterator<Item = &RelayState> {
        let is_lost = |relay: &&RelayState| relay.status == RelayConnection::Disconnected;
        let relays = self.relays.iter().filter(is_lost);
        relays.filter(|_| self.facts.ready > 0)
    }

    /// How many relays are connected, and which ones are not.
    pub(crate) fn relay_counts(&self) -> String {
        let Facts {
            connected, targets, ..
        } = self.facts;
        let lost = few(self.lost_relays().map(|relay| &relay.name));
        match lost.as_str() {
            "" => format!("{connected} of {targets} relays connected"),
            lost => format!("{connected} of {targets} relays connected, not {lost}"),
        }
    }

    /// The public URL at the first relay.
    pub(crate) fn public_url(&self) -> Option<String> {
        let first = self.world.expose.spec.relay.targets.first()?;
        let authority = Authority::parse(&first.url)?;
        Some(authority.public_url(&self.world.expose.spec.app.name))
    }
}

/// Returns a condition of a status.
pub(crate) fn seen<'a>(
    status: Option<&'a PortalExposeStatus>,
    type_: &str,
) -> Option<&'a Condition> {
    let conditions = status?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The state of each relay, in the order of the spec.
fn relays(world: &World, verdict: &Verdict) -> Vec<RelayState> {
    let spec = &world.expose.spec;
    // An invalid spec has no relays that could be observed.
    let links = verdict.targets.as_ref().map(|_| world.links.as_slice());
    let links = links.unwrap_or_default().iter().map(Option::as_ref);
    let links = links.chain(std::iter::repeat(None));
    // Of more than may be, the status has no room for the rest.
    let targets = spec.relay.targets.iter().take(TARGETS_MAX);
    let states = targets.zip(links).map(|(target, link)| {
        let authority = Authority::parse(&target.url);
        RelayState {
            name: target.name.clone(),
            status: link.map_or(RelayConnection::Unknown, |link| link.status),
            connected_at: link.and_then(|link| link.connected_at).map(time),
            last_error: link.and_then(|link| link.last_error.clone()),
            public_url: authority.map(|authority| authority.public_url(&spec.app.name)),
        }
    });
    states.collect()
}

fn blocked(blockers: &[Blocker]) -> Blocked {
    let is_of_service = |blocker: &Blocker| blocker.condition == condition::SERVICE_EXISTS;
    match blockers.is_empty() {
        true => Blocked::No,
        false if blockers.iter().any(is_of_service) => Blocked::ByService,
        false => Blocked::Otherwise,
    }
}

fn are_pods_ready(facts: &Facts, blockers: &[Blocker]) -> bool {
    let mut conditions = blockers.iter().map(|blocker| blocker.condition);
    facts.desired > 0
        && facts.ready == facts.desired
        && facts.is_settled
        && conditions.all(|condition| condition != condition::TUNNEL_DEPLOYMENT_READY)
}

/// Since when all pods are ready: since the status says so.
fn ready_since(world: &World, now: Timestamp) -> Timestamp {
    let published = seen(world.status(), condition::TUNNEL_DEPLOYMENT_READY);
    let published = published.filter(|condition| condition.status == "True");
    published.map_or(time(now).0, |condition| condition.last_transition_time.0)
}

fn may_open(facts: &Facts) -> bool {
    facts.blocked == Blocked::No && !facts.is_overdue
}

// The phase of a PortalExpose: a table, in which the first row that fits counts.
//
// `Pending → Ready, Degraded, Failed`; `Ready ↔ Degraded`; `Ready, Degraded → Failed`; `Failed → Pending` only.

/// What the phase depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// How many pods there should be.
    pub(crate) desired: i32,
    /// How many of them are ready, at most as many as there should be.
    pub(crate) ready: i32,
    /// Whether the Deployment's controller has seen its newest template, and made all pods from it.
    pub(crate) is_settled: bool,
    /// Whether the rollout made no progress for too long.
    pub(crate) is_overdue: bool,
    /// How many relays there are.
    pub(crate) targets: usize,
    /// How many of them serve the hostname.
    pub(crate) connected: usize,
    /// How many of them do not. Of the others nobody knows.
    pub(crate) disconnected: usize,
    /// What forbids to write the tunnel.
    pub(crate) blocked: Blocked,
    /// Whether the window is open: the tunnel still has time to start. That is while it rolls, and for a moment after its pods are ready.
    pub(crate) is_open: bool,
    /// The phase in the status.
    pub(crate) previous: Option<PortalPhase>,
}

/// What forbids to write the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Nothing.
    No,
    /// The Service is missing or lacks the port, so that nothing can be reached.
    ByService,
    /// Something else. A tunnel that runs goes on.
    Otherwise,
}

/// Returns the phase for a status.
///
/// A PortalExpose leaves `Failed` for `Pending`, whatever fits. The next plan, made at once, goes on from there.
pub(crate) fn phase(facts: &Facts) -> PortalPhase {
    match (facts.previous, row(facts)) {
        (Some(PortalPhase::Failed), PortalPhase::Failed) => PortalPhase::Failed,
        (Some(PortalPhase::Failed), _) => PortalPhase::Pending,
        (_, fits) => fits,
    }
}

/// The first row of the table that fits.
fn row(facts: &Facts) -> PortalPhase {
    let Facts {
        desired,
        ready,
        targets,
        connected,
        ..
    } = *facts;
    let is_starting = matches!(
        facts.previous,
        None | Some(PortalPhase::Pending | PortalPhase::Failed)
    );
    if facts.blocked == Blocked::ByService || desired == 0 {
        PortalPhase::Failed
    } else if ready == desired
        && facts.is_settled
        && connected == targets
        && facts.blocked == Blocked::No
        && !facts.is_overdue
    {
        PortalPhase::Ready
    } else if facts.is_open {
        match is_starting && ready == 0 && connected == 0 {
            true => PortalPhase::Pending,
            // A rollout leaves no pod ready for a moment, and has not failed.
            false => PortalPhase::Degraded,
        }
    } else if ready == 0 || facts.disconnected == targets {
        PortalPhase::Failed
    } else {
        PortalPhase::Degraded
    }
}

#[cfg(test)]
mod tests;
