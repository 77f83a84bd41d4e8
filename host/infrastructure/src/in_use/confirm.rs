//! Whether a Cluster may create an infrastructure: its Cloud and provider are there, stay, and will not go behind its back.

use std::time::Duration;

use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, Client};
use podloom_engine::error::{Attempt, Error};
use tokio::time::timeout;

use super::live::Resources;
use crate::resolve::{Backend, Key, TwinResources, is_guarded};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whether the Cloud and the provider of a Cluster stay as long as it needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// They do.
    InPlace,
    /// They do not have our finalizer yet. Its controllers add it; when they have, the Cluster is woken.
    Awaited,
    /// One of them is being deleted, or gone.
    Deleted,
}

/// Reads from the API server whether a create request may be sent. Call it after the Cluster has its own finalizer.
///
/// # Errors
///
/// Returns an error if a request fails.
pub(crate) async fn confirm(
    client: &Client,
    resources: &Resources,
    backend: &Backend,
) -> Result<Guard, Error> {
    let (cloud, provider) = (backend.cloud_key(), backend.im.key());
    let cloud = read(client, &resources.clouds, &cloud).await?;
    let provider = read(client, &resources.providers, &provider).await?;
    Ok(guard(&[cloud, provider]))
}

fn guard(both: &[Option<ObjectMeta>; 2]) -> Guard {
    let stays = |it: &Option<ObjectMeta>| {
        it.as_ref()
            .is_some_and(|it| it.deletion_timestamp.is_none())
    };
    if !both.iter().all(stays) {
        return Guard::Deleted;
    }
    match both.iter().flatten().all(is_guarded) {
        true => Guard::InPlace,
        false => Guard::Awaited,
    }
}

/// Reads the metadata of an object; none if there is no such object.
async fn read(
    client: &Client,
    resources: &TwinResources,
    key: &Key,
) -> Result<Option<ObjectMeta>, Error> {
    let resource = resources.of(key).as_ref();
    let client = client.clone();
    let api: Api<DynamicObject> = match &key.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    };
    let read = timeout(TIMEOUT, api.get_metadata_opt(&key.name)).await;
    let read = read.map_err(|_| Error::Unanswered { after: TIMEOUT })?;
    let read = read.map_err(|error| Error::Request {
        attempt: Attempt::READ,
        name: key.name.clone(),
        source: Box::new(error),
    })?;
    Ok(read.map(|object| object.metadata))
}

#[cfg(test)]
mod tests;
