//! What is read from the API server itself, where a cache is not enough: it may be old, and nobody would know.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Api, ListParams};
use kube::core::response::reason;
use kube::core::{DynamicResourceScope, ObjectMeta, Status};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::error::ReconcileError;
use crate::pod::SeenPod;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a pod; none if there is none.
pub(crate) async fn read_pod(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<SeenPod>, ReconcileError> {
    let pods: Api<SeenPod> = Api::namespaced(client.clone(), namespace);
    let read = answer(pods.get(name), |source| ReconcileError::ReadPod {
        name: name.to_owned(),
        source,
    });
    match read.await {
        Ok(pod) => Ok(Some(pod)),
        Err(ReconcileError::ReadPod { source, .. }) if matches!(&*source, kube::Error::Api(status) if is_gone(status)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether the API server says that there is no such object. A 404 in plain text, from a proxy or from a server that does not
/// serve the kind yet, says nothing about the object.
pub(crate) fn is_gone(status: &Status) -> bool {
    status.reason == reason::NOT_FOUND
}

/// Reads an object of ours; none if there is none, or another of that name.
pub(crate) async fn read_object<K>(
    client: &Client,
    resource: &K::DynamicType,
    object: &ObjectMeta,
) -> Result<Option<K>, ReconcileError>
where
    K: Resource<Scope = DynamicResourceScope> + Clone + DeserializeOwned + Debug,
{
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    let objects: Api<K> = Api::namespaced_with(client.clone(), namespace, resource);
    // A list of one, since the right to list is there anyway.
    let one = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = answer(objects.list(&one), |source| ReconcileError::Read { source }).await?;
    let is_same = |found: &K| found.meta().uid == object.uid;
    Ok(found.items.into_iter().find(is_same))
}

/// Reads all objects of a kind of ours in a namespace, unless the cached ones are all that there are, as they are.
pub(crate) async fn read_all<K>(
    client: &Client,
    resource: &K::DynamicType,
    namespace: &str,
    cached: impl Iterator<Item = &ObjectMeta>,
) -> Result<Option<Vec<K>>, ReconcileError>
where
    K: Resource<Scope = DynamicResourceScope> + Clone + DeserializeOwned + Debug,
{
    let objects: Api<K> = Api::namespaced_with(client.clone(), namespace, resource);
    let everything = ListParams::default();
    let failed = |source| ReconcileError::Read { source };
    // The metadata of a hundred objects is small, and mostly it shows that the cache is right.
    let found = answer(objects.list_metadata(&everything), failed).await?;
    let mut cached: Vec<_> = cached.map(edition).collect();
    let mut there: Vec<_> = found
        .items
        .iter()
        .map(|found| edition(&found.metadata))
        .collect();
    cached.sort_unstable();
    there.sort_unstable();
    if cached == there {
        return Ok(None);
    }
    let all = answer(objects.list(&everything), failed).await?;
    Ok(Some(all.items))
}

/// What changes when something changes that a plan looks at.
pub(crate) fn edition(metadata: &ObjectMeta) -> (Option<&str>, Option<i64>, bool) {
    (
        metadata.uid.as_deref(),
        metadata.generation,
        metadata.deletion_timestamp.is_some(),
    )
}

async fn answer<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    failed: impl FnOnce(Box<kube::Error>) -> ReconcileError,
) -> Result<T, ReconcileError> {
    match timeout(PATIENCE, request).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(failed(Box::new(error))),
        Err(_) => Err(ReconcileError::Unanswered { after: PATIENCE }),
    }
}
