//! All that a plan for a Browser may depend on.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use podloom_api::{BrowserConfigObject, BrowserObject, BrowserStatus, Phase, SelenosisApi, names};
use podloom_engine::readable::Readable;
use podloom_mutation::PodRejection;

use super::action::PodDeletion;
use super::cause::Disruption;
use super::pod::SeenPod;

/// A Browser, and what there is around it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) api: SelenosisApi,
    pub(crate) browser: Arc<BrowserObject>,
    /// The BrowserConfigs of its namespace. One that cannot be read serves nothing.
    pub(crate) configs: Vec<Arc<Readable<BrowserConfigObject>>>,
    /// The pod of its name. None means that there is none, not that it was not looked up.
    pub(crate) pod: Option<Arc<SeenPod>>,
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

    pub(crate) fn status(&self) -> Option<&BrowserStatus> {
        self.browser.status.as_ref()
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

/// A time of an object, or now if it has none.
pub(crate) fn instant(time: Option<&Time>, now: Timestamp) -> Timestamp {
    time.map_or(now, |time| time.0)
}
