//! The world around a Cloud, and what can be done.

use std::sync::Arc;

use kube::core::ApiResource;
use podloom_api::{CloudObject, CloudStatus};
use serde::Serialize;

use crate::engine::kind::Source;
use crate::engine::write::MetadataPatch;
use crate::infrastructure::im::InfrastructureManager;
use crate::infrastructure::in_use::{Known, Live, Users};
use crate::infrastructure::probe::{Basis, Found, Probe, Probes};
use crate::infrastructure::resolve::{Backend, Caches, Unresolved};
use crate::infrastructure::said::{Said, Sayings};
use crate::infrastructure::secret_metas::SecretMetas;
use crate::infrastructure::secrets::Secrets;

/// What the controller of a level needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CloudParts {
    /// The resource of the Clouds of the level.
    pub(crate) resource: Arc<ApiResource>,
    /// What the Clouds can name.
    pub(crate) caches: Caches,
    /// What may need them.
    pub(crate) known: Known,
    /// The same, as the API server knows it.
    pub(crate) live: Live,
    /// Which Secrets there are.
    pub(crate) metas: SecretMetas,
    /// Their values.
    pub(crate) secrets: Secrets,
    /// Sends requests.
    pub(crate) im: Arc<dyn InfrastructureManager>,
    /// What was found.
    pub(crate) probes: Probes<CloudFound>,
    /// What was said last in their statuses.
    pub(crate) said: Sayings<CloudStatus>,
}

/// What a probe of a Cloud found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CloudFound {
    /// What of its Secrets, or of the provider's, is missing.
    pub(crate) missing: Option<Unresolved>,
    /// Whether the cloud says its quotas.
    pub(crate) quotas: Found,
}

/// What the status of a Cloud's provider says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderSays {
    /// Whether it is ready.
    pub(crate) ready: Found,
    /// How many Clouds name it.
    pub(crate) clouds: usize,
}

/// A Cloud and what is around it.
pub(crate) struct World {
    pub(super) cloud: CloudObject,
    pub(super) backend: Result<Backend, Unresolved>,
    pub(super) provider: ProviderSays,
    pub(super) users: Users,
    pub(super) users_from: Source,
    pub(super) basis: Basis,
    pub(super) probe: Option<Probe<CloudFound>>,
    pub(super) said: Said<CloudStatus>,
    /// Why our finalizer could not be written in this pass.
    pub(super) refused: Option<String>,
}

/// One action for a Cloud.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Write our finalizer.
    SetMetadata(MetadataPatch),
    /// Read who needs it from the API server.
    Confirm,
    /// Read its Secrets, and ask the cloud if its provider is ready.
    Probe,
    /// Write the status.
    WriteStatus(Box<CloudStatus>),
}

/// What came of an action.
pub(crate) enum Outcome {
    /// The Cloud as it is now; none if it is gone.
    Cloud(Option<Box<CloudObject>>),
    /// The API server refused our finalizer, with this message.
    Refused(String),
    /// Who needs it.
    Users(Users),
    /// What was found.
    Probed(Probe<CloudFound>),
}
