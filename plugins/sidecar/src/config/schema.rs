//! The schemas of what is configured as it stands in a pod: only what the plugin relies on.

use podloom_plugin_sdk::schemars::{Schema, SchemaGenerator, json_schema};

pub(super) fn container(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["name", "image"],
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "image": { "type": "string", "minLength": 1 }
        }
    })
}

pub(super) fn named(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": { "name": { "type": "string", "minLength": 1 } }
        }
    })
}

pub(super) fn mounts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name", "mountPath"],
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "mountPath": { "type": "string", "minLength": 1 }
            }
        }
    })
}
