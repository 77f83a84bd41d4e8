//! Writes to the API server. Each is one request, and returns the answer as a type.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use kube::Resource;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, Object, ObjectMeta, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::{Deleted, Patched, Stored, is_gone, no_answer, sentence, stored, veiled};
use super::conditions::{difference, keep_dropped};
use super::error::{Attempt, Error};
use super::readable::Answered;

/// The timeout of one request, retries of the client included. A single admission webhook may take 10 seconds by default.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// An object to write or read.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The client of the API server.
    pub client: &'a Client,
    /// Its resource.
    pub resource: &'a ApiResource,
    /// Its namespace; none if it is cluster-scoped.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// The field manager of the writes.
    pub field_manager: &'static str,
}

/// The changes of an object's metadata: finalizers and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetadataPatch {
    /// All finalizers, those of others included; none if they do not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
    /// The labels to set; other labels are kept.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<&'static str, String>,
}

impl MetadataPatch {
    /// Returns the patch that removes a finalizer; none if the object does not have it.
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
pub enum Deletion<'a> {
    /// With the object's own grace period; what it owns is deleted in the background.
    Graceful,
    /// The same, unless the object was changed since it had this resourceVersion.
    Unchanged(&'a str),
    /// At once, with grace period 0.
    Force,
    /// The same, unless the object was changed since it had this resourceVersion.
    ForceUnchanged(&'a str),
}

impl<'a> Target<'a> {
    /// Returns the target with this name and namespace.
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

    /// Sets finalizers and labels in one patch, unless somebody wrote the object since it was `seen`.
    ///
    /// Webhooks deny with any status, or do not answer. That is not an error but [`Patched::Rejected`], so that the status can show it
    /// and the object's timeouts go on.
    ///
    /// # Errors
    ///
    /// Returns an error on a conflict with another writer. If the object is being deleted, a rejection is an error too, since the finalizer
    /// must be removed.
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
        let done = self
            .merge(&Patch::Merge(json!({ "metadata": metadata })), None)
            .await;
        match seen.deletion_timestamp {
            None => self.accepted(done, Attempt::SET_METADATA),
            Some(_) => self.patched(done?, Attempt::SET_METADATA),
        }
    }

    /// Does what [`set_metadata`](Self::set_metadata) does, and compares the answer with the patch: an admission policy may take back a
    /// finalizer that was set. That is [`Patched::Rejected`] too.
    ///
    /// # Errors
    ///
    /// Returns an error also if a finalizer that was removed is back. Without both, a plan would ask for the same patch without end.
    pub async fn set_finalizer<P, S>(
        &self,
        seen: &ObjectMeta,
        patch: &MetadataPatch,
        finalizer: &str,
    ) -> Result<Patched<Object<P, S>>, Error>
    where
        P: Clone + DeserializeOwned,
        S: Clone + DeserializeOwned,
    {
        let answered = match self.set_metadata(seen, patch).await? {
            Patched::Object(answered) => answered,
            Patched::Gone => return Ok(Patched::Gone),
            Patched::Rejected(message) => return Ok(Patched::Rejected(message)),
        };
        let Answered(object): Answered<Object<P, S>> = *answered;
        let has = |all: &[String]| all.iter().any(|it| it == finalizer);
        let is_there = object.metadata.finalizers.as_deref().is_some_and(has);
        match (patch.finalizers.as_deref().map(has), is_there) {
            (Some(true), false) => Ok(Patched::Rejected(
                "an admission policy removes what the operator sets".to_owned(),
            )),
            (Some(false), true) => Err(Error::held_again()),
            _ => Ok(Patched::Object(Box::new(object))),
        }
    }

    /// Merges a patch (RFC 7396) into the object. With a UID and a resourceVersion in its metadata, it changes exactly that version.
    ///
    /// # Errors
    ///
    /// Returns an error on a conflict with another writer. Any other rejection is not an error but [`Patched::Rejected`].
    pub async fn patch<K: DeserializeOwned>(
        &self,
        patch: Value,
        attempt: Attempt,
    ) -> Result<Patched<K>, Error> {
        let done = self.merge(&Patch::Merge(patch), None).await;
        self.accepted(veiled(done, attempt), attempt)
    }

    /// Does the same with a subresource, by a strategic merge patch: lists are merged by the keys of their items.
    ///
    /// # Errors
    ///
    /// As with [`Self::patch`].
    pub async fn patch_subresource<K: DeserializeOwned>(
        &self,
        subresource: &str,
        patch: Value,
        attempt: Attempt,
    ) -> Result<Patched<K>, Error> {
        let patch = Patch::Strategic(patch);
        let done = self.merge(&patch, Some(subresource)).await;
        self.accepted(veiled(done, attempt), attempt)
    }

    /// Writes what differs in the status, and returns the updated object; none if it does not exist any more.
    ///
    /// Conditions are written as a whole list: one that another writer added since the object was `seen` would be lost. Of an object within
    /// the status only the differences are written, and combined with those of another writer it may be invalid. What is removed may be
    /// something else by the time when the patch arrives. So a patch with any of them includes the resourceVersion.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server rejects the patch.
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
        // With the UID, a new object of the same name cannot get the old one's status.
        let mut metadata = json!({ "uid": seen.uid });
        let may_lose = |it: &Value| it.is_object() || it.is_null();
        if status.contains_key("conditions") || status.values().any(may_lose) {
            metadata["resourceVersion"] = json!(seen.resource_version);
        }
        let patch = json!({ "metadata": metadata, "status": status });
        let done = self.merge(&Patch::Merge(patch), Some("status")).await?;
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
    /// Returns an error if the request cannot be built. A rejection is not an error but a [`Stored`].
    pub async fn create<K: DeserializeOwned>(
        &self,
        object: &impl Serialize,
        attempt: Attempt,
    ) -> Result<Stored<K>, Error> {
        let post = PostParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PostParams::default()
        };
        let body = serde_json::to_vec(object)
            .map_err(|error| self.failed(attempt, kube::Error::SerdeError(error)))?;
        let request = self.url().create(&post, body);
        let request = request.map_err(|error| self.unbuilt(attempt, error))?;
        Ok(stored(veiled(self.send(request).await, attempt)))
    }

    /// Writes the object by server-side apply. A missing object is created. Fields that we applied before and that are now absent are
    /// removed, fields of others are kept, and on conflicts we take over the field.
    ///
    /// Build the object from scratch, without managed fields and resourceVersion. With a UID in its metadata, no other object of that
    /// name is changed, and none is created.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be built, and on a conflict: the object of the UID does not exist any more. Any other
    /// rejection is not an error but a [`Stored`].
    pub async fn apply<K: DeserializeOwned>(
        &self,
        object: &impl Serialize,
        attempt: Attempt,
    ) -> Result<Stored<K>, Error> {
        let parameters = PatchParams::apply(self.field_manager).force();
        let request = self
            .url()
            .patch(self.name, &parameters, &Patch::Apply(object));
        let request = request.map_err(|error| self.unbuilt(attempt, error))?;
        match self.send(request).await {
            Ok(Err(kube::Error::Api(status))) if status.is_conflict() => {
                Err(self.failed(attempt, kube::Error::Api(status)))
            }
            done => Ok(stored(done)),
        }
    }

    /// Deletes the object of that UID, never another of the same name.
    ///
    /// # Errors
    ///
    /// Returns an error if the API server rejects the request or does not answer; a conflict if the object must be unchanged and is not.
    pub async fn delete(
        &self,
        uid: &str,
        how: Deletion<'_>,
        attempt: Attempt,
    ) -> Result<Deleted, Error> {
        let (grace_period_seconds, resource_version) = match how {
            Deletion::Graceful => (None, None),
            Deletion::Unchanged(version) => (None, Some(version.to_owned())),
            Deletion::Force => (Some(0), None),
            Deletion::ForceUnchanged(version) => (Some(0), Some(version.to_owned())),
        };
        let may_change = resource_version.is_none();
        let parameters = DeleteParams {
            grace_period_seconds,
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version,
            }),
            ..DeleteParams::default()
        };
        let request = self.url().delete(self.name, &parameters);
        let request = request.map_err(|error| self.unbuilt(attempt, error))?;
        match self.send::<Value>(request).await? {
            Ok(_) => Ok(Deleted::Asked),
            // A conflict means that the name belongs to an object with another UID.
            Err(kube::Error::Api(status))
                if is_gone(&status) || may_change && status.is_conflict() =>
            {
                Ok(Deleted::Gone)
            }
            Err(error) => Err(self.failed(attempt, error)),
        }
    }

    /// Reads the object; none if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    pub async fn read<K: DeserializeOwned>(&self, attempt: Attempt) -> Result<Option<K>, Error> {
        let request = self.url().get(self.name, &GetParams::default());
        let request = request.map_err(|error| self.unbuilt(attempt, error))?;
        match veiled(self.send(request).await, attempt)? {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if is_gone(&status) => Ok(None),
            Err(error) => Err(self.failed(attempt, error)),
        }
    }

    async fn merge<K: DeserializeOwned>(
        &self,
        patch: &Patch<Value>,
        subresource: Option<&str>,
    ) -> Result<Result<K, kube::Error>, Error> {
        let parameters = PatchParams {
            field_manager: Some(self.field_manager.to_owned()),
            ..PatchParams::default()
        };
        let url = self.url();
        let request = match subresource {
            None => url.patch(self.name, &parameters, patch),
            Some(subresource) => url.patch_subresource(subresource, self.name, &parameters, patch),
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
        // Not `Client::request`: it logs an answer that it cannot read, and that may be a Secret.
        let answered = async {
            let text = self.client.request_text(request).await?;
            serde_json::from_str(&text).map_err(kube::Error::SerdeError)
        };
        timeout(REQUEST_TIMEOUT, answered)
            .await
            .map_err(|_| Error::Unanswered {
                after: REQUEST_TIMEOUT,
            })
    }

    /// A rejection is no error, unless another writer was faster.
    fn accepted<K>(
        &self,
        done: Result<Result<K, kube::Error>, Error>,
        attempt: Attempt,
    ) -> Result<Patched<K>, Error> {
        match done {
            Err(unanswered) => Ok(Patched::Rejected(unanswered.to_string())),
            Ok(Err(kube::Error::Api(status))) if !is_gone(&status) && !status.is_conflict() => {
                Ok(Patched::Rejected(sentence(*status)))
            }
            Ok(Err(error)) if !matches!(error, kube::Error::Api(_)) => {
                Ok(Patched::Rejected(no_answer(&error)))
            }
            Ok(done) => self.patched(done, attempt),
        }
    }

    /// Not found is no error: there is nothing left to write.
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

    fn unbuilt(&self, attempt: Attempt, error: kube::core::request::Error) -> Error {
        self.failed(attempt, kube::Error::BuildRequest(error))
    }

    fn url(&self) -> Request {
        Request::new(DynamicObject::url_path(self.resource, self.namespace))
    }
}

#[cfg(test)]
mod tests;
