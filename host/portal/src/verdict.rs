//! What forbids to write the children of a PortalExpose, and what would be written.
//!
//! All checks are made every time. What a blocker forbids are writes: a tunnel that runs goes on.

use k8s_openapi::api::core::v1::Service;
use podloom_api::PortalService;
use podloom_api::names;
use podloom_api::names::portal::{condition, reason};

use super::check::{Target, check};
use super::class::{Class, choose};
use super::render::{Inputs, Tunnel, tunnel};
use super::world::{Conflict, Content, Problem, SeenIdentity, Settings, World};
use super::{naming, service};

/// Something that forbids writes, or a write that failed: a condition that is False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// The type of the condition.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

/// What the checks of a PortalExpose came to.
pub(crate) struct Verdict {
    /// Its relays; none if its spec is invalid.
    pub(crate) targets: Option<Vec<Target>>,
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
    let mut blockers = Vec::new();
    if let Err(problem) = &targets {
        let message = problem.to_string();
        blockers.push(blocker(condition::SPEC_VALID, problem.reason(), message));
    }
    if let Err(problem) = &class {
        let message = problem.to_string();
        blockers.push(blocker(
            condition::TUNNEL_CLASS_EXISTS,
            problem.reason(),
            message,
        ));
    }
    blockers.extend(of_service(&spec.app.service, world.service.as_deref()));
    blockers.extend(
        world
            .conflict
            .as_ref()
            .map(|found| of_conflict(found, &spec.app.name)),
    );
    blockers.extend(of_children(world));
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
    targets: Option<&[Target]>,
    class: Option<&Class>,
) -> Option<Tunnel> {
    let SeenIdentity::Ours(identity) = &world.identity else {
        return None;
    };
    let Some(Content::Valid { checksum, .. }) = &identity.content else {
        return None;
    };
    Some(tunnel(&Inputs {
        expose: &world.expose,
        targets: targets?,
        class: class?,
        identity_checksum: Some(checksum),
        settings: &settings.tunnel,
    }))
}

fn of_service(wanted: &PortalService, found: Option<&Service>) -> Option<Blocker> {
    let problem = service::check(wanted, found).err()?;
    let message = problem.to_string();
    Some(blocker(
        condition::SERVICE_EXISTS,
        problem.reason(),
        message,
    ))
}

fn of_conflict(conflict: &Conflict, app: &str) -> Blocker {
    let other = match &conflict.name {
        Some(name) => format!("PortalExpose {name}, which is older,"),
        None => "an older PortalExpose".to_owned(),
    };
    let hostname = conflict.authority.hostname(app);
    let message = format!(
        "{other} already has the hostname {hostname}; choose another spec.app.name or another relay"
    );
    blocker(
        condition::HOSTNAME_UNIQUE,
        reason::HOSTNAME_CONFLICT,
        message,
    )
}

/// What is wrong with the Deployment, the Secret, and the place where they are.
fn of_children(world: &World) -> Option<Blocker> {
    let type_ = condition::TUNNEL_DEPLOYMENT_READY;
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
    Some(blocker(type_, reason, message))
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

impl Problem {
    /// The condition that a failed try makes False.
    pub(crate) fn blocker(&self) -> Blocker {
        let (condition, reason) = match self {
            Self::Denied(_) => (condition::MUTATORS_APPLIED, reason::MUTATOR_DENIED),
            Self::Failed(_) => (condition::MUTATORS_APPLIED, reason::MUTATOR_FAILED),
            Self::ResultInvalid(_) => (condition::MUTATORS_APPLIED, reason::MUTATOR_RESULT_INVALID),
            Self::Deployment(_) => (
                condition::TUNNEL_DEPLOYMENT_READY,
                reason::DEPLOYMENT_REJECTED,
            ),
            Self::Identity(_) => (
                condition::TUNNEL_DEPLOYMENT_READY,
                reason::IDENTITY_REJECTED,
            ),
        };
        blocker(condition, reason, self.message().to_owned())
    }
}

fn blocker(condition: &'static str, reason: &'static str, message: String) -> Blocker {
    Blocker {
        condition,
        reason,
        message,
    }
}
