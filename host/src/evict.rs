//! Pods that are replaced: each is evicted, and its controller creates another one.

use std::time::Duration;

use axum::http::Request;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, PodFailurePolicy, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{ObjectReference, Pod as CorePod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Client, Resource};
use podloom_api::names::condition;
use podloom_engine::plain::plain;
use podloom_syntax::names::dns_subdomain;
use podloom_webhook::{OwnerKind, pod_maker};
use tokio::time::timeout;

use crate::client::Once;
use crate::drift::{Owner, Pod};

/// The longest UID that is looked at. Those of the API server have 36 bytes.
const UID_BYTES: usize = 64;

/// How long an eviction may take.
const EVICTION_TIME: Duration = Duration::from_secs(5);

/// A pod that is to be replaced, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) created: Option<Timestamp>,
    /// Its controller, or itself.
    pub(crate) owner: Owner,
}

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// Its controller replaces it.
    Evict,
    /// If its Job goes on then, it is evicted too.
    AskJob,
    Manual(Manual),
}

/// Why a person has to delete a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manual {
    /// Nothing controls it.
    Bare,
    /// Nobody knows whether its controller replaces it.
    UnknownOwner,
    /// Its Job counts an evicted pod as failed.
    Job,
}

/// What became of an eviction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Evicted {
    Done,
    /// A PodDisruptionBudget holds it, the pod is gone or was changed, or the API server asks for patience.
    Refused(String),
    Failed(String),
    /// Nobody knows whether it was done.
    Unanswered(String),
}

impl Evicted {
    /// For metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "evicted",
            Self::Refused(_) => "refused",
            Self::Failed(_) | Self::Unanswered(_) => "failed",
        }
    }
}

impl Target {
    pub(crate) fn of(pod: &Pod<'_>) -> Self {
        Self {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            version: pod.version().to_owned(),
            created: pod.created(),
            owner: pod.owner(),
        }
    }

    /// What is to be done, given the kinds besides Kubernetes' own whose controllers create pods.
    pub(crate) fn fate(&self, others: &[OwnerKind]) -> Fate {
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
            _ if pod_maker(api_version, kind, others).is_some() => Fate::Evict,
            _ => Fate::Manual(Manual::UnknownOwner),
        }
    }

    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }

    /// Evicts the pod, if it is still as it was read.
    pub(crate) async fn evict(&self, client: &Client) -> Evicted {
        let request = match self.request() {
            Ok(request) => request,
            Err(error) => return Evicted::Failed(error.to_string()),
        };
        match timeout(EVICTION_TIME, client.request::<Status>(request)).await {
            Ok(Ok(_)) => Evicted::Done,
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409 | 429) => {
                Evicted::Refused(status.message)
            }
            Ok(Err(error @ kube::Error::Api(_))) => Evicted::Failed(plain(&error)),
            Ok(Err(error)) => Evicted::Unanswered(plain(&error)),
            Err(_) => Evicted::Unanswered(format!("no answer within {EVICTION_TIME:?}")),
        }
    }

    /// It is sent once: while a budget holds this pod, others can be evicted.
    fn request(&self) -> anyhow::Result<Request<Vec<u8>>> {
        let pods = kube::core::Request::new(CorePod::url_path(&(), Some(&self.namespace)));
        let (options, eviction) = (PostParams::default(), serde_json::to_vec(&self.eviction())?);
        let mut request = pods.create_subresource("eviction", &self.name, &options, eviction)?;
        request.extensions_mut().insert(Once);
        Ok(request)
    }

    /// The eviction of this pod as it was read: not of another one of its name, and not once something of it was changed.
    ///
    /// kube's own eviction calls the options `delete_options`, so that the API server ignores them.
    fn eviction(&self) -> Eviction {
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

/// Whether a Job replaces an evicted pod, and does not count it as failed.
pub(crate) fn ignores_evictions(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    goes_on(spec.and_then(|spec| spec.pod_failure_policy.as_ref()))
}

/// The same of its policy. The first rule that matches decides.
pub(crate) fn goes_on(policy: Option<&PodFailurePolicy>) -> bool {
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
pub(crate) mod tests;
