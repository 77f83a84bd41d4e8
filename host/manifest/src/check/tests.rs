use serde_json::json;

use super::{Extent, close};

#[test]
fn a_structural_schema_is_closed_where_the_api_server_prunes() {
    let mut schema = json!({
        "properties": {
            "closed": { "properties": { "a": { "type": "string", "nullable": true } } },
            "open": { "properties": {}, "x-kubernetes-preserve-unknown-fields": true },
            "map": { "additionalProperties": { "properties": {} } },
            "list": { "items": { "properties": {} } },
            "narrowed": { "anyOf": [{ "properties": {} }] },
        },
    });
    close(&mut schema, Extent::Whole);
    let properties = &schema["properties"];
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(properties["closed"]["additionalProperties"], false);
    assert_eq!(
        properties["closed"]["properties"]["a"]["type"],
        json!(["string", "null"])
    );
    assert!(properties["open"].get("additionalProperties").is_none());
    assert_eq!(
        properties["map"]["additionalProperties"]["additionalProperties"],
        false
    );
    assert_eq!(properties["list"]["items"]["additionalProperties"], false);
    assert!(
        properties["narrowed"]["anyOf"][0]
            .get("additionalProperties")
            .is_none()
    );
}
