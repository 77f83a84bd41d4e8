//! What the judge reads of a pod. Everything else is passed over while the text is parsed, which is most of what a judge costs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Resource;
use kube::core::ObjectMeta;
use podloom_api::names::annotation;
use serde::{Deserialize, Deserializer};

/// A pod, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WatchedPod {
    #[serde(deserialize_with = "metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) status: WatchedStatus,
}

/// The status of a pod, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WatchedStatus {
    pub(crate) phase: String,
    pub(crate) conditions: Vec<WatchedCondition>,
    pub(crate) container_statuses: Vec<WatchedContainer>,
    pub(crate) init_container_statuses: Vec<WatchedContainer>,
}

/// A condition of a pod, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WatchedCondition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) last_transition_time: Option<Time>,
}

/// The status of a container, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WatchedContainer {
    pub(crate) restart_count: i32,
}

/// The metadata of a pod, as far as it is read: without managedFields, which are often half of it.
fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Read {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        owner_references: Option<Vec<OwnerReference>>,
        annotations: Stamp,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Stamp {
        #[serde(rename = "podloom.dev/chain")]
        chain: Option<String>,
    }
    let read = Read::deserialize(deserializer)?;
    let stamp = read.annotations.chain;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        owner_references: read.owner_references,
        annotations: stamp.map(|it| BTreeMap::from([(annotation::CHAIN.to_owned(), it)])),
        ..ObjectMeta::default()
    })
}

impl Resource for WatchedPod {
    type DynamicType = ();
    type Scope = <Pod as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
