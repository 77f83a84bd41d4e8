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
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: WatchedStatus,
}

/// The status of a pod, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WatchedStatus {
    #[serde(deserialize_with = "or_default")]
    pub(crate) phase: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Vec<WatchedCondition>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) container_statuses: Vec<WatchedContainer>,
    #[serde(deserialize_with = "or_default")]
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

/// Null is as nothing, as everywhere in Kubernetes: one odd pod must not end the watch of all.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
        annotations: Option<Stamp>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Stamp {
        #[serde(rename = "podloom.dev/chain")]
        chain: Option<String>,
    }
    let read = Read::deserialize(deserializer)?;
    let stamp = read.annotations.and_then(|it| it.chain);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::WatchedPod;

    #[test]
    fn null_is_as_nothing() {
        let status = json!({ "phase": null, "conditions": null, "containerStatuses": null, "initContainerStatuses": null });
        for pod in [
            json!({}),
            json!({ "metadata": { "annotations": null, "ownerReferences": null }, "status": null }),
            json!({ "metadata": { "managedFields": [{}] }, "status": status }),
        ] {
            let read: WatchedPod = serde_json::from_value(pod).unwrap();
            assert_eq!(read.status.phase, "");
        }
    }
}
