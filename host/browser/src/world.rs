//! All that a plan for a Browser may depend on.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus, Phase, SelenosisApi, names};
use podloom_engine::readable::Readable;
use podloom_engine::write::MetadataPatch;
use podloom_mutation::PodRejection;
use serde::Serialize;

use super::cause::{Cause, Disruption};
use super::pod::{SeenPod, instant};
use super::warm::FromPool;

/// A Browser, and what there is around it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) api: SelenosisApi,
    pub(crate) browser: Arc<BrowserObject>,
    /// The BrowserConfigs of its namespace. One that cannot be read serves nothing.
    pub(crate) configs: Vec<Arc<Readable<BrowserConfigObject>>>,
    /// The pod of its name, or the warm one that it has taken. None means that there is none, not that it was not looked up.
    pub(crate) pod: Option<Arc<SeenPod>>,
    /// All pods that the watch shows as its own, if it has taken a warm one.
    pub(crate) own_pods: Vec<Arc<SeenPod>>,
    /// Whether the cache shows that pod, so that its changes start a pass.
    pub(crate) pod_is_watched: bool,
    /// When this process first saw the Browser waiting for a pod.
    pub(crate) first_seen: Option<Timestamp>,
    /// When this process first saw that a container of the pod lacks its configuration, if it does.
    pub(crate) lacks_config_since: Option<Timestamp>,
    /// What this pass has learned so far.
    pub(crate) learned: Learned,
}

/// What no cache shows: what the actions of this pass came to, and how the pod ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// The Browser is up to date: it was read in this pass, or was in the answer to our own write.
    pub(crate) browser_confirmed: bool,
    /// The pod was not looked up since the Browser was read. It may be another than that of the cached Browser.
    pub(crate) pod_unknown: bool,
    /// What is about to end the session was read from the API server.
    pub(crate) end_confirmed: bool,
    /// The UID of the pod that was created, though the status does not say so yet.
    pub(crate) created: Option<String>,
    /// The NetworkPolicy of the session is there.
    pub(crate) policy_applied: bool,
    /// Why the session took no warm pod, though there are some.
    pub(crate) cold: Option<String>,
    /// Why the pod was not created.
    pub(crate) rejection: Option<PodRejection>,
    /// Why the API server rejected our finalizer and labels.
    pub(crate) metadata_rejected: Option<String>,
    /// Until when to wait for a pod that is late.
    pub(crate) late_until: Option<Timestamp>,
    /// How the pod's deletion was requested in this pass.
    pub(crate) pod_deleted: Option<PodDeletion>,
    /// Why the pod that is gone was evicted or preempted, from its last state.
    pub(crate) disruption: Option<Disruption>,
}

impl World {
    pub(crate) fn name(&self) -> &str {
        self.browser.metadata.name.as_deref().unwrap_or_default()
    }

    /// The name of its pod: its own, unless the pod was a warm one.
    pub(crate) fn pod_name(&self) -> &str {
        let own = self.own_pod().and_then(|pod| pod.metadata.name.as_deref());
        let noted = || self.status()?.pod_name.as_deref();
        own.or_else(noted).unwrap_or(self.name())
    }

    pub(crate) fn status(&self) -> Option<&BrowserStatus> {
        self.browser.status.as_ref()
    }

    /// The condition of that type in the status, if it has this status.
    pub(crate) fn condition(&self, type_: &str, status: &str) -> Option<&Condition> {
        let mut conditions = self.status()?.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == type_ && condition.status == status)
    }

    pub(crate) fn phase(&self) -> Option<Phase> {
        self.status().and_then(|status| status.phase)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.browser.metadata.deletion_timestamp.is_some()
    }

    /// Whether nothing is left to decide but when the Browser goes.
    pub(crate) fn is_over(&self) -> bool {
        self.is_deleted() || matches!(self.phase(), Some(Phase::Failed | Phase::Succeeded))
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        let mut finalizers = self.browser.metadata.finalizers.iter().flatten();
        finalizers.any(|name| name == names::finalizer::BROWSER)
    }

    /// The UID of the pod that was created for this Browser.
    pub(crate) fn pod_uid(&self) -> Option<&str> {
        let remembered = self.status().and_then(|status| status.pod_uid.as_deref());
        self.learned.created.as_deref().or(remembered)
    }

    /// Whether the status has the UID of a pod.
    pub(crate) fn has_noted_pod(&self) -> bool {
        self.status().is_some_and(|status| status.pod_uid.is_some())
    }

    /// Whether there was a pod. Another operator may not have noted its UID.
    pub(crate) fn had_pod(&self) -> bool {
        let ran = |status: &BrowserStatus| {
            status.pod_ip.is_some()
                || status.start_time.is_some()
                || matches!(status.phase, Some(Phase::Running | Phase::Unknown))
        };
        self.pod_uid().is_some() || self.status().is_some_and(ran)
    }

    /// Whether there is no pod and never was one.
    pub(crate) fn lacks_pod(&self) -> bool {
        self.pod.is_none() && !self.had_pod()
    }

    /// The pod, if it is this Browser's.
    pub(crate) fn own_pod(&self) -> Option<&SeenPod> {
        self.pod.as_deref().filter(|pod| self.owns(pod))
    }

    /// Whether the pod's controller is this very Browser, and not an earlier one of the same name.
    pub(crate) fn owns(&self, pod: &SeenPod) -> bool {
        let uid = self.browser.metadata.uid.as_deref();
        uid.is_some() && pod.controller() == uid
    }

    /// Why the pod that is gone was evicted or preempted, if it was.
    pub(crate) fn disruption(&self) -> Option<Disruption> {
        let published = || {
            let target = self.condition(names::condition::DISRUPTION_TARGET, "True")?;
            Some(Disruption {
                reason: target.reason.clone(),
                message: target.message.clone(),
            })
        };
        self.learned.disruption.clone().or_else(published)
    }

    /// When the Browser was created.
    pub(crate) fn created_at(&self, now: Timestamp) -> Timestamp {
        instant(self.browser.metadata.creation_timestamp.as_ref(), now)
    }
}

// The actions of a Browser's plan, and their outcomes.

/// One action for a Browser.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Read the Browser from the API server: a cache may not show that it was deleted or is over.
    ReadBrowser,
    /// Read the pod from the API server: it has not run yet, or was not looked up yet, and the session is about to end.
    ConfirmPod,
    /// Read whether there is really no BrowserConfig and no pod. If the answer to a creation was lost, a pod may exist that we do not
    /// know.
    ConfirmAbsence,
    /// Set finalizers and labels in one patch, unless the Browser has changed since it was read.
    SetMetadata(MetadataPatch),
    /// Write the status.
    WriteStatus {
        #[serde(flatten)]
        status: Box<BrowserStatus>,
        /// Why the session ended, if this is the status that publishes it.
        #[serde(skip)]
        end: Option<Cause>,
    },
    /// Apply the NetworkPolicy of the session.
    ApplyPolicy(Box<NetworkPolicy>),
    /// Pass the pod through the plugin chain and create the result.
    CreatePod(Box<Pod>),
    /// Do the same, but take a warm pod of this pool instead if there is one that can be it.
    TakePod { pod: Box<Pod>, from: FromPool },
    /// Delete the pod of that UID.
    DeletePod { uid: String, how: PodDeletion },
    /// Delete a warm pod that was taken though the session has its pod.
    DeleteStray { name: String, uid: String },
    /// Delete the Browser.
    Delete,
}

impl Action {
    /// What it does, for traces.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::ReadBrowser => "read Browser",
            Self::ConfirmPod | Self::ConfirmAbsence => "confirm",
            Self::SetMetadata(_) => "set metadata",
            Self::WriteStatus { .. } => "write status",
            Self::ApplyPolicy(_) => "apply network policy",
            Self::CreatePod(_) => "create pod",
            Self::TakePod { .. } => "take pod",
            Self::DeletePod { .. } => "delete pod",
            Self::DeleteStray { .. } => "delete stray pod",
            Self::Delete => "delete Browser",
        }
    }
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
    /// The NetworkPolicy of the session is there.
    PolicyApplied,
    /// This pod was created, with these remarks of the plugins, and for this reason although there are warm ones.
    PodCreated(Arc<SeenPod>, Vec<String>, Option<String>),
    /// This warm pod was taken, with these remarks of the plugins.
    PodTaken(Arc<SeenPod>, Vec<String>),
    /// This stray pod is being deleted.
    StrayDeleted(String),
    /// This pod of the same name already exists.
    PodExists(Arc<SeenPod>),
    /// The pod was rejected.
    PodRejected(PodRejection),
    /// The API server has accepted the pod's deletion.
    PodDeleted(PodDeletion),
    /// The pod no longer exists.
    PodGone,
}

// How long the steps of a session may take.

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the creation of a Browser until it has a pod, and from then until the pod runs; 5 minutes each by default.
    pub pod_creation: Duration,
    /// How long to wait for a pod to terminate; 5 minutes by default.
    pub pod_deletion: Duration,
    /// How long a failed Browser stays; none by default.
    pub failed_retention: Duration,
    /// How long a Browser waits for its BrowserConfig from when it is first seen; 5 seconds by default.
    pub config_grace: Duration,
    /// How long a container may lack the Secret or ConfigMap that it needs, from when that is first seen; 10 seconds by default.
    pub container_config_grace: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            pod_creation: Duration::from_mins(5),
            pod_deletion: Duration::from_mins(5),
            failed_retention: Duration::ZERO,
            config_grace: Duration::from_secs(5),
            container_config_grace: Duration::from_secs(10),
        }
    }
}
