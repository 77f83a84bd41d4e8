//! What to do next about a PortalExpose that is being deleted: its Deployment goes first, then our finalizer.
//!
//! It needs neither class, Service, relay nor chain.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::portal::{self, event};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::MetadataPatch;

use super::action::Action;
use super::naming;
use super::world::{SeenDeployment, World};

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
