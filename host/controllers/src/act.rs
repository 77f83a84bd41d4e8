//! The only writer: does one action of a plan, and returns what the API server answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, ObjectMeta, Request, Status};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::error::ReconcileError;
use crate::live::{is_gone, read_pod};
use crate::mutator::{Note, PodMutator, PodRequest, Refusal};
use crate::pod::SeenPod;
use crate::status::difference;

/// How long one write may take: admission webhooks take 10 seconds each unless they are given more. The client itself tries again
/// where the API server asks for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest sentence of the API server that is passed on.
const SENTENCE_MAX: usize = 4096;

/// One thing to do about an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action<S> {
    /// Set finalizers and labels in one patch, provided that nobody wrote since.
    SetMetadata(MetadataPatch),
    /// Write the status.
    WriteStatus(Box<S>),
    /// Pass the pod through the chain and create what comes out.
    CreatePod(Box<Pod>),
    /// Delete the pod of that UID.
    DeletePod {
        name: String,
        uid: String,
        how: Deletion,
    },
    /// Delete the object itself.
    Delete,
}

/// The finalizers that an object shall have, if they change, and the labels that are missing or wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct MetadataPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finalizers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<&'static str, String>,
}

/// How a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Deletion {
    /// In the time that the pod itself asks for.
    Graceful,
    /// At once.
    Force,
    /// At once, and what comes of it does not matter any more.
    LastResort,
}

/// What acting taught.
#[derive(Debug)]
pub(crate) enum Fact<K> {
    /// The object is now like this.
    Object(Box<K>),
    /// The object is gone, and all is done.
    Gone,
    /// This pod was created; plugins had something to say.
    PodCreated(Box<SeenPod>, Vec<Note>),
    /// There is a pod of that name already.
    PodExists(Box<SeenPod>),
    /// The pod is not to be.
    PodRefused(Refusal),
    /// The pod will go.
    PodDeleted,
    /// The pod is gone.
    PodGone,
    /// The API server does not let us set finalizers and labels, and this is what it says.
    MetadataRefused(String),
}

/// An object that is acted upon.
pub(crate) struct Actor<'a> {
    pub(crate) client: &'a Client,
    pub(crate) mutator: &'a Arc<dyn PodMutator>,
    pub(crate) resource: &'a ApiResource,
    pub(crate) metadata: &'a ObjectMeta,
    /// Who writes, as managed fields tell it.
    pub(crate) field_manager: &'static str,
}

impl Actor<'_> {
    /// Sets finalizers and labels. An object that is gone needs none; one that goes has to be released, so a refusal is an error.
    ///
    /// Webhooks deny with any status, or do not answer: whatever it is, the object's time goes on, and its status has to say so.
    pub(crate) async fn set_metadata<K: DeserializeOwned>(
        &self,
        patch: &MetadataPatch,
    ) -> Result<Fact<K>, ReconcileError> {
        let mut metadata = json!({
            "uid": self.metadata.uid,
            "resourceVersion": self.metadata.resource_version,
        });
        if let Some(finalizers) = &patch.finalizers {
            metadata["finalizers"] = json!(finalizers);
        }
        if !patch.labels.is_empty() {
            metadata["labels"] = json!(patch.labels);
        }
        let done = match self.patch(json!({ "metadata": metadata }), None).await {
            Err(unanswered) if self.is_kept() => {
                return Ok(Fact::MetadataRefused(unanswered.to_string()));
            }
            answered => answered?,
        };
        match done {
            Err(kube::Error::Api(status))
                if self.is_kept() && !is_gone(&status) && !status.is_conflict() =>
            {
                Ok(Fact::MetadataRefused(sentence(*status)))
            }
            Err(error) if self.is_kept() && !matches!(error, kube::Error::Api(_)) => {
                Ok(Fact::MetadataRefused(no_answer(&error)))
            }
            done => fact(done).map_err(|source| ReconcileError::SetMetadata { source }),
        }
    }

    /// Writes what differs in the status.
    ///
    /// Conditions are written as a whole list, those of other writers among them. One that came since we read would be lost, so a
    /// patch with conditions names the version that it was made from.
    pub(crate) async fn write_status<K: DeserializeOwned, S: Serialize>(
        &self,
        seen: Option<&S>,
        wanted: &S,
    ) -> Result<Fact<K>, ReconcileError> {
        let failed = |source| ReconcileError::WriteStatus {
            source: Box::new(source),
        };
        let status: Map<String, Value> =
            difference(seen, wanted).map_err(|error| failed(kube::Error::SerdeError(error)))?;
        // The UID keeps a new object of the same name from getting the old one's status.
        let mut metadata = json!({ "uid": self.metadata.uid });
        if status.contains_key("conditions") {
            metadata["resourceVersion"] = json!(self.metadata.resource_version);
        }
        let patch = json!({ "metadata": metadata, "status": status });
        let done = self.patch(patch, Some("status")).await?;
        fact(done).map_err(|source| ReconcileError::WriteStatus { source })
    }

    /// Deletes the object.
    pub(crate) async fn delete<K>(&self) -> Result<Fact<K>, ReconcileError> {
        let request = Request::new(self.resource_url())
            .delete(self.name(), &preconditioned(self.metadata.uid.clone()))
            .map_err(kube::Error::BuildRequest);
        let done = match request {
            Ok(request) => self.send::<Value>(request).await?,
            Err(error) => Err(error),
        };
        match done {
            Ok(_) => Ok(Fact::Gone),
            // A conflict says that the object of that UID is gone, and the name another's.
            Err(kube::Error::Api(status)) if is_gone(&status) || status.is_conflict() => {
                Ok(Fact::Gone)
            }
            Err(source) => Err(ReconcileError::Delete {
                source: Box::new(source),
            }),
        }
    }

    /// Passes a pod through the chain and creates what comes out.
    pub(crate) async fn create_pod<K>(
        &self,
        pod: &Pod,
        request: PodRequest,
    ) -> Result<Fact<K>, ReconcileError> {
        let mutated = match self.mutator.mutate(pod, request).await {
            Ok(mutated) => mutated,
            Err(refusal) => return Ok(Fact::PodRefused(refusal)),
        };
        let failed = |source| ReconcileError::CreatePod {
            name: self.name().to_owned(),
            source: Box::new(source),
        };
        let post = PostParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PostParams::default()
        };
        let body = serde_json::to_vec(&mutated.pod)
            .map_err(|error| failed(kube::Error::SerdeError(error)))?;
        let url = Pod::url_path(&(), Some(self.namespace()));
        let request = Request::new(url)
            .create(&post, body)
            .map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let refused = |sentence| Ok(Fact::PodRefused(Refusal::Forbidden(sentence)));
        let done = match self.send(request).await {
            Ok(done) => done,
            Err(unanswered) => return refused(unanswered.to_string()),
        };
        match done {
            Ok(created) => Ok(Fact::PodCreated(Box::new(created), mutated.notes)),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let found = read_pod(self.client, self.namespace(), self.name()).await?;
                // Gone again between the two: the next attempt will create it.
                found
                    .map(|pod| Fact::PodExists(Box::new(pod)))
                    .ok_or_else(|| failed(kube::Error::Api(status)))
            }
            Err(kube::Error::Api(status))
                if status.is_invalid() || matches!(status.code, 400 | 413) =>
            {
                Ok(Fact::PodRefused(Refusal::Invalid(sentence(*status))))
            }
            // Webhooks deny with any status, or do not answer; whatever it is, the creation timeout ends it. The pod may be there
            // all the same if only the answer was lost: then the next attempt finds it.
            Err(kube::Error::Api(status)) => refused(sentence(*status)),
            Err(error) => refused(no_answer(&error)),
        }
    }

    /// Deletes a pod that was seen, and never another of the same name.
    pub(crate) async fn delete_pod<K>(
        &self,
        name: &str,
        uid: &str,
        how: Deletion,
    ) -> Result<Fact<K>, ReconcileError> {
        let parameters = DeleteParams {
            grace_period_seconds: match how {
                Deletion::Graceful => None,
                Deletion::Force | Deletion::LastResort => Some(0),
            },
            ..preconditioned(Some(uid.to_owned()))
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), self.namespace());
        let done = timeout(PATIENCE, pods.delete(name, &parameters)).await;
        match done {
            Ok(Ok(_)) => Ok(Fact::PodDeleted),
            // A conflict says that the pod of that UID is gone, and the name another's.
            Ok(Err(kube::Error::Api(status))) if is_gone(&status) || status.is_conflict() => {
                Ok(Fact::PodGone)
            }
            failed if how == Deletion::LastResort => {
                let error = match &failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "no answer".to_owned(),
                };
                tracing::warn!(
                    namespace = self.namespace(),
                    name,
                    error,
                    "a pod that does not go is given up"
                );
                Ok(Fact::PodDeleted)
            }
            Ok(Err(source)) => Err(ReconcileError::DeletePod {
                name: name.to_owned(),
                source: Box::new(source),
            }),
            Err(_) => Err(ReconcileError::Unanswered { after: PATIENCE }),
        }
    }

    async fn patch<K: DeserializeOwned>(
        &self,
        patch: Value,
        subresource: Option<&str>,
    ) -> Result<Result<K, kube::Error>, ReconcileError> {
        let parameters = PatchParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PatchParams::default()
        };
        let url = Request::new(self.resource_url());
        let patch = Patch::Merge(patch);
        let request = match subresource {
            None => url.patch(self.name(), &parameters, &patch),
            Some(subresource) => {
                url.patch_subresource(subresource, self.name(), &parameters, &patch)
            }
        };
        match request {
            Ok(request) => self.send(request).await,
            Err(error) => Ok(Err(kube::Error::BuildRequest(error))),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<Result<T, kube::Error>, ReconcileError> {
        timeout(PATIENCE, self.client.request(request))
            .await
            .map_err(|_| ReconcileError::Unanswered { after: PATIENCE })
    }

    fn is_kept(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }

    fn resource_url(&self) -> String {
        kube::core::DynamicObject::url_path(self.resource, Some(self.namespace()))
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// An object that is gone is what deleting wanted; whoever writes to one has nothing left to do.
fn fact<K>(done: Result<K, kube::Error>) -> Result<Fact<K>, Box<kube::Error>> {
    match done {
        Ok(object) => Ok(Fact::Object(Box::new(object))),
        Err(kube::Error::Api(status)) if is_gone(&status) => Ok(Fact::Gone),
        Err(error) => Err(Box::new(error)),
    }
}

fn no_answer(error: &kube::Error) -> String {
    format!("no answer from the API server: {error}")
}

/// What the API server says, cut to what a condition can hold: admission may say anything.
fn sentence(status: Status) -> String {
    let mut sentence = status.message;
    sentence.truncate(sentence.floor_char_boundary(SENTENCE_MAX));
    sentence
}

fn preconditioned(uid: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

#[cfg(test)]
mod tests;
