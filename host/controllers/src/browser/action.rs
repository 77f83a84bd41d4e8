//! What can be done about a Browser, and what doing it teaches.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus};
use serde::Serialize;

use super::cause::Cause;
use super::pod::SeenPod;
use crate::engine::readable::Readable;
use crate::engine::write::MetadataPatch;
use crate::mutator::{Note, PodRejection};

/// One thing to do about a Browser.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Read the Browser from the API server: a cache may not show that it was deleted or is over.
    ReadBrowser,
    /// Read from the API server what is about to end the session.
    Confirm(Confirmation),
    /// Set finalizers and labels in one patch, provided that nobody wrote since.
    SetMetadata(MetadataPatch),
    /// Write the status.
    WriteStatus(Box<StatusWrite>),
    /// Pass the pod through the chain and create what comes out.
    CreatePod(Box<Pod>),
    /// Delete the pod of that UID.
    DeletePod { uid: String, how: PodDeletion },
    /// Delete the Browser.
    Delete,
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

/// What is read before a session ends. What has ended stays so, thus only these may be otherwise by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Confirmation {
    /// The pod, which never ran, or which nobody has looked for.
    Pod,
    /// That there is no BrowserConfig and no pod: one may exist unknown to us if the answer to its creation was lost.
    Absence,
}

/// How a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum PodDeletion {
    /// In the time that the pod itself asks for.
    Graceful,
    /// At once.
    Force,
    /// At once, and what comes of it does not matter any more.
    LastResort,
}

/// What acting taught about a Browser.
#[derive(Debug)]
pub(crate) enum ActionOutcome {
    /// The Browser was read, and is like this.
    Read(Box<BrowserObject>),
    /// Finalizers and labels were written; `dropped` says what became of those that the answer does not have.
    Marked {
        browser: Box<BrowserObject>,
        dropped: Option<String>,
    },
    /// The API server does not let us set finalizers and labels, and this is what it says.
    MetadataRefused(String),
    /// The status was written, and the Browser is like this.
    StatusWritten(Box<BrowserObject>),
    /// The Browser is gone, and all is done.
    Gone,
    /// The pod as the API server has it, and until when one that is late is not given up yet.
    Pod {
        pod: Option<Arc<SeenPod>>,
        late_until: Option<Timestamp>,
    },
    /// The pod that nobody knew of, if there is one; else the BrowserConfigs, if they are others than the cached ones.
    Absence {
        pod: Option<Arc<SeenPod>>,
        configs: Option<Vec<Arc<Readable<BrowserConfigObject>>>>,
    },
    /// This pod was created; plugins had something to say.
    PodCreated(Arc<SeenPod>, Vec<Note>),
    /// There is a pod of that name already.
    PodExists(Arc<SeenPod>),
    /// The pod was refused.
    PodRefused(PodRejection),
    /// The pod will go.
    PodDeleted,
    /// The pod is gone.
    PodGone,
}
