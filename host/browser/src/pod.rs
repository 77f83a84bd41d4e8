//! A pod, as far as plans read it.
//!
//! The full type takes 2 KB for each container alone, and a cache holds a thousand pods.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Resource;
use kube::core::ObjectMeta;
use podloom_api::intern::Interner;
use podloom_api::{ContainerState, ExposedPort, Mutations, Phase, PluginMutation, names};
use podloom_engine::readable;
use serde::{Deserialize, Deserializer};

/// A pod that was seen. Reading one drops what no plan needs.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(from = "Whole")]
pub(crate) struct SeenPod {
    /// Without labels and annotations.
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Arc<SeenSpec>,
    pub(crate) status: SeenStatus,
    /// What the plugin chain noted on the pod. None if that is absent or unreadable.
    pub(crate) mutations: Option<Arc<Mutations>>,
    /// What it says of itself if it waits for a session, or has waited.
    pub(crate) warm: Option<Box<WarmMark>>,
}

/// A time of an object, or now if it has none.
pub(crate) fn instant(time: Option<&Time>, now: Timestamp) -> Timestamp {
    time.map_or(now, |time| time.0)
}

/// What a warm pod says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WarmMark {
    /// The hash of the recipe that it was made from.
    pub(crate) recipe: String,
    /// The label with its BrowserConfig; empty once a session has taken it.
    pub(crate) config: String,
    /// The label with its browser.
    pub(crate) browser: String,
    /// The label with its version.
    pub(crate) version: String,
}

impl WarmMark {
    /// Reads it from a pod's labels and annotations.
    pub(crate) fn of(
        labels: Option<&BTreeMap<String, String>>,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Option<Box<Self>> {
        let label = |key| {
            let value = labels.and_then(|labels| labels.get(key));
            value.cloned().unwrap_or_default()
        };
        Some(Box::new(Self {
            recipe: annotations?.get(names::annotation::RECIPE)?.clone(),
            config: label(names::label::WARM),
            browser: label(names::label::BROWSER_NAME),
            version: label(names::label::BROWSER_VERSION),
        }))
    }
}

/// A pod as the API server has it.
#[derive(Deserialize)]
struct Whole {
    #[serde(default, deserialize_with = "readable::metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SeenSpec,
    #[serde(default)]
    status: SeenStatus,
}

/// The containers in its spec: the same for all pods of a version of a browser.
#[derive(Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenSpec {
    #[serde(default)]
    pub(crate) containers: Vec<SeenContainer>,
    #[serde(default)]
    pub(crate) init_containers: Vec<SeenContainer>,
}

static SPECS: Interner<SeenSpec> = Interner::new();

/// A container in the spec.
#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenContainer {
    pub(crate) name: String,
    pub(crate) ports: Option<Vec<ExposedPort>>,
    pub(crate) restart_policy: Option<String>,
}

/// The pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenStatus {
    #[serde(default, deserialize_with = "phase")]
    pub(crate) phase: Option<Phase>,
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

/// A container in the status.
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
        matches!(self.status.phase, None | Some(Phase::Pending))
    }

    /// Whether none of its containers has ever started, init containers included. A pod can be pending while some of its
    /// containers run and others wait.
    pub(crate) fn never_started(&self) -> bool {
        let containers = self.status.container_statuses.iter().flatten();
        self.is_pending()
            && self
                .status
                .init_container_statuses
                .iter()
                .chain(containers)
                .all(SeenContainerStatus::never_started)
    }

    /// Returns the UID of the object that the pod was created for.
    pub(crate) fn controller(&self) -> Option<&str> {
        self.owner().map(|owner| owner.uid.as_str())
    }

    /// Returns the object that the pod was created for.
    pub(crate) fn owner(&self) -> Option<&OwnerReference> {
        let owners = self.metadata.owner_references.as_deref()?;
        owners.iter().find(|owner| owner.controller == Some(true))
    }
}

impl SeenContainerStatus {
    fn never_started(&self) -> bool {
        let state = self.state.as_ref();
        self.restart_count == 0
            && state.is_none_or(|state| {
                matches!(state, ContainerState::Waiting(_) | ContainerState::Unsaid)
            })
    }
}

impl From<Whole> for SeenPod {
    fn from(whole: Whole) -> Self {
        let Whole {
            mut metadata,
            spec,
            mut status,
        } = whole;
        let warm = WarmMark::of(metadata.labels.as_ref(), metadata.annotations.as_ref());
        metadata.labels = None;
        let mutations = metadata.annotations.take().and_then(mutations);
        // Those that report no problem are dropped.
        let is_kept = |condition: &PodCondition| match condition.type_.as_str() {
            "PodScheduled" | "Ready" => condition.status != "True",
            names::condition::RESIZE_IN_PROGRESS => condition.reason.is_some(),
            type_ => [
                names::condition::DISRUPTION_TARGET,
                names::condition::RESIZE_PENDING,
            ]
            .contains(&type_),
        };
        status.conditions.retain(is_kept);
        status.conditions.shrink_to_fit();
        if let Some(statuses) = &mut status.container_statuses {
            statuses.shrink_to_fit();
        }
        Self {
            metadata,
            spec: SPECS.intern(spec),
            status,
            mutations,
            warm,
        }
    }
}

/// An unknown phase counts as none.
fn phase<'de, D: Deserializer<'de>>(phase: D) -> Result<Option<Phase>, D::Error> {
    let text = Option::<Cow<'_, str>>::deserialize(phase)?;
    Ok(Phase::ALL
        .into_iter()
        .find(|phase| text.as_deref() == Some(phase.as_str())))
}

fn mutations(mut annotations: BTreeMap<String, String>) -> Option<Arc<Mutations>> {
    let chain = annotations.remove(names::annotation::CHAIN)?;
    let plugins = annotations.remove(names::annotation::MUTATIONS)?;
    let plugins: Vec<PluginMutation> = serde_json::from_str(&plugins).ok()?;
    Some(Mutations { chain, plugins }.interned())
}

#[cfg(test)]
mod tests;
