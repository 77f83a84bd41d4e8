//! What the status of a TunnelClass says.

use podloom_api::names::portal::{annotation, condition, reason};
use podloom_api::{TunnelClassObject, asks_to_be_default};
use podloom_engine::conditions::{ConditionStatus, NewCondition};

use super::{Candidate, Client, of_spec, rivals};
use crate::settings::TunnelSettings;

/// Returns what the status of a TunnelClass says, given all of them.
pub(crate) fn class_conditions<'a, C: Into<Candidate<'a>>>(
    class: &'a TunnelClassObject,
    all: impl IntoIterator<Item = C>,
    settings: &TunnelSettings,
) -> Vec<NewCondition> {
    vec![
        valid(class, settings),
        default(class, all.into_iter().map(Into::into)),
        replicas_share_hostname(class),
    ]
}

fn valid(class: &TunnelClassObject, settings: &TunnelSettings) -> NewCondition {
    let type_ = condition::VALID;
    match of_spec(&class.spec, settings) {
        // The operator's flags are not in the message: two operators would overwrite each other's.
        Ok(Client { image, version }) => {
            let message = match &class.spec.client {
                Some(_) => format!("tunnels use the client {version} in the image {image}"),
                None => "tunnels use the operator's default client".to_owned(),
            };
            NewCondition::new(type_, ConditionStatus::True, reason::VALID, message)
        }
        Err(fault) => {
            let message = fault.to_string();
            NewCondition::new(type_, ConditionStatus::False, fault.reason(), message)
        }
    }
}

fn default<'a>(
    class: &'a TunnelClassObject,
    all: impl Iterator<Item = Candidate<'a>>,
) -> NewCondition {
    let type_ = condition::DEFAULT;
    let key = annotation::IS_DEFAULT_CLASS;
    if !asks_to_be_default(&class.metadata) {
        let mut annotations = class.metadata.annotations.iter().flatten();
        let message = match annotations.any(|(name, _)| name == key) {
            true => format!("the annotation {key} counts only with the exact value \"true\""),
            false => format!("the annotation {key}: \"true\" would make it the default"),
        };
        return NewCondition::new(type_, ConditionStatus::False, reason::NOT_DEFAULT, message);
    }
    let rivals = rivals(class, all);
    let first = rivals.first();
    match first.filter(|name| Some(*name) != class.metadata.name.as_ref()) {
        None => {
            let message = "PortalExposes without spec.tunnelClassName use this class";
            NewCondition::new(
                type_,
                ConditionStatus::True,
                reason::EFFECTIVE_DEFAULT,
                message,
            )
        }
        Some(older) => {
            let message = format!(
                "TunnelClass {older} is the default: it is older, or of the same age and first by name; remove the annotation {key} from \
                 one of them"
            );
            NewCondition::new(
                type_,
                ConditionStatus::False,
                reason::SHADOWED_DEFAULT,
                message,
            )
        }
    }
}

fn replicas_share_hostname(class: &TunnelClassObject) -> NewCondition {
    let type_ = condition::REPLICAS_SHARE_HOSTNAME;
    match class.spec.replicas {
        replicas @ 2.. => {
            let message = several_replicas(replicas);
            NewCondition::new(
                type_,
                ConditionStatus::True,
                reason::SEVERAL_REPLICAS,
                message,
            )
        }
        _ => NewCondition::new(
            type_,
            ConditionStatus::False,
            reason::ONE_REPLICA,
            "each tunnel has one pod",
        ),
    }
}

/// What several pods of one tunnel mean.
pub(crate) fn several_replicas(replicas: i32) -> String {
    format!(
        "each tunnel has {replicas} pods that share one hostname; a relay serves one of them at a time, so this is no high availability"
    )
}
