//! Passes in a cluster where everything works.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::core::ObjectMeta;
use podloom_api::AppliedTunnel;

use crate::naming;
use crate::plan::plan;
use crate::verdict::judge;
use crate::world::{Action, Apply};
use crate::world::{
    Content, Learned, OurIdentity, SeenDeployment, SeenIdentity, Settings, Turn, World,
};

/// The actions of a pass, and the turn that it gets.
type Noting<'a> = (Turn, &'a mut dyn FnMut(&Action));

/// Makes a pass, and returns the world of the next; none if nothing is left of the PortalExpose.
pub(crate) fn pass(world: World, settings: &Settings, now: Timestamp, turn: Turn) -> Option<World> {
    run(world, settings, now, (turn, &mut |_| {}))
}

/// Makes a pass, and notes its actions.
pub(crate) fn run(
    mut world: World,
    settings: &Settings,
    now: Timestamp,
    (turn, note): Noting<'_>,
) -> Option<World> {
    for _ in 0..20 {
        let Some(action) = plan(&world, settings, now).action else {
            let learned = std::mem::take(&mut world.learned);
            world.learned = Learned {
                // Somebody else must set it.
                metadata_rejected: learned.metadata_rejected,
                is_deployment_deleted: learned.is_deployment_deleted,
                turn: learned.turn.filter(|turn| *turn == Turn::Later),
                ..Learned::default()
            };
            return Some(world);
        };
        note(&action);
        if !done(&mut world, settings, action, turn) {
            return None;
        }
    }
    unreachable!("the pass has no end")
}

/// What an action comes to; returns whether anything is left.
fn done(world: &mut World, settings: &Settings, action: Action, turn: Turn) -> bool {
    match action {
        Action::SetMetadata(patch) => {
            let expose = Arc::make_mut(&mut world.expose);
            expose.metadata.finalizers = patch.finalizers;
            return !world.is_deleted();
        }
        Action::WriteStatus(status) => Arc::make_mut(&mut world.expose).status = Some(*status),
        Action::ReadExpose => world.learned.is_confirmed = true,
        Action::ReadIdentity => {
            let found = content(world);
            match &mut world.identity {
                SeenIdentity::Ours(identity) => identity.content = Some(found),
                _ => world.identity = SeenIdentity::Absent,
            }
        }
        Action::CreateIdentity | Action::UpdateIdentity => {
            world.identity = SeenIdentity::Ours(OurIdentity {
                metadata: Arc::new(secret(world)),
                content: Some(content(world)),
            });
            world.learned.is_identity_written = true;
        }
        Action::ReadDeployment => world.deployment = SeenDeployment::Absent,
        Action::Adopt => world.learned.is_adopted = true,
        Action::Mutate(_) => {
            let tunnel = judge(world, settings).tunnel.unwrap();
            let rendered = super::setting::mutated(&tunnel, world.chain.as_deref());
            world.learned.rendered = Some(rendered);
        }
        Action::TakeTurn(_) => world.learned.turn = Some(turn),
        Action::Apply(apply) => applied(world, &apply),
        Action::DeleteDeployment { .. } => world.deployment = SeenDeployment::Absent,
    }
    true
}

fn content(world: &World) -> Content {
    Content::Valid {
        checksum: "checksum-2".to_owned(),
        app: Some(world.expose.spec.app.name.clone()),
    }
}

/// The Secret that we write.
fn secret(world: &World) -> ObjectMeta {
    let identity = crate::identity::Identity::generate("shop").unwrap();
    let secret = crate::identity::secret(&world.expose, &identity);
    ObjectMeta {
        uid: Some("s-2".to_owned()),
        ..secret.metadata
    }
}

/// The Deployment after it was applied: its controller has not seen it yet.
fn applied(world: &mut World, apply: &Apply) {
    let mut deployment: Deployment = serde_json::from_value(apply.rendered.object.clone()).unwrap();
    let before = match &world.deployment {
        SeenDeployment::Found(found) => Some(Arc::clone(found)),
        _ => None,
    };
    let generation = before
        .as_ref()
        .and_then(|it| it.metadata.generation)
        .unwrap_or(0)
        + 1;
    deployment.metadata.uid = apply.uid.clone().or(Some("d-2".to_owned()));
    deployment.metadata.generation = Some(generation);
    deployment.status = before.and_then(|it| it.status.clone());
    assert_eq!(
        deployment.metadata.name,
        Some(naming::deployment_name(world.name()))
    );
    world.learned.applied = Some(AppliedTunnel {
        generation: Some(generation),
        template_hash: Some(apply.rendered.template_hash.clone()),
        chain_digest: apply.rendered.chain.clone(),
    });
    world.deployment = SeenDeployment::Found(Arc::new(deployment));
}
