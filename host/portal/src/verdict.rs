//! What forbids to write the children of a PortalExpose, and what would be written.
//!
//! All checks are made every time. What a blocker forbids are writes: a tunnel that runs goes on.

use podloom_api::names;
use podloom_api::names::portal::{condition, reason};

use super::check::{Authority, Blocker, check};
use super::class::{Class, choose};
use super::render::{Tunnel, tunnel};
use super::world::{Conflict, Content, SeenIdentity, Settings, World};
use super::{naming, service};

/// What the checks of a PortalExpose came to.
pub(crate) struct Verdict {
    /// Its relays; none if its spec is invalid.
    pub(crate) targets: Option<Vec<Authority>>,
    /// Its class; none if there is no usable one.
    pub(crate) class: Option<Class>,
    pub(crate) blockers: Vec<Blocker>,
    /// The Deployment before the chain; none as long as something that it is made from is missing.
    pub(crate) tunnel: Option<Tunnel>,
}

/// Makes all checks.
pub(crate) fn judge(world: &World, settings: &Settings) -> Verdict {
    let spec = &world.expose.spec;
    let targets = check(spec);
    let classes = world.classes.iter().map(|class| &**class);
    let class = choose(spec.class_name(), classes, &settings.tunnel);
    let of_spec = targets.as_ref().err();
    let of_spec = of_spec.map(|it| Blocker::new(condition::SPEC_VALID, it.reason, it.to_string()));
    let of_conflict = world.conflict.as_ref();
    let all = [
        of_spec,
        class.as_ref().err().cloned(),
        service::check(&spec.app.service, world.service.as_deref()),
        of_conflict.map(|found| conflicts(found, &spec.app.name)),
        of_children(world),
    ];
    let blockers = all.into_iter().flatten().collect();
    let (targets, class) = (targets.ok(), class.ok());
    let tunnel = rendered(world, settings, targets.as_deref(), class.as_ref());
    Verdict {
        targets,
        class,
        blockers,
        tunnel,
    }
}

/// The Deployment before the chain, from what the checks found.
fn rendered(
    world: &World,
    settings: &Settings,
    targets: Option<&[Authority]>,
    class: Option<&Class>,
) -> Option<Tunnel> {
    let SeenIdentity::Ours(identity) = &world.identity else {
        return None;
    };
    let Some(Content::Valid { checksum, .. }) = &identity.content else {
        return None;
    };
    let (expose, settings) = (&world.expose, &settings.tunnel);
    Some(tunnel(expose, targets?, class?, Some(checksum), settings))
}

fn conflicts(conflict: &Conflict, app: &str) -> Blocker {
    let other = match &conflict.name {
        Some(name) => format!("PortalExpose {name}, which is older,"),
        None => "an older PortalExpose".to_owned(),
    };
    let hostname = conflict.authority.hostname(app);
    let message = format!(
        "{other} already has the hostname {hostname}; choose another spec.app.name or another relay"
    );
    Blocker::new(
        condition::HOSTNAME_UNIQUE,
        reason::HOSTNAME_CONFLICT,
        message,
    )
}

/// What is wrong with the Deployment, the Secret, and the place where they are.
fn of_children(world: &World) -> Option<Blocker> {
    let secret = naming::secret_name(world.name());
    let (reason, message) = if world.is_deployment_anothers() {
        let name = naming::deployment_name(world.name());
        let message = format!(
            "Deployment {name} belongs to somebody else and is left alone; delete or rename it, or this PortalExpose"
        );
        (reason::DEPLOYMENT_NOT_OWNED, message)
    } else if world.identity == SeenIdentity::NotOurs {
        let message = format!(
            "Secret {secret} is not marked as the identity of this PortalExpose; give it the labels of one, or delete it"
        );
        (reason::IDENTITY_NOT_OWNED, message)
    } else if let Some(problem) = invalid(&world.identity) {
        let message = format!(
            "Secret {secret}: {problem}; restore it from a backup, or delete it to get a new key and lose the hostname's reservation"
        );
        (reason::IDENTITY_INVALID, message)
    } else if let Some(sentence) = &world.learned.metadata_rejected {
        let message = format!("the finalizer of this PortalExpose cannot be set: {sentence}");
        (names::reason::METADATA_REFUSED, message)
    } else if world.namespace_ends {
        let message = "the namespace is being deleted, so nothing is created in it".to_owned();
        (reason::NAMESPACE_TERMINATING, message)
    } else {
        return None;
    };
    Some(Blocker::of_children(reason, message))
}

fn invalid(identity: &SeenIdentity) -> Option<&str> {
    match identity {
        SeenIdentity::Ours(identity) => match &identity.content {
            Some(Content::Invalid(problem)) => Some(problem),
            _ => None,
        },
        _ => None,
    }
}
