//! What a Cloud's controller does. Nothing else writes.

use podloom_api::names::infrastructure::{FIELD_MANAGER, IN_USE_FINALIZER, reason};

use super::world::{Action, CloudFound, CloudParts, Outcome, World};
use crate::engine::answer::Patched;
use crate::engine::error::Error;
use crate::engine::kind::Context;
use crate::engine::write::Target as Written;
use crate::infrastructure::im::{Call, CloudLogin, Failure, FailureKind};
use crate::infrastructure::in_use::unless_hidden;
use crate::infrastructure::probe::{Found, Probe, next_quotas, uids};
use crate::infrastructure::resolve::Key;
use crate::infrastructure::secrets::TargetError;

/// Executes one action.
pub(super) async fn act(
    parts: &CloudParts,
    ctx: &Context,
    world: &World,
    action: &Action,
) -> Result<Outcome, Error> {
    let seen = &world.cloud.metadata;
    let written = Written::of(&ctx.client, &parts.resource, seen, FIELD_MANAGER);
    match action {
        Action::SetMetadata(patch) => {
            let patched = written.set_finalizer(seen, patch, IN_USE_FINALIZER);
            Ok(match patched.await? {
                Patched::Object(cloud) => Outcome::Cloud(Some(cloud)),
                Patched::Gone => Outcome::Cloud(None),
                Patched::Rejected(message) => Outcome::Refused(message),
            })
        }
        Action::Confirm => {
            let users = parts.live.users_of_cloud(&Key::of(seen)).await;
            let users = unless_hidden(users, seen, world.users)?;
            Ok(Outcome::Users(users))
        }
        Action::Probe => {
            let found = probe(parts, world).await?;
            let probe = Probe {
                due: next_quotas(
                    ctx.clock.now(),
                    world.provider.clouds,
                    found.missing.is_none(),
                ),
                basis: world.basis.clone(),
                found,
            };
            let uid = seen.uid.as_deref().unwrap_or_default();
            parts.probes.put(uid, probe.clone());
            let there = uids(&parts.known.clouds());
            parts.probes.keep(|uid| there.contains(uid));
            parts.said.keep(|uid| there.contains(uid));
            Ok(Outcome::Probed(probe))
        }
        Action::WriteStatus(status) => {
            let before = world.cloud.status.as_ref();
            let cloud = written.write_status(seen, before, status).await?;
            parts
                .said
                .put(seen.uid.as_deref().unwrap_or_default(), status);
            Ok(Outcome::Cloud(cloud))
        }
    }
}

/// Reads the Secrets, and asks the cloud for its quotas if its provider is ready.
async fn probe(parts: &CloudParts, world: &World) -> Result<CloudFound, Error> {
    let not_asked = |message: &str| Found::Unclear(reason::UNKNOWN, message.to_owned());
    let Ok(backend) = &world.backend else {
        return Ok(CloudFound {
            missing: None,
            quotas: not_asked("the Cloud leads nowhere"),
        });
    };
    let target = match parts.secrets.target(backend).await {
        Ok(target) => target,
        Err(TargetError::Request(error)) => return Err(error),
        Err(TargetError::Missing(missing)) => {
            return Ok(CloudFound {
                missing: Some(missing),
                quotas: not_asked("a request needs the credentials"),
            });
        }
    };
    let quotas = match &world.provider.ready {
        Found::Yes => {
            let call = Call::Quotas {
                cloud: target
                    .cloud
                    .as_ref()
                    .map(CloudLogin::id)
                    .unwrap_or_default(),
            };
            match parts.im.call(&target, &call).await {
                Ok(_) => Found::Yes,
                Err(failure) => quotas(&failure),
            }
        }
        Found::No(_, message) | Found::Unclear(_, message) => {
            Found::Unclear(reason::PROVIDER_NOT_READY, message.clone())
        }
    };
    Ok(CloudFound {
        missing: None,
        quotas,
    })
}

/// What a failure says about the cloud. One of the Infrastructure Manager itself says nothing, and not every kind of cloud has quotas.
fn quotas(failure: &Failure) -> Found {
    let message = failure.message.clone();
    match failure.kind {
        FailureKind::Refused if failure.message.to_lowercase().contains("implemented") => {
            Found::Unclear(
                reason::UNKNOWN,
                "this kind of cloud has no quotas".to_owned(),
            )
        }
        FailureKind::Refused | FailureKind::Conflict => Found::No(reason::UNREACHABLE, message),
        _ => Found::Unclear(reason::UNKNOWN, message),
    }
}
