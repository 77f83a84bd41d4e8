#![expect(dead_code, reason = "only the schema of these types matters")]

use schemars::JsonSchema;
use serde_json::json;

use super::config_schema;

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    name: String,
    #[serde(flatten)]
    source: Source,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    File(String),
    Secret(String),
}

#[test]
fn a_flattened_enum_leaves_no_keyword_that_the_host_refuses() {
    let schema = config_schema::<Config>();
    assert!(!schema.as_value().to_string().contains("unevaluated"));
    assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
    let names = schema.get("properties").and_then(|names| names.as_object());
    let names: Vec<&String> = names.expect("an object").keys().collect();
    assert_eq!(names, ["file", "name", "secret"]);
}
