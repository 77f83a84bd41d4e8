//! What is asked for a provider.

use podloom_api::names::infrastructure::reason;
use podloom_engine::error::Error;

use super::{ProviderFound, Providers};
use crate::im::{Answer, Call, Target};
use crate::probe::Found;
use crate::probed::Parts;
use crate::resolve::ImEndpoint;
use crate::secrets::TargetError;

/// Asks an Infrastructure Manager for its version, and if it answers for the infrastructures of the owner.
pub(super) async fn probe(
    parts: &Parts<Providers>,
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

async fn list(parts: &Parts<Providers>, target: &Target) -> Found {
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
