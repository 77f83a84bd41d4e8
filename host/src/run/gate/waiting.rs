//! Pods that wait at the gate, and what is to be done with each.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use podloom_api::names::condition;
use podloom_syntax::names::dns_subdomain;
use podloom_webhook::{OwnerKind, makes_pods};

use crate::drift::{Owner, Pod};

/// The longest UID that is looked at. Those of the API server have 36 bytes.
const UID_BYTES: usize = 64;

/// A pod that waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waiting {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) created: Option<Timestamp>,
    /// Its controller, or itself.
    pub(super) owner: Owner,
}

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// Its controller replaces it.
    Evict,
    /// If its Job goes on then, it is evicted too.
    AskJob,
    Manual(Manual),
}

/// Why a person has to delete a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Manual {
    /// Nothing controls it.
    Bare,
    /// Nobody knows whether its controller replaces it.
    UnknownOwner,
    /// Its Job counts an evicted pod as failed.
    Job,
}

impl Waiting {
    /// None if the pod does not wait at our gate.
    pub(super) fn of(pod: &Pod<'_>) -> Option<Self> {
        (pod.is_gated() && !pod.is_over()).then(|| Self {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            version: pod.version().to_owned(),
            created: pod.created(),
            owner: pod.owner(),
        })
    }

    /// What is to be done, given the kinds besides Kubernetes' own whose controllers create pods.
    pub(super) fn fate(&self, others: &[OwnerKind]) -> Fate {
        let Owner {
            api_version,
            kind,
            name,
            uid,
        } = &self.owner;
        if *uid == self.uid {
            return Fate::Manual(Manual::Bare);
        }
        // Everybody may write an owner into a pod, also one that no API server would take.
        if dns_subdomain(name).is_err() || uid.len() > UID_BYTES {
            return Fate::Manual(Manual::UnknownOwner);
        }
        match (api_version.as_str(), kind.as_str()) {
            ("batch/v1", "Job") => Fate::AskJob,
            // No such version can be read.
            (version, "Job") if version.starts_with("batch/") => Fate::Manual(Manual::UnknownOwner),
            _ if makes_pods(api_version, kind, others) => Fate::Evict,
            _ => Fate::Manual(Manual::UnknownOwner),
        }
    }

    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }

    /// The eviction of this pod as it was read: not of another one of its name, and not once its gate is gone.
    ///
    /// kube's own eviction calls the options `delete_options`, so that the API server ignores them.
    pub(super) fn eviction(&self) -> Eviction {
        Eviction {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.clone()),
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            delete_options: Some(DeleteOptions {
                preconditions: Some(Preconditions {
                    uid: Some(self.uid.clone()),
                    resource_version: Some(self.version.clone()),
                }),
                ..DeleteOptions::default()
            }),
        }
    }
}

impl Manual {
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Bare => {
                "no webhook of Podloom answered when this pod was created, so it waits at the gate; nothing controls it: delete it and create it again"
            }
            Self::UnknownOwner => {
                "no webhook of Podloom answered when this pod was created, so it waits at the gate; if its controller replaces pods, delete it, and name the kind of the controller with --pod-owner"
            }
            Self::Job => {
                "no webhook of Podloom answered when this pod was created, so it waits at the gate; its Job counts an evicted pod as failed: delete the pod if the Job has attempts left, or create the Job again, with a podFailurePolicy that ignores DisruptionTarget"
            }
        }
    }
}

/// Whether a Job replaces an evicted pod, and does not count it as failed. The first rule that matches decides.
pub(super) fn ignores_evictions(job: &Job) -> bool {
    let policy = job
        .spec
        .as_ref()
        .and_then(|spec| spec.pod_failure_policy.as_ref());
    let is_for_evictions = |rule: &&PodFailurePolicyRule| {
        let mut conditions = rule.on_pod_conditions.iter().flatten();
        conditions.any(|it| {
            // True if it is left out.
            it.type_ == condition::DISRUPTION_TARGET && matches!(&*it.status, "" | "True")
        })
    };
    let mut rules = policy.iter().flat_map(|policy| &policy.rules);
    let first = rules.find(is_for_evictions);
    first.is_some_and(|rule| rule.action == "Ignore")
}

#[cfg(test)]
pub(super) mod tests;
