//! All that a plan for a PortalExpose may depend on.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::core::ObjectMeta;
use podloom_api::names::portal;
use podloom_api::{AppliedTunnel, PortalExposeObject, PortalExposeStatus, TunnelClassObject};
use podloom_engine::readable::Readable;
use podloom_engine::write::MetadataPatch;
use serde::Serialize;

use super::check::{Authority, Blocker};
use super::deployment::is_owned;
use super::relays::{Link, Observation};
use super::render::Rendered;
use super::settings::TunnelSettings;

/// What the operator was started with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) tunnel: TunnelSettings,
    pub(crate) chain_policy: ChainPolicy,
    /// How long pods may be ready before all relays have to be connected.
    pub(crate) relay_grace: Duration,
    pub(crate) observation: Observation,
}

/// What happens to running tunnels when the plugin chain changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainPolicy {
    /// They go through the new chain at once; a few at a time replace their pods.
    #[default]
    Roll,
    /// Each goes through the new chain with its next other change.
    Defer,
}

/// A PortalExpose, and what there is around it.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) expose: Arc<PortalExposeObject>,
    /// All TunnelClasses.
    pub(crate) classes: Vec<Arc<Readable<TunnelClassObject>>>,
    /// The Service that it names; none if it does not exist.
    pub(crate) service: Option<Arc<Service>>,
    /// An older PortalExpose with one of its hostnames.
    pub(crate) conflict: Option<Conflict>,
    pub(crate) identity: SeenIdentity,
    pub(crate) deployment: SeenDeployment,
    /// What is known of each relay, in the order of the spec; none if its relays cannot be used.
    pub(crate) links: Vec<Option<Link>>,
    /// The digest of the plugin chain; none before one is loaded.
    pub(crate) chain: Option<String>,
    /// The resource version of its namespace; none if namespaces may not be read.
    pub(crate) namespace_version: Option<String>,
    /// Whether its namespace is being deleted, so that nothing can be created in it.
    pub(crate) namespace_ends: bool,
    /// What was tried before this pass and failed.
    pub(crate) refused: Option<Refusal>,
    /// What was tried before this pass, and waits until fewer Deployments roll.
    pub(crate) queued: Option<Try>,
    /// Since when the Deployment replaces its pods because of our last write; none if it does not.
    pub(crate) rolls_since: Option<Timestamp>,
    /// When the Deployment may be restored again, if it was before.
    pub(crate) next_repair: Option<Timestamp>,
    /// The Deployment as this process wrote it last. The status may not say it yet.
    pub(crate) written: Option<AppliedTunnel>,
    pub(crate) learned: Learned,
}

/// An older PortalExpose with the same hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The relay that both use.
    pub(crate) authority: Authority,
    /// Its name, if it is in the same namespace: names in other namespaces are nobody else's business.
    pub(crate) name: Option<String>,
}

/// The Secret with the identity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeenIdentity {
    /// No cache shows one, and nobody asked the API server.
    Unseen,
    /// There is none.
    Absent,
    /// The Secret of its name belongs to somebody else.
    NotOurs,
    Ours(OurIdentity),
}

/// Our Secret with the identity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OurIdentity {
    pub(crate) metadata: Arc<ObjectMeta>,
    /// None if it was not read.
    pub(crate) content: Option<Content>,
}

/// What is in the Secret, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Valid {
        /// The hash of the value.
        checksum: String,
        /// The application that the identity is complete for; none if it lacks something.
        app: Option<String>,
    },
    /// It is no identity, for this reason.
    Invalid(String),
}

/// The Deployment of the tunnel's name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeenDeployment {
    /// No cache shows one, and nobody asked the API server. It may exist without our labels.
    Unseen,
    /// There is none.
    Absent,
    Found(Arc<Deployment>),
}

/// What was tried: if it changes, the next try is at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Try {
    /// To write the Secret, for this generation of the spec.
    Identity { generation: Option<i64> },
    /// To write the Deployment.
    Tunnel {
        /// The hash of what was rendered.
        #[serde(skip)]
        input: String,
        /// The digest of the chain.
        chain: Option<String>,
        /// The resource version of the namespace, whose labels plugins can read.
        #[serde(skip)]
        namespace: Option<String>,
    },
}

/// Something that was tried and failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) tried: Try,
    pub(crate) problem: Blocker,
    /// When to try it again.
    pub(crate) next: Timestamp,
}

/// What the actions of this pass came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    /// Why the API server rejected our finalizer.
    pub(crate) metadata_rejected: Option<String>,
    /// What this pass tried, and failed to do.
    pub(crate) refused: Option<Refusal>,
    /// The PortalExpose is up to date: it was read in this pass, or was in the answer to our own write.
    pub(crate) is_confirmed: bool,
    /// The Secret was written.
    pub(crate) is_identity_written: bool,
    /// The managed fields of another operator were taken over, or there are none.
    pub(crate) is_adopted: bool,
    /// What came out of the chain.
    pub(crate) rendered: Option<Rendered>,
    /// Whether the Deployment may roll for a new chain.
    pub(crate) turn: Option<Turn>,
    /// The Deployment as this pass wrote it.
    pub(crate) applied: Option<AppliedTunnel>,
    /// The Deployment was asked to go.
    pub(crate) is_deployment_deleted: bool,
}

/// Whether a Deployment may roll for a new chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It may.
    Now,
    /// Too many others roll.
    Later,
}

impl World {
    pub(crate) fn name(&self) -> &str {
        self.expose.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        self.expose.metadata.uid.as_deref()
    }

    pub(crate) fn status(&self) -> Option<&PortalExposeStatus> {
        self.expose.status.as_ref()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.expose.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        has_finalizer(&self.expose.metadata)
    }

    /// The Deployment, if it is this PortalExpose's.
    pub(crate) fn own_deployment(&self) -> Option<&Deployment> {
        match &self.deployment {
            SeenDeployment::Found(found) if self.owns(found) => Some(found),
            _ => None,
        }
    }

    /// Whether the Deployment of the tunnel's name is somebody else's.
    pub(crate) fn is_deployment_anothers(&self) -> bool {
        matches!(&self.deployment, SeenDeployment::Found(found) if !self.owns(found))
    }

    fn owns(&self, deployment: &Deployment) -> bool {
        is_owned(&deployment.metadata, &self.expose.metadata)
    }

    /// The Deployment as it was last written.
    pub(crate) fn applied(&self) -> Option<&AppliedTunnel> {
        let published = self.status().and_then(|status| status.applied.as_ref());
        let written = self.learned.applied.as_ref().or(self.written.as_ref());
        written.or(published)
    }

    /// To write the Secret as the spec is now.
    pub(crate) fn identity_try(&self) -> Try {
        let generation = self.expose.metadata.generation;
        Try::Identity { generation }
    }

    /// To write the Deployment that was rendered with this hash.
    pub(crate) fn tunnel_try(&self, input: &str) -> Try {
        Try::Tunnel {
            input: input.to_owned(),
            chain: self.chain.clone(),
            namespace: self.namespace_version.clone(),
        }
    }

    /// What failed the last time that this was tried.
    pub(crate) fn refusal_of(&self, tried: &Try) -> Option<&Refusal> {
        let refused = self.learned.refused.as_ref().or(self.refused.as_ref());
        refused.filter(|refused| refused.tried == *tried)
    }
}

/// Whether a PortalExpose has our finalizer: until it goes, its Deployment may exist.
pub(crate) fn has_finalizer(expose: &ObjectMeta) -> bool {
    let mut finalizers = expose.finalizers.iter().flatten();
    finalizers.any(|name| name == portal::FINALIZER)
}

// The actions of a PortalExpose's plan, and their outcomes.

/// One action for a PortalExpose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Set or remove our finalizer, unless the PortalExpose has changed since it was read.
    SetMetadata(MetadataPatch),
    /// Read the PortalExpose from the API server: a cache may show one that is gone, or was edited since.
    ReadExpose,
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Apply {
    pub(crate) why: Why,
    /// The UID of the Deployment to change; none to create one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    #[serde(flatten)]
    pub(crate) rendered: Rendered,
    #[serde(skip)]
    pub(crate) tried: Try,
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
    /// The finalizer or the status was written; the PortalExpose as the API server answered.
    Written(Box<PortalExposeObject>),
    /// The PortalExpose, as it was read.
    Read(Box<PortalExposeObject>),
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
    /// The PortalExpose no longer exists.
    Gone,
}
