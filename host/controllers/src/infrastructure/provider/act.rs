//! What a provider's controller does. Nothing else writes.

use super::world::{Action, Outcome, ProviderFound, ProviderParts, World};
use crate::engine::answer::Patched;
use crate::engine::error::Error;
use crate::engine::kind::Context;
use crate::engine::write::Target as Written;
use crate::infrastructure::im::{Answer, Call, Target};
use crate::infrastructure::in_use::unless_hidden;
use crate::infrastructure::probe::{Found, Probe, next_probe, uids};
use crate::infrastructure::resolve::{ImEndpoint, Key};
use crate::infrastructure::secrets::TargetError;
use podloom_api::names::infrastructure::{FIELD_MANAGER, IN_USE_FINALIZER, reason};

/// Executes one action.
pub(super) async fn act(
    parts: &ProviderParts,
    ctx: &Context,
    world: &World,
    action: &Action,
) -> Result<Outcome, Error> {
    let seen = &world.provider.metadata;
    let written = Written::of(&ctx.client, &parts.resource, seen, FIELD_MANAGER);
    match action {
        Action::SetMetadata(patch) => {
            let patched = written.set_finalizer(seen, patch, IN_USE_FINALIZER);
            Ok(match patched.await? {
                Patched::Object(provider) => Outcome::Provider(Some(provider)),
                Patched::Gone => Outcome::Provider(None),
                Patched::Rejected(message) => Outcome::Refused(message),
            })
        }
        Action::Confirm => {
            let users = parts.live.users_of_provider(&Key::of(seen)).await;
            let users = unless_hidden(users, seen, world.users)?;
            Ok(Outcome::Users(users))
        }
        Action::Probe => {
            let found = probe(parts, &world.endpoint).await?;
            let probe = Probe {
                due: next_probe(ctx.clock.now(), is_well(&found)),
                basis: world.basis.clone(),
                found,
            };
            let uid = seen.uid.as_deref().unwrap_or_default();
            parts.probes.put(uid, probe.clone());
            let there = uids(&parts.known.providers());
            parts.probes.keep(|uid| there.contains(uid));
            parts.said.keep(|uid| there.contains(uid));
            Ok(Outcome::Probed(probe))
        }
        Action::WriteStatus(status) => {
            let before = world.provider.status.as_ref();
            let provider = written.write_status(seen, before, status).await?;
            parts
                .said
                .put(seen.uid.as_deref().unwrap_or_default(), status);
            Ok(Outcome::Provider(provider))
        }
    }
}

/// Asks an Infrastructure Manager for its version, and if it answers for the infrastructures of the owner.
async fn probe(
    parts: &ProviderParts,
    endpoint: &Result<ImEndpoint, String>,
) -> Result<ProviderFound, Error> {
    let target = match endpoint {
        Ok(endpoint) => parts.secrets.owner(endpoint).await,
        Err(message) => return Ok(nothing(reason::UNKNOWN, message)),
    };
    let target = match target {
        Ok(target) => target,
        Err(TargetError::Request(error)) => return Err(error),
        Err(TargetError::Missing(missing)) => {
            let found = nothing(reason::UNKNOWN, "a request needs the credentials");
            return Ok(ProviderFound {
                authenticated: Found::missing(&missing),
                ..found
            });
        }
    };
    let version = match parts.im.call(&target, &Call::Version).await {
        Ok(Answer::Version(version)) => version,
        Ok(_) => return Ok(nothing(reason::UNREACHABLE, "the answer is no version")),
        Err(failure) => {
            let found = nothing(reason::UNREACHABLE, &failure.message);
            return Ok(ProviderFound {
                reachable: Found::of(&failure),
                ..found
            });
        }
    };
    Ok(ProviderFound {
        reachable: Found::Yes,
        version: Some(version),
        authenticated: list(parts, &target).await,
    })
}

async fn list(parts: &ProviderParts, target: &Target) -> Found {
    match parts.im.call(target, &Call::List).await {
        Ok(_) => Found::Yes,
        Err(failure) => Found::of(&failure),
    }
}

/// What is found if nothing can be asked.
fn nothing(reason: &'static str, message: &str) -> ProviderFound {
    let unclear = Found::Unclear(reason, message.to_owned());
    ProviderFound {
        reachable: unclear.clone(),
        version: None,
        authenticated: unclear,
    }
}

fn is_well(found: &ProviderFound) -> bool {
    found.reachable == Found::Yes && found.authenticated == Found::Yes
}
