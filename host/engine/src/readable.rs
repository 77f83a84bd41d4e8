//! Objects as the API server sends them, without managed fields, which are half of an object and more than half of the time to parse.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use kube::core::{Object, ObjectMeta, PartialObjectMeta, PartialObjectMetaExt};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object, or why our types cannot hold it: an invalid one in a list must not hide the others.
///
/// It replaces kube's `DeserializeGuard`, which copies each object twice.
#[derive(Clone, Debug)]
pub struct Readable<K>(pub Result<K, InvalidObject>);

impl<'de, P, U> Deserialize<'de> for Readable<Object<P, U>>
where
    P: Clone + DeserializeOwned,
    U: Clone + DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Fields {
            metadata,
            spec,
            status,
        } = Fields::<Option<Value>, Value>::deserialize(deserializer)?;
        let read = || -> Result<(P, Option<U>), serde_json::Error> {
            let status = status.map(serde_json::from_value).transpose()?;
            Ok((serde_json::from_value(spec.unwrap_or_default())?, status))
        };
        Ok(Self(match read() {
            Ok((spec, status)) => Ok(Object {
                types: None,
                metadata,
                spec,
                status,
            }),
            Err(error) => Err(InvalidObject {
                error: without_value(&error.to_string()),
                metadata,
            }),
        }))
    }
}

/// What has only metadata is always readable.
impl<'de, K> Deserialize<'de> for Readable<PartialObjectMeta<K>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Fields { metadata, .. } =
            Fields::<Option<IgnoredAny>, IgnoredAny>::deserialize(deserializer)?;
        Ok(Self(Ok(metadata.into_response_partial())))
    }
}

/// How much of an error is kept, in characters.
const ERROR_MAX: usize = 256;

/// Removes the value from an error text of serde: it may be a secret, have many lines, and be as long as the object.
///
/// The value is quoted, before what was expected: `invalid type: string "hunter2", expected i32`.
pub fn without_value(error: &str) -> String {
    // This text names a field of ours, and no value.
    if error.starts_with("missing field") {
        return error.to_owned();
    }
    let is_known = error.starts_with("invalid ") || error.starts_with("unknown ");
    let expected = error.rsplit_once(", expected ").filter(|_| is_known);
    let (found, expected) = expected.unwrap_or((error, ""));
    let kind = found.split(['"', '`', '\'']).next().unwrap_or_default();
    let text = match expected {
        "" => kind.to_owned(),
        expected => format!("{}, expected {expected}", kind.trim_end()),
    };
    text.chars().take(ERROR_MAX).collect()
}

/// An object of ours in the API server's answer to a write.
#[derive(Debug)]
pub struct Answered<K>(pub K);

impl<'de, P, U> Deserialize<'de> for Answered<Object<P, U>>
where
    P: Clone + DeserializeOwned,
    U: Clone + DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::deserialize(deserializer)?;
        Ok(Self(Object {
            types: None,
            metadata: fields.metadata,
            spec: fields.spec,
            status: fields.status,
        }))
    }
}

#[derive(Deserialize)]
#[serde(bound = "P: DeserializeOwned, U: DeserializeOwned")]
struct Fields<P, U> {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: P,
    #[serde(default = "none")]
    status: Option<U>,
}

fn none<U>() -> Option<U> {
    None
}

/// The metadata that anything reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

/// Reads metadata without managed fields, for `deserialize_with`.
pub fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        deletion_grace_period_seconds: read.deletion_grace_period_seconds,
        labels: read.labels,
        annotations: read.annotations,
        owner_references: read.owner_references,
        finalizers: read.finalizers,
        ..ObjectMeta::default()
    })
}

/// The dynamic type is shared, since caches and queues keep one with each reference to an object.
impl<K: Resource> Resource for Readable<K> {
    type DynamicType = Arc<K::DynamicType>;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dyntype)
    }

    fn group(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dyntype)
    }

    fn version(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dyntype)
    }

    fn plural(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dyntype)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0
            .as_ref()
            .map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests;
