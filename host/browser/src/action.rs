//! The actions of a Browser's plan, and their outcomes.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus};
use podloom_engine::readable::Readable;
use podloom_engine::write::MetadataPatch;
use podloom_mutation::PodRejection;
use serde::Serialize;

use super::cause::Cause;
use super::pod::SeenPod;

/// One action for a Browser.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Read the Browser from the API server: a cache may not show that it was deleted or is over.
    ReadBrowser,
    /// Read from the API server what is about to end the session.
    Confirm(Confirmation),
    /// Set finalizers and labels in one patch, unless the Browser has changed since it was read.
    SetMetadata(MetadataPatch),
    /// Write the status.
    WriteStatus(Box<StatusWrite>),
    /// Pass the pod through the plugin chain and create the result.
    CreatePod(Box<Pod>),
    /// Delete the pod of that UID.
    DeletePod { uid: String, how: PodDeletion },
    /// Delete the Browser.
    Delete,
}

impl Action {
    /// What it does, for traces.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::ReadBrowser => "read Browser",
            Self::Confirm(_) => "confirm",
            Self::SetMetadata(_) => "set metadata",
            Self::WriteStatus(_) => "write status",
            Self::CreatePod(_) => "create pod",
            Self::DeletePod { .. } => "delete pod",
            Self::Delete => "delete Browser",
        }
    }
}

/// A status to write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StatusWrite {
    #[serde(flatten)]
    pub(crate) status: BrowserStatus,
    /// Why the session ended, if this is the status that publishes it.
    #[serde(skip)]
    pub(crate) end: Option<Cause>,
}

/// What is read once more before a session ends, since a cache may be out of date. A pod that has ended needs no second look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Confirmation {
    /// The pod, which has not run yet, or was not looked up yet.
    Pod,
    /// Whether there is really no BrowserConfig and no pod. If the answer to a creation was lost, a pod may exist that we do not
    /// know.
    Absence,
}

/// How a pod is deleted; each way is stronger than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub(crate) enum PodDeletion {
    /// With the pod's own grace period.
    Graceful,
    /// With a grace period of 0.
    Force,
    /// With a grace period of 0, and an error is only logged: the Browser is released anyway.
    LastResort,
}

/// What an action came to, as the next plan has to know it.
#[derive(Debug)]
pub(crate) enum ActionOutcome {
    /// The Browser, as it was read.
    Read(Box<BrowserObject>),
    /// Finalizers and labels were written; `dropped` says why some of them are missing in the answer.
    Marked {
        browser: Box<BrowserObject>,
        dropped: Option<String>,
    },
    /// The API server rejected the finalizers and labels, for this reason.
    MetadataRejected(String),
    /// The status was written; the Browser as the API server answered.
    StatusWritten(Box<BrowserObject>),
    /// The Browser no longer exists.
    Gone,
    /// The pod as the API server has it, and until when to wait for it if it is late.
    Pod {
        pod: Option<Arc<SeenPod>>,
        late_until: Option<Timestamp>,
    },
    /// The pod that we did not know of, if there is one; else the BrowserConfigs, if they differ from the cached ones.
    Absence {
        pod: Option<Arc<SeenPod>>,
        configs: Option<Vec<Arc<Readable<BrowserConfigObject>>>>,
    },
    /// This pod was created, with these remarks of the plugins.
    PodCreated(Arc<SeenPod>, Vec<String>),
    /// This pod of the same name already exists.
    PodExists(Arc<SeenPod>),
    /// The pod was rejected.
    PodRejected(PodRejection),
    /// The API server has accepted the pod's deletion.
    PodDeleted(PodDeletion),
    /// The pod no longer exists.
    PodGone,
}
