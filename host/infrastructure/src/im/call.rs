//! What IM is asked.

use std::fmt;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::target::{Hidden, InfrastructureId};

/// How long an update may take: IM answers when the cloud has answered.
const UPDATE: Duration = Duration::from_mins(1);

/// One request.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// Which version it is. Needs no account.
    Version,
    /// Which infrastructures the owner has.
    List,
    /// To create an infrastructure from a template. It is answered before the machines exist.
    Create { template: String },
    /// To merge a template into that of an infrastructure, and to add and remove machines.
    Update {
        id: InfrastructureId,
        template: String,
    },
    /// To configure the machines again.
    Reconfigure { id: InfrastructureId },
    /// To start stopped machines.
    Start { id: InfrastructureId },
    /// What state it is in.
    State { id: InfrastructureId },
    /// The outputs of the template.
    Outputs { id: InfrastructureId },
    /// The template, as IM merged it.
    Template { id: InfrastructureId },
    /// The log of the configuration. The answer has its end.
    Log { id: InfrastructureId },
    /// To delete the infrastructure; with `force` even if the cloud does not delete all of it.
    Delete { id: InfrastructureId, force: bool },
    /// To let one more account own it.
    AddOwner {
        id: InfrastructureId,
        username: String,
        password: Hidden,
    },
    /// What the cloud of this id has left.
    Quotas { cloud: String },
}

impl Call {
    /// Returns the label of the metrics.
    pub(crate) const fn operation(&self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::List => "list",
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Reconfigure { .. } => "reconfigure",
            Self::Start { .. } => "start",
            Self::State { .. } => "state",
            Self::Outputs { .. } => "outputs",
            Self::Template { .. } => "template",
            Self::Log { .. } => "log",
            Self::Delete { .. } => "delete",
            Self::AddOwner { .. } => "add_owner",
            Self::Quotas { .. } => "quotas",
        }
    }

    /// Returns whether it changes anything.
    #[cfg(test)]
    pub(crate) const fn is_mutating(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::Update { .. }
                | Self::Reconfigure { .. }
                | Self::Start { .. }
                | Self::Delete { .. }
                | Self::AddOwner { .. }
        )
    }

    /// Returns whether IM must know who asks.
    pub(super) const fn needs_account(&self) -> bool {
        !matches!(self, Self::Version)
    }

    /// Returns the method, and the path below the URL of the provider with its query.
    pub(crate) fn route(&self) -> (Method, String) {
        let of = |id: &InfrastructureId, what: &str| format!("/infrastructures/{id}{what}");
        match self {
            Self::Version => (Method::GET, "/version".to_owned()),
            Self::List => (Method::GET, "/infrastructures".to_owned()),
            Self::Create { .. } => (Method::POST, "/infrastructures?async=true".to_owned()),
            Self::Update { id, .. } => (Method::POST, of(id, "")),
            Self::Reconfigure { id } => (Method::PUT, of(id, "/reconfigure")),
            Self::Start { id } => (Method::PUT, of(id, "/start")),
            Self::State { id } => (Method::GET, of(id, "/state")),
            Self::Outputs { id } => (Method::GET, of(id, "/outputs")),
            Self::Template { id } => (Method::GET, of(id, "/tosca")),
            Self::Log { id } => (Method::GET, of(id, "/contmsg")),
            Self::Delete { id, force: false } => (Method::DELETE, of(id, "?async=true")),
            Self::Delete { id, force: true } => (Method::DELETE, of(id, "?async=true&force=true")),
            Self::AddOwner { id, .. } => (Method::POST, of(id, "/authorization")),
            Self::Quotas { cloud } => (Method::GET, format!("/clouds/{cloud}/quotas")),
        }
    }

    /// Returns the body and its type.
    pub(crate) fn body(&self) -> Option<(&'static str, String)> {
        match self {
            // It is JSON, which is YAML too.
            Self::Create { template } | Self::Update { template, .. } => {
                Some(("text/yaml", template.clone()))
            }
            Self::AddOwner {
                username, password, ..
            } => {
                let account = json!({ "username": username, "password": password.reveal() });
                Some(("application/json", account.to_string()))
            }
            _ => None,
        }
    }

    /// Returns how long it may take, if not as long as the others.
    pub(super) fn total_timeout(&self) -> Option<Duration> {
        matches!(self, Self::Update { .. }).then_some(UPDATE)
    }
}

impl fmt::Debug for Call {
    /// Without templates and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation())
    }
}
