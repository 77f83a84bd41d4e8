//! What to do next about a PortalExpose.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::portal;
use podloom_api::names::portal::event;
use podloom_api::{PortalPhase, names};
use podloom_engine::events::{Notice, appended};
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::MetadataPatch;

use super::conditions::status;
use super::step::{Step, step};
use super::verdict::judge;
use super::view::View;
use super::world::{Action, Apply, Why};
use super::world::{SeenDeployment, Settings, World};
use super::{conditions, naming};

/// When to look again at a tunnel that is not ready.
const SOON: Duration = Duration::from_secs(30);
/// When to look again at a tunnel that is ready.
const LATER: Duration = Duration::from_mins(5);
/// When to ask again whether a Deployment may roll.
const TURN: Duration = Duration::from_secs(5);

/// Decides the next step for a PortalExpose, from its world alone.
pub(crate) fn plan(world: &World, settings: &Settings, now: Timestamp) -> Plan<Action> {
    if world.is_deleted() {
        return plan_deleted(world, now);
    }
    if !world.has_finalizer() && world.learned.metadata_rejected.is_none() {
        return Plan::act(Action::SetMetadata(with_finalizer(world)));
    }
    let verdict = judge(world, settings);
    let step = step(world, &verdict, settings, now);
    if let Step::Act(action) = step {
        if creates(&action) && !world.learned.is_confirmed {
            return Plan::act(Action::ReadExpose);
        }
        let notice = notice(world, &action);
        return Plan::act(action).with_notices(notice);
    }
    let view = View::of(world, &verdict, &step, (settings, now));
    let wanted = status(&view, settings.observation, now);
    if Some(&wanted) != world.status() {
        let notices = conditions::notices(&view);
        return Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices);
    }
    Plan::wait(next(&view, now))
}

/// Whether an action makes a child that is not there. What is made for a PortalExpose that is gone would serve on for a while.
fn creates(action: &Action) -> bool {
    match action {
        Action::CreateIdentity => true,
        Action::Apply(apply) => apply.why == Why::Missing,
        _ => false,
    }
}

fn with_finalizer(world: &World) -> MetadataPatch {
    let finalizers = world.expose.metadata.finalizers.iter().flatten().cloned();
    let ours = portal::FINALIZER.to_owned();
    MetadataPatch {
        finalizers: Some(finalizers.chain([ours]).collect()),
        ..MetadataPatch::default()
    }
}

/// The Event of a write of the Deployment. It is published only if the write changed something.
fn notice(world: &World, action: &Action) -> Option<Notice> {
    let Action::Apply(apply) = action else {
        return None;
    };
    let Apply { why, .. } = **apply;
    let name = naming::deployment_name(world.name());
    let note = match why {
        Why::Missing => format!("created Deployment {name}"),
        Why::Input => format!("updated Deployment {name}"),
        Why::Drift => format!("restored Deployment {name}, which somebody changed"),
        Why::Chain => format!("updated Deployment {name}, since the plugin chain changed"),
    };
    let reason = match why {
        Why::Missing => event::CREATED,
        _ => event::UPDATED,
    };
    let rendered = world.learned.rendered.as_ref();
    let notes = rendered.map_or(&[][..], |rendered| &rendered.notes);
    Some(Notice::normal(reason, appended(note, notes)))
}

/// When to look again.
fn next(view: &View<'_>, now: Timestamp) -> Then {
    if let Some(message) = &view.world.learned.metadata_rejected {
        return Then::Retry {
            reason: names::reason::METADATA_REFUSED,
            message: message.clone(),
            until: Timestamp::MAX,
        };
    }
    let pause = match view.phase {
        PortalPhase::Ready => LATER,
        _ => SOON,
    };
    let then = Then::At(later(now, pause));
    let then = match view.step {
        Step::Refused(refusal) => then.by(refusal.next),
        Step::Paused(next) => then.by(*next),
        Step::Queued => then.by(later(now, TURN)),
        _ => then,
    };
    match view.window_ends {
        Some(end) => then.by(end),
        None => then,
    }
}

// What to do next about a PortalExpose that is being deleted: its Deployment goes first, then our finalizer.
//
// It needs neither class, Service, relay nor chain.

/// When to look again whether the Deployment is gone. Its own event usually comes earlier.
const GOING: Duration = Duration::from_secs(2);

/// Plans the end of a PortalExpose.
pub(crate) fn plan_deleted(world: &World, now: Timestamp) -> Plan<Action> {
    let metadata = &world.expose.metadata;
    let Some(release) = MetadataPatch::without(metadata, portal::FINALIZER) else {
        return Plan::wait(Then::Change);
    };
    // No cache shows that it is gone: it may lag, and one without our labels is in none.
    if world.deployment == SeenDeployment::Unseen {
        return Plan::act(Action::ReadDeployment);
    }
    if let Some(deployment) = world.own_deployment() {
        let is_going = deployment.metadata.deletion_timestamp.is_some();
        return match &deployment.metadata.uid {
            // Some webhook may say yes and keep it.
            Some(uid) if !is_going && !world.learned.is_deployment_deleted => {
                let uid = uid.clone();
                Plan::act(Action::DeleteDeployment { uid })
            }
            _ => Plan::wait(Then::At(later(now, GOING))),
        };
    }
    let name = naming::deployment_name(world.name());
    let note = match world.is_deployment_anothers() {
        true => format!("Deployment {name} belongs to somebody else and stays"),
        false => format!("Deployment {name} is gone"),
    };
    Plan::act(Action::SetMetadata(release)).with_notices([Notice::normal(event::DELETED, note)])
}

#[cfg(test)]
mod tests;
