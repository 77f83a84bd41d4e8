//! Raises the requests of containers to a floor.
//!
//! It shows: quantities in the configuration and in the pod, kinds of containers, and grants for one field in every container.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

/// The least that containers request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    /// Name the least of each resource, such as `cpu: 100m` and `memory: 64Mi`.
    floor: BTreeMap<String, Quantity>,
    /// Say whether init containers get it too, sidecars apart, which always do. Default false.
    #[serde(default)]
    init_containers: bool,
}

/// What the plugin looks at in a container's resources.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: BTreeMap<String, Quantity>,
    limits: BTreeMap<String, Quantity>,
}

struct ResourceFloor;

impl Mutator for ResourceFloor {
    type Config = Config;
    const NAME: &str = "resource-floor";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Raises the requests of containers to a floor";

    fn needs(config: &Config) -> Needs {
        let needs = Needs::default()
            .read_all_containers()
            .read("/spec/containers/*/resources")
            .read("/spec/initContainers/*/resources");
        // Only the resources that this configuration names.
        config.floor.keys().fold(needs, |needs, resource| {
            needs.write_in_all_containers(&path::field("resources/requests", resource))
        })
    }

    fn validate(config: &Config) -> Vec<String> {
        let mut errors = Vec::new();
        for (resource, floor) in &config.floor {
            if floor.is_negative() || floor.is_zero() {
                errors.push(format!(
                    "floor: {resource} is {floor}: write more than 0, or leave it out"
                ));
            }
        }
        errors
    }

    fn mutate(config: &Config, _: &Request, pod: &Pod) -> Result<(), Rejection> {
        let mut denials = Vec::new();
        for (kind, container) in pod.all_containers()? {
            if kind == ContainerKind::Init && !config.init_containers {
                continue;
            }
            let resources: Resources = container.field("resources").get()?.unwrap_or_default();
            for (resource, floor) in &config.floor {
                let limit = resources.limits.get(resource);
                // A request that is missing is the limit.
                let request = resources.requests.get(resource).or(limit);
                if request.is_some_and(|request| request >= floor) {
                    continue;
                }
                if let Some(limit) = limit.filter(|limit| *limit < floor) {
                    denials.push(format!(
                        "container {}: the {resource} limit {limit} is less than {floor}, which each container requests here: raise it",
                        container.name()
                    ));
                    continue;
                }
                let requests = container.field("resources").field("requests");
                requests.field(resource).set(floor)?;
            }
        }
        Rejection::deny_if_any(&denials)
    }
}

podloom_plugin_sdk::mutator!(ResourceFloor, schema = "config.schema.json");
