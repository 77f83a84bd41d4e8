//! All that a plan for a Browser may depend on.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus, Phase, SelenosisApi, names};

use super::cause::Disruption;
use super::pod::SeenPod;
use crate::engine::readable::Readable;
use crate::mutator::PodRejection;

/// A Browser, and what there is around it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) api: SelenosisApi,
    pub(crate) browser: Arc<BrowserObject>,
    /// The BrowserConfigs of its namespace; one that cannot be read serves nothing.
    pub(crate) configs: Vec<Arc<Readable<BrowserConfigObject>>>,
    /// The pod of its name; none means that there is none, not that nobody has looked.
    pub(crate) pod: Option<Arc<SeenPod>>,
    /// Whether the cache shows that pod, so that what becomes of it wakes the Browser.
    pub(crate) pod_is_watched: bool,
    /// When this process first saw the Browser waiting for a pod.
    pub(crate) first_seen: Option<Timestamp>,
    /// What this pass has learned so far.
    pub(crate) learned: Learned,
}

/// What no cache tells: what acting taught in this pass, and how the pod went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// The API server has shown that the Browser is as it is here: by an answer to our own write, or because it was read.
    pub(crate) browser_confirmed: bool,
    /// Nobody has looked for the pod since the Browser was read: it may be another one than the cached Browser's.
    pub(crate) pod_unknown: bool,
    /// What may end the session was read from the API server.
    pub(crate) end_confirmed: bool,
    /// The UID of the pod that was created, though the status does not say so yet.
    pub(crate) created: Option<String>,
    /// Why the pod was not created.
    pub(crate) refusal: Option<PodRejection>,
    /// What the API server says to our finalizer and labels, if it does not let us set them.
    pub(crate) metadata_refused: Option<String>,
    /// Until when a pod whose time is over is not given up yet.
    pub(crate) late_until: Option<Timestamp>,
    /// The pod was told to go.
    pub(crate) pod_deleted: bool,
    /// What drove the pod out that is gone, as its last state said.
    pub(crate) disruption: Option<Disruption>,
}

impl World {
    pub(crate) fn name(&self) -> &str {
        self.browser.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Option<&BrowserStatus> {
        self.browser.status.as_ref()
    }

    pub(crate) fn phase(&self) -> Option<Phase> {
        self.status().and_then(|status| status.phase)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.browser.metadata.deletion_timestamp.is_some()
    }

    /// Whether nothing is left to decide but how the Browser goes.
    pub(crate) fn is_over(&self) -> bool {
        self.is_deleted() || matches!(self.phase(), Some(Phase::Failed | Phase::Succeeded))
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers()
            .iter()
            .any(|name| name == names::finalizer::BROWSER)
    }

    pub(crate) fn finalizers(&self) -> &[String] {
        self.browser
            .metadata
            .finalizers
            .as_deref()
            .unwrap_or_default()
    }

    /// The UID of the pod that was once made for this Browser.
    pub(crate) fn pod_uid(&self) -> Option<&str> {
        let remembered = self.status().and_then(|status| status.pod_uid.as_deref());
        self.learned.created.as_deref().or(remembered)
    }

    /// Whether there was a pod, though another operator may not have left its UID.
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

    /// What drove out the pod that is gone, if anything is known to have.
    pub(crate) fn disruption(&self) -> Option<Disruption> {
        let published = || {
            let conditions = self.status()?.conditions.as_ref()?;
            let target = conditions.iter().find(|condition| {
                condition.type_ == names::condition::DISRUPTION_TARGET && condition.status == "True"
            })?;
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

/// A time of an object; one without has just begun.
pub(crate) fn instant(time: Option<&Time>, now: Timestamp) -> Timestamp {
    time.map_or(now, |time| time.0)
}
