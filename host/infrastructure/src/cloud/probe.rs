//! What is asked for a Cloud.

use podloom_api::names::infrastructure::reason;
use podloom_engine::error::Error;

use super::{CloudFound, Clouds};
use crate::im::{Call, CloudLogin, Failure, FailureKind};
use crate::probe::Found;
use crate::probed::{Parts, World};
use crate::secrets::TargetError;

/// Reads the Secrets, and asks the cloud for its quotas if its provider is ready.
pub(super) async fn probe(
    parts: &Parts<Clouds>,
    world: &World<Clouds>,
) -> Result<CloudFound, Error> {
    let not_asked = |message: &str| Found::Unclear(reason::UNKNOWN, message.to_owned());
    let Ok(backend) = &world.around.backend else {
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
    let quotas = match &world.around.provider.ready {
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
