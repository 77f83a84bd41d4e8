//! Sets environment variables in every container that does not set them itself.
//!
//! Read from top to bottom: what users configure, what that needs, what can be wrong with it, what happens to a pod.

#[cfg(test)]
mod tests;

use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

// What stands below `config:` in chain.yaml. `cargo test` makes config.schema.json of it; its comments are what users read.
/// Which environment variables to set, and where not.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    /// List the variables.
    variables: Vec<Variable>,
    /// Name the containers to leave alone. By default none.
    #[serde(default)]
    skip_containers: Vec<String>,
}

/// One environment variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Variable {
    /// Name the variable.
    name: String,
    /// Give its value.
    value: String,
}

/// What the plugin looks at in a variable that a container has already.
#[derive(Deserialize)]
struct Existing {
    value: Option<String>,
}

struct Plugin;

impl Mutator for Plugin {
    type Config = Config;
    const NAME: &str = env!("CARGO_PKG_NAME");
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str =
        "Sets environment variables in every container that does not set them itself";

    /// The manifest's `allow` has to cover these paths, or the chain is not loaded: ask for as little as this configuration needs.
    fn needs(config: &Config) -> Needs {
        let needs = Needs::default().read("/spec/containers/*/name");
        config.variables.iter().fold(needs, |needs, variable| {
            let env = path::element("/spec/containers/*/env", "name", &variable.name);
            needs.write(env)
        })
    }

    /// Everything that is wrong, a sentence each that says what to change. Types and missing fields are checked already.
    fn validate(config: &Config) -> Vec<String> {
        let mut errors = Vec::new();
        for (index, variable) in config.variables.iter().enumerate() {
            let name = &variable.name;
            let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
            if name.is_empty() || !name.bytes().all(is_allowed) {
                errors.push(format!(
                    "variables[{index}]: the name `{name}` is empty, or has a `=` or a character that is not printable ASCII"
                ));
            }
            let mut earlier = config.variables.iter().take(index);
            if earlier.any(|other| other.name == *name) {
                errors.push(format!("variables[{index}]: {name} is listed twice"));
            }
        }
        errors
    }

    /// Nothing that was written is kept unless this returns `Ok`. A second run on its own result must write nothing.
    fn mutate(config: &Config, _request: &Request, pod: &Pod) -> Result<(), Rejection> {
        for container in pod.containers()? {
            let place = container.name();
            if config.skip_containers.iter().any(|name| name == place) {
                continue;
            }
            for Variable { name, value } in &config.variables {
                let variable = container.env(name);
                match variable.node().get::<Existing>()? {
                    None => variable.set(value)?,
                    Some(existing) if existing.value.as_deref() == Some(value) => {}
                    // Users see notes beside the diff. Name what was left alone, never a value: it may be secret.
                    Some(_) => note(&format!("container {place} sets {name} itself")),
                }
            }
        }
        Ok(())
    }
}

podloom_plugin_sdk::mutator!(Plugin, schema = "config.schema.json");
