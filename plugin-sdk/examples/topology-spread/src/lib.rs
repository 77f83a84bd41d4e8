//! Spreads the pods of a workload over zones, nodes or any other domain.
//!
//! It shows: limits in the configuration's schema, a list that is read once and appended to, and `prepare`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::{names, path};

const CONSTRAINTS: &str = "/spec/topologySpreadConstraints";

/// Over which domains to spread the pods of a workload, and how strictly.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    /// List the node labels whose values are the domains, such as `topology.kubernetes.io/zone`.
    #[schemars(length(min = 1, max = 8))]
    topology_keys: Vec<String>,
    /// Say by how many pods domains may differ. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    max_skew: u32,
    /// Say what to do with a pod that fits nowhere. Default `ScheduleAnyway`.
    #[serde(default)]
    when_unsatisfiable: WhenUnsatisfiable,
    /// Name the pod label that all pods of a workload share. Default `app.kubernetes.io/name`.
    #[serde(default = "name_label")]
    workload_label: String,
    /// The path of that label, made once.
    #[serde(skip)]
    label_path: String,
}

/// What happens to a pod that fits nowhere.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
enum WhenUnsatisfiable {
    /// Run it where it fits least badly.
    #[default]
    ScheduleAnyway,
    /// Leave it pending.
    DoNotSchedule,
}

const fn one() -> u32 {
    1
}

fn name_label() -> String {
    "app.kubernetes.io/name".to_owned()
}

/// What the plugin writes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Constraint<'c> {
    max_skew: u32,
    topology_key: &'c str,
    when_unsatisfiable: WhenUnsatisfiable,
    label_selector: Selector<'c>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Selector<'c> {
    match_labels: BTreeMap<&'c str, &'c str>,
}

/// What the plugin looks at in the pod's own constraints.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Existing {
    topology_key: String,
}

struct TopologySpread;

impl Mutator for TopologySpread {
    type Config = Config;
    const NAME: &str = "topology-spread";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Spreads the pods of a workload over zones, nodes or any other domain";

    fn needs(config: &Config) -> Needs {
        Needs::default()
            .read(path::field("/metadata/labels", &config.workload_label))
            .write(CONSTRAINTS)
    }

    fn validate(config: &Config) -> Vec<String> {
        let mut errors = Vec::new();
        if let Err(problem) = names::label_key(&config.workload_label) {
            errors.push(format!(
                "workloadLabel: {} {problem}",
                config.workload_label
            ));
        }
        for (index, key) in config.topology_keys.iter().enumerate() {
            if let Err(problem) = names::label_key(key) {
                errors.push(format!("topologyKeys[{index}]: {key} {problem}"));
            }
            if config
                .topology_keys
                .iter()
                .take(index)
                .any(|other| other == key)
            {
                errors.push(format!("topologyKeys[{index}]: {key} is listed twice"));
            }
        }
        errors
    }

    fn prepare(config: &mut Config) {
        config.label_path = path::field("/metadata/labels", &config.workload_label);
    }

    fn mutate(config: &Config, _: &Request, pod: &Pod) -> Result<(), Rejection> {
        let label = &config.workload_label;
        let Some(workload) = pod.get::<String>(&config.label_path)? else {
            note(&format!("not spread: the pod has no label {label}"));
            return Ok(());
        };
        // Read once, and not asked for each key with `[topologyKey=...]`: a pod may have two constraints with the same key,
        // and a selector that fits both is an error.
        let existing: Vec<Existing> = pod
            .view(CONSTRAINTS, &["/*/topologyKey"])?
            .unwrap_or_default();
        for key in &config.topology_keys {
            // The pod's own constraint stays. On a second run, it is ours.
            if existing
                .iter()
                .any(|constraint| constraint.topology_key == *key)
            {
                continue;
            }
            let constraint = Constraint {
                max_skew: config.max_skew,
                topology_key: key,
                when_unsatisfiable: config.when_unsatisfiable,
                label_selector: Selector {
                    match_labels: BTreeMap::from([(label.as_str(), workload.as_str())]),
                },
            };
            pod.at(CONSTRAINTS).append(&constraint)?;
        }
        Ok(())
    }
}

podloom_plugin_sdk::mutator!(TopologySpread, schema = "config.schema.json");
