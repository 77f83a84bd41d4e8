//! What the standard plugin `labels` does for the configuration of the default chain, on a pod that comes in as JSON and goes
//! out as JSON. For comparison: the same work, the same allocator, stack, optimisation and sandbox, only without the handle.
#![cfg(target_family = "wasm")]

#[path = "../../../../../plugin-sdk/src/arena.rs"]
mod arena;

use serde::Deserialize;
use serde_json::{Map, Value};

wit_bindgen::generate!({ path: "wit", world: "json-mutator" });

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    labels: Vec<Rule>,
    #[serde(default)]
    allow_protected: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    key: String,
    value: String,
    #[serde(default)]
    default: Option<String>,
}

struct Labels;

export!(Labels);

impl Guest for Labels {
    fn mutate(pod: String) -> Result<String, String> {
        let config: Config = serde_json::from_str(&config()).map_err(|error| error.to_string())?;
        let mut pod: Value = serde_json::from_str(&pod).map_err(|error| error.to_string())?;
        apply(&config, &mut pod).ok_or("the pod is no object")?;
        serde_json::to_string(&pod).map_err(|error| error.to_string())
    }
}

fn apply(config: &Config, pod: &mut Value) -> Option<()> {
    let metadata = field(pod.as_object_mut()?, "metadata")?;
    let labels = field(metadata, "labels")?;
    let _ = &config.allow_protected;
    for rule in &config.labels {
        if labels.contains_key(&rule.key) {
            continue;
        }
        let value = render(&rule.value).filter(|value| is_label_value(value));
        if let Some(value) = value.or_else(|| rule.default.clone()) {
            labels.insert(rule.key.clone(), Value::String(value));
        }
    }
    Some(())
}

fn field<'v>(object: &'v mut Map<String, Value>, key: &str) -> Option<&'v mut Map<String, Value>> {
    let field = object
        .entry(key)
        .or_insert_with(|| Value::Object(Map::new()));
    field.as_object_mut()
}

fn render(template: &str) -> Option<String> {
    let Some(source) = template
        .strip_prefix("$(")
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return Some(template.to_owned());
    };
    match source.strip_prefix("namespace/labels/") {
        Some(key) => namespace_label(key),
        None => (source == "request/kind").then(kind),
    }
}

fn is_label_value(value: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = [value.bytes().next(), value.bytes().last()];
    value.len() <= 63
        && value.bytes().all(allowed)
        && ends.iter().flatten().all(u8::is_ascii_alphanumeric)
}
