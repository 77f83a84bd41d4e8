//! Reads from the API server, for decisions that a stale cache must not make.

use std::fmt::Debug;

use kube::api::{Api, ListParams};
use kube::core::{DynamicResourceScope, ObjectMeta};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::{Attempt, Error};
use super::write::REQUEST_TIMEOUT;

/// Reads an object of ours; none if there is no object of that name and UID.
///
/// # Errors
///
/// Returns an error if the request fails.
pub async fn read_object<K>(
    client: &Client,
    resource: &K::DynamicType,
    object: &ObjectMeta,
) -> Result<Option<K>, Error>
where
    K: Resource<Scope = DynamicResourceScope> + Clone + DeserializeOwned + Debug,
{
    let name = object.name.as_deref().unwrap_or_default();
    let objects: Api<K> = objects(client, resource, object.namespace.as_deref());
    // A list of one object, since this needs no right besides `list`.
    let one = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = answered(objects.list(&one), name).await?;
    let is_same = |found: &K| found.meta().uid == object.uid;
    Ok(found.items.into_iter().find(is_same))
}

/// Compares a cache with the API server, by metadata, for one namespace or the whole cluster. Returns all objects if they differ, none
/// if the cache is right.
///
/// # Errors
///
/// Returns an error if a request fails.
pub async fn read_all<K>(
    client: &Client,
    resource: &K::DynamicType,
    namespace: Option<&str>,
    cached: impl Iterator<Item = &ObjectMeta>,
) -> Result<Option<Vec<K>>, Error>
where
    K: Resource<Scope = DynamicResourceScope> + Clone + DeserializeOwned + Debug,
{
    let objects: Api<K> = objects(client, resource, namespace);
    let everything = ListParams::default();
    let place = namespace.unwrap_or("the cluster");
    // The metadata of a hundred objects is small, and usually shows that the cache is right.
    let found = answered(objects.list_metadata(&everything), place).await?;
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
    let all = answered(objects.list(&everything), place).await?;
    Ok(Some(all.items))
}

/// Returns what changes when anything changes that plans depend on: another object, another spec, a deletion. A status changes nothing
/// of it.
#[must_use]
pub fn edition(metadata: &ObjectMeta) -> (Option<&str>, Option<i64>, bool) {
    (
        metadata.uid.as_deref(),
        metadata.generation,
        metadata.deletion_timestamp.is_some(),
    )
}

fn objects<K>(client: &Client, resource: &K::DynamicType, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

async fn answered<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    name: &str,
) -> Result<T, Error> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(Error::Request {
            attempt: Attempt::READ,
            name: name.to_owned(),
            source: Box::new(error),
        }),
        Err(_) => Err(Error::Unanswered {
            after: REQUEST_TIMEOUT,
        }),
    }
}
