//! The world around a provider, and what can be done.

use std::sync::Arc;

use kube::core::ApiResource;
use podloom_api::{InfrastructureProviderObject, InfrastructureProviderStatus};
use serde::Serialize;

use crate::engine::kind::Source;
use crate::engine::write::MetadataPatch;
use crate::infrastructure::im::InfrastructureManager;
use crate::infrastructure::in_use::{Known, Live, Users};
use crate::infrastructure::probe::{Basis, Found, Probe, Probes};
use crate::infrastructure::resolve::{Caches, ImEndpoint};
use crate::infrastructure::said::{Said, Sayings};
use crate::infrastructure::secret_metas::SecretMetas;
use crate::infrastructure::secrets::Secrets;

/// What the controller of a level needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ProviderParts {
    /// The resource of the providers of the level.
    pub(crate) resource: Arc<ApiResource>,
    /// What is around them.
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
    pub(crate) probes: Probes<ProviderFound>,
    /// What was said last in their statuses.
    pub(crate) said: Sayings<InfrastructureProviderStatus>,
}

/// What a probe of a provider found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderFound {
    /// Whether it says its version.
    pub(crate) reachable: Found,
    /// Its version, if it does.
    pub(crate) version: Option<String>,
    /// Whether it accepts the credentials.
    pub(crate) authenticated: Found,
}

/// A provider and what is around it.
pub(crate) struct World {
    pub(super) provider: InfrastructureProviderObject,
    pub(super) endpoint: Result<ImEndpoint, String>,
    pub(super) users: Users,
    pub(super) users_from: Source,
    pub(super) basis: Basis,
    pub(super) probe: Option<Probe<ProviderFound>>,
    pub(super) said: Said<InfrastructureProviderStatus>,
    /// Why our finalizer could not be written in this pass.
    pub(super) refused: Option<String>,
}

/// One action for a provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Write our finalizer.
    SetMetadata(MetadataPatch),
    /// Read who needs it from the API server.
    Confirm,
    /// Ask the Infrastructure Manager.
    Probe,
    /// Write the status.
    WriteStatus(Box<InfrastructureProviderStatus>),
}

/// What came of an action.
pub(crate) enum Outcome {
    /// The provider as it is now; none if it is gone.
    Provider(Option<Box<InfrastructureProviderObject>>),
    /// The API server refused our finalizer, with this message.
    Refused(String),
    /// Who needs it.
    Users(Users),
    /// What was found.
    Probed(Probe<ProviderFound>),
}
