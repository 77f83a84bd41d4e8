//! A pod as far as plans look at it.
//!
//! The full type takes 2 KB for each container alone, and a cache holds a thousand pods.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{ContainerPort, ContainerState, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use podloom_api::names;
use serde::Deserialize;

use crate::readable;

/// A pod that was seen.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct SeenPod {
    #[serde(default, deserialize_with = "readable::metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: SeenSpec,
    #[serde(default)]
    pub(crate) status: SeenStatus,
}

/// What its spec says of its containers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenSpec {
    #[serde(default)]
    pub(crate) containers: Vec<SeenContainer>,
    #[serde(default)]
    pub(crate) init_containers: Vec<SeenContainer>,
}

/// A container as it was asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenContainer {
    pub(crate) name: String,
    pub(crate) ports: Option<Vec<ContainerPort>>,
    pub(crate) restart_policy: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenStatus {
    pub(crate) phase: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Option<String>,
    pub(crate) start_time: Option<Time>,
    #[serde(default)]
    pub(crate) conditions: Vec<PodCondition>,
    #[serde(default)]
    pub(crate) init_container_statuses: Vec<SeenContainerStatus>,
    pub(crate) container_statuses: Option<Vec<SeenContainerStatus>>,
}

/// What became of a container.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenContainerStatus {
    pub(crate) name: String,
    pub(crate) state: Option<ContainerState>,
    #[serde(default)]
    pub(crate) image: String,
    #[serde(default)]
    pub(crate) restart_count: i32,
}

impl SeenPod {
    /// Whether it has not run yet.
    pub(crate) fn is_pending(&self) -> bool {
        let phase = self.status.phase.as_deref();
        phase.is_none_or(|phase| phase == "Pending")
    }

    /// Returns the UID of the object that the pod was made for.
    pub(crate) fn controller(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.as_deref()?;
        let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some(&owner.uid)
    }

    /// Drops what a list of all fields brings and no plan looks at.
    pub(crate) fn prune(&mut self) {
        self.metadata.labels = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|key, _| key.starts_with(names::annotation::PREFIX));
        }
        // That all is well goes without saying.
        let tells = |condition: &PodCondition| match condition.type_.as_str() {
            "PodScheduled" | "Ready" => condition.status != "True",
            type_ => type_ == names::condition::DISRUPTION_TARGET,
        };
        self.status.conditions.retain(tells);
        self.status.conditions.shrink_to_fit();
    }
}

impl Resource for SeenPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

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
mod tests;
