//! A kind for tests of the engine.

use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind, Object};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A kind for tests.
pub(crate) type Lamp = Object<LampSpec, LampStatus>;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LampSpec {
    pub(crate) light_color: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LampStatus {
    pub(crate) phase: LampPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum LampPhase {
    Lit,
    #[default]
    Dark,
}

/// The resource of lamps.
pub(crate) fn lamps() -> Arc<ApiResource> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Lamp");
    Arc::new(ApiResource::from_gvk_with_plural(&kind, "lamps"))
}

/// A lamp; its UID is its name.
pub(crate) fn lamp(namespace: &str, name: &str, generation: i64) -> Lamp {
    let lamp = json!({
        "metadata": { "name": name, "namespace": namespace, "uid": name, "generation": generation },
        "spec": { "lightColor": "red" },
    });
    serde_json::from_value(lamp).unwrap()
}
