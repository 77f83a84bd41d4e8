//! The actions of a PortalExpose's plan, and their outcomes.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use podloom_api::{PortalExposeObject, PortalExposeStatus};
use podloom_engine::write::MetadataPatch;
use serde::Serialize;
use serde_json::Value;

use super::world::{Refusal, Rendered, SeenIdentity, Try, Turn};

/// One action for a PortalExpose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Set or remove our finalizer, unless the PortalExpose has changed since it was read.
    SetMetadata(MetadataPatch),
    /// Read the Secret with the identity from the API server.
    ReadIdentity,
    /// Create the Secret with a new identity, unless there is one of its name.
    CreateIdentity,
    /// Put the Secret right, unless somebody else wrote it meanwhile: the name in the identity, the owner, our annotation.
    UpdateIdentity,
    /// Read the Deployment from the API server.
    ReadDeployment,
    /// Take over the fields that another operator wrote on the Deployment.
    Adopt,
    /// Pass the pod template through the plugin chain.
    Mutate(Try),
    /// Ask whether the Deployment may roll now.
    TakeTurn(Try),
    /// Write the Deployment.
    Apply(Box<Apply>),
    /// Delete the Deployment of that UID.
    DeleteDeployment { uid: String },
    /// Write the status.
    WriteStatus(Box<PortalExposeStatus>),
}

/// A Deployment to write.
#[derive(Clone, PartialEq, Serialize)]
pub(crate) struct Apply {
    pub(crate) why: Why,
    /// The UID of the Deployment to change; none to create one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    /// What is written. It may have secrets that plugins wrote.
    #[serde(skip)]
    pub(crate) object: Value,
    #[serde(skip)]
    pub(crate) template_hash: String,
    /// The digest of the chain that it went through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    #[serde(skip)]
    pub(crate) tried: Try,
}

impl fmt::Debug for Apply {
    /// Without the object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apply")
            .field("why", &self.why)
            .field("uid", &self.uid)
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// Why a Deployment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Why {
    /// There is none.
    Missing,
    /// Spec, class, identity or settings changed, or another operator wrote it.
    Input,
    /// Somebody changed it.
    Drift,
    /// The plugin chain changed, and nothing else.
    Chain,
}

/// What an action came to.
pub(crate) enum ActionOutcome {
    /// The finalizer was written.
    Marked(Box<PortalExposeObject>),
    /// The API server rejected the finalizer, for this reason.
    MetadataRejected(String),
    /// The Secret as it is now.
    Identity {
        identity: SeenIdentity,
        /// Whether this action wrote it.
        is_written: bool,
    },
    /// The Deployment as the API server has it; none if there is none.
    Deployment(Option<Arc<Deployment>>),
    /// No fields of another operator are left.
    Adopted,
    /// The template went through the chain.
    Rendered(Box<Rendered>),
    /// The Deployment may roll now or later.
    Turn(Turn),
    /// The Deployment was written.
    Applied(Arc<Deployment>),
    /// It did not work.
    Refused(Refusal),
    /// The API server has accepted the Deployment's deletion.
    DeploymentDeleted,
    /// The Deployment no longer exists.
    DeploymentGone,
    /// The status was written; the PortalExpose as the API server answered.
    StatusWritten(Box<PortalExposeObject>),
    /// The PortalExpose no longer exists.
    Gone,
}
