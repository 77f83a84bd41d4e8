//! Writes to the API server: each is one request, and says as a type what the API server answered.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, Object, ObjectMeta, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::{Deleted, Patched, Stored, is_gone, no_answer, sentence, stored};
use super::conditions::{difference, keep_dropped};
use super::error::{Attempt, Error};
use super::readable::Answered;

/// How long one request may take: admission webhooks take 10 seconds each unless they are given more. The client itself tries again
/// where the API server asks for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// An object that is written, or read; `namespace` is none for a cluster-scoped one.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Talks to the API server.
    pub client: &'a Client,
    /// What it is.
    pub resource: &'a ApiResource,
    /// Where it is.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Who writes, as managed fields say it.
    pub field_manager: &'static str,
}

/// The finalizers that an object shall have, if they change, and the labels that are missing or wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetadataPatch {
    /// All finalizers, those of others among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
    /// The labels to set; others stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<&'static str, String>,
}

impl MetadataPatch {
    /// Returns the patch that takes a finalizer off an object; none if the object does not have it.
    #[must_use]
    pub fn without(object: &ObjectMeta, finalizer: &str) -> Option<Self> {
        let finalizers = object.finalizers.as_deref().unwrap_or_default();
        let rest: Vec<String> = finalizers
            .iter()
            .filter(|name| *name != finalizer)
            .cloned()
            .collect();
        (rest.len() < finalizers.len()).then(|| Self {
            finalizers: Some(rest),
            ..Self::default()
        })
    }
}

/// How an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Deletion {
    /// In the time that the object itself asks for; what it owns goes afterwards.
    Graceful,
    /// At once.
    Force,
}

impl<'a> Target<'a> {
    /// Returns the object of this metadata.
    #[must_use]
    pub fn of(
        client: &'a Client,
        resource: &'a ApiResource,
        metadata: &'a ObjectMeta,
        field_manager: &'static str,
    ) -> Self {
        Self {
            client,
            resource,
            namespace: metadata.namespace.as_deref(),
            name: metadata.name.as_deref().unwrap_or_default(),
            field_manager,
        }
    }

    /// Sets finalizers and labels in one patch, provided that nobody wrote since the object was `seen`.
    ///
    /// Webhooks deny with any status, or do not answer: whatever it is, the object's time goes on and its status has to say so, so
    /// it is no error.
    ///
    /// # Errors
    ///
    /// Returns an error if somebody else wrote meanwhile, and for an object that is being deleted if the API server refuses: it has
    /// to be released.
    pub async fn set_metadata<K: DeserializeOwned>(
        &self,
        seen: &ObjectMeta,
        patch: &MetadataPatch,
    ) -> Result<Patched<K>, Error> {
        let mut metadata = json!({
            "uid": seen.uid,
            "resourceVersion": seen.resource_version,
        });
        if let Some(finalizers) = &patch.finalizers {
            metadata["finalizers"] = json!(finalizers);
        }
        if !patch.labels.is_empty() {
            metadata["labels"] = json!(patch.labels);
        }
        let is_kept = seen.deletion_timestamp.is_none();
        let done = match self.merge(json!({ "metadata": metadata }), None).await {
            Err(unanswered) if is_kept => return Ok(Patched::Rejected(unanswered.to_string())),
            answered => answered?,
        };
        match done {
            Err(kube::Error::Api(status))
                if is_kept && !is_gone(&status) && !status.is_conflict() =>
            {
                Ok(Patched::Rejected(sentence(*status)))
            }
            Err(error) if is_kept && !matches!(error, kube::Error::Api(_)) => {
                Ok(Patched::Rejected(no_answer(&error)))
            }
            done => self.patched(done, Attempt::SET_METADATA),
        }
    }

    /// Writes what differs in the status, and returns the object as it is then; none if it is gone.
    ///
    /// Conditions are written as a whole list, those of other writers among them: one that came since the object was `seen` would be
    /// lost. Of an object within the status only what differs is written, and with another writer's half it may be no valid one. So
    /// a patch with either names the version that it was made from.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server does not take it.
    pub async fn write_status<P, S>(
        &self,
        seen: &ObjectMeta,
        before: Option<&S>,
        wanted: &S,
    ) -> Result<Option<Box<Object<P, S>>>, Error>
    where
        P: Clone + DeserializeOwned,
        S: Clone + DeserializeOwned + PartialEq + Serialize,
    {
        let status = difference(before, wanted)
            .map_err(|error| self.failed(Attempt::WRITE_STATUS, kube::Error::SerdeError(error)))?;
        // The UID keeps a new object of the same name from getting the old one's status.
        let mut metadata = json!({ "uid": seen.uid });
        if status.contains_key("conditions") || status.values().any(Value::is_object) {
            metadata["resourceVersion"] = json!(seen.resource_version);
        }
        let patch = json!({ "metadata": metadata, "status": status });
        let done = self.merge(patch, Some("status")).await?;
        let Patched::Object(answered) = self.patched(done, Attempt::WRITE_STATUS)? else {
            return Ok(None);
        };
        let Answered(mut object): Answered<Object<P, S>> = *answered;
        keep_dropped(&mut object.status, before, wanted, seen);
        Ok(Some(Box::new(object)))
    }

    /// Creates the object.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be made; what the API server says is no error.
    pub async fn create<K: DeserializeOwned>(
        &self,
        object: &impl Serialize,
        attempt: Attempt,
    ) -> Result<Stored<K>, Error> {
        let post = PostParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PostParams::default()
        };
        let request = serde_json::to_vec(object)
            .map_err(kube::Error::SerdeError)
            .and_then(|body| {
                let request = Request::new(self.url()).create(&post, body);
                request.map_err(kube::Error::BuildRequest)
            })
            .map_err(|error| self.failed(attempt, error))?;
        Ok(stored(self.send(request).await))
    }

    /// Applies the object's fields by server-side apply: it is created if it is missing, fields that were applied before and are no
    /// longer given are removed, and those of others stay. Fields that others own as well are taken from them.
    ///
    /// The object is made anew, without managed fields and resourceVersion. With a UID in its metadata no other object of that name is
    /// changed, and none is created.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be made, or if the API server answers with a conflict: the object of the UID is then
    /// gone. What else the API server says is no error.
    pub async fn apply<K: DeserializeOwned>(
        &self,
        object: &impl Serialize,
        attempt: Attempt,
    ) -> Result<Stored<K>, Error> {
        let parameters = PatchParams::apply(self.field_manager).force();
        let request = Request::new(self.url())
            .patch(self.name, &parameters, &Patch::Apply(object))
            .map_err(|error| self.failed(attempt, kube::Error::BuildRequest(error)))?;
        match self.send(request).await {
            Ok(Err(kube::Error::Api(status))) if status.is_conflict() => {
                Err(self.failed(attempt, kube::Error::Api(status)))
            }
            done => Ok(stored(done)),
        }
    }

    /// Deletes the object of that UID, and never another of the same name.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server does not allow it, or does not answer.
    pub async fn delete(
        &self,
        uid: &str,
        how: Deletion,
        attempt: Attempt,
    ) -> Result<Deleted, Error> {
        let parameters = DeleteParams {
            grace_period_seconds: match how {
                Deletion::Graceful => None,
                Deletion::Force => Some(0),
            },
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(self.url())
            .delete(self.name, &parameters)
            .map_err(|error| self.failed(attempt, kube::Error::BuildRequest(error)))?;
        match self.send::<Value>(request).await? {
            Ok(_) => Ok(Deleted::Asked),
            // A conflict says that the object of that UID is gone, and the name another's.
            Err(kube::Error::Api(status)) if is_gone(&status) || status.is_conflict() => {
                Ok(Deleted::Gone)
            }
            Err(error) => Err(self.failed(attempt, error)),
        }
    }

    /// Reads the object; none if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server does not say.
    pub async fn read<K: DeserializeOwned>(&self, attempt: Attempt) -> Result<Option<K>, Error> {
        let request = Request::new(self.url())
            .get(self.name, &kube::api::GetParams::default())
            .map_err(|error| self.failed(attempt, kube::Error::BuildRequest(error)))?;
        match self.send(request).await? {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if is_gone(&status) => Ok(None),
            Err(error) => Err(self.failed(attempt, error)),
        }
    }

    async fn merge<K: DeserializeOwned>(
        &self,
        patch: Value,
        subresource: Option<&str>,
    ) -> Result<Result<K, kube::Error>, Error> {
        let parameters = PatchParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PatchParams::default()
        };
        let url = Request::new(self.url());
        let patch = Patch::Merge(patch);
        let request = match subresource {
            None => url.patch(self.name, &parameters, &patch),
            Some(subresource) => url.patch_subresource(subresource, self.name, &parameters, &patch),
        };
        match request {
            Ok(request) => self.send(request).await,
            Err(error) => Ok(Err(kube::Error::BuildRequest(error))),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<Result<T, kube::Error>, Error> {
        timeout(PATIENCE, self.client.request(request))
            .await
            .map_err(|_| Error::Unanswered { after: PATIENCE })
    }

    /// Whoever writes to an object that is gone has nothing left to do.
    fn patched<K>(
        &self,
        done: Result<K, kube::Error>,
        attempt: Attempt,
    ) -> Result<Patched<K>, Error> {
        match done {
            Ok(object) => Ok(Patched::Object(Box::new(object))),
            Err(kube::Error::Api(status)) if is_gone(&status) => Ok(Patched::Gone),
            Err(error) => Err(self.failed(attempt, error)),
        }
    }

    fn failed(&self, attempt: Attempt, source: kube::Error) -> Error {
        Error::Request {
            attempt,
            name: self.name.to_owned(),
            source: Box::new(source),
        }
    }

    fn url(&self) -> String {
        DynamicObject::url_path(self.resource, self.namespace)
    }
}

#[cfg(test)]
mod tests;
