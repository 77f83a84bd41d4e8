//! What only the schema of a Cleaner says.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::RESERVED_NAMES;
use crate::schema::rules;

/// How many labels or requirements a selector may have, and how many values a requirement.
const SELECTOR_MAX: usize = 64;

/// How many characters the value of a label has at most.
const LABEL_VALUE_MAX: usize = 63;

/// How many characters the key of a label has at most: a domain of 253, a slash and a name of 63.
const LABEL_KEY_MAX: usize = 317;

/// The group of an API, or nothing for the core.
pub(super) const API_GROUP: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";

/// The version of an API.
pub(super) const API_VERSION: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";

/// The group and the version of an API, or the version alone for the core.
pub(super) const GROUP_VERSION: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]*[a-z0-9])?$";

/// A kind, in upper or lower case.
pub(super) const KIND: &str = "^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$";

/// A name that is one segment of a URL's path: some kinds have names that are no DNS names, such as `system:basic-user`.
pub(super) const OBJECT_NAME: &str = r"^([^./%][^/%]*|\.[^./%][^/%]*|\.\.[^/%]+)$";

/// An http or https URL with a host, without a user and a fragment.
pub(super) const SINK: &str = concat!(
    r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])",
    "(:[0-9]{1,5})?",
    r"([/?][^#\s]*)?$",
);

/// Asks for a list with one target per name.
pub(super) fn targets(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".to_owned(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["name"]));
}

/// Asks for a name that conditions can use.
pub(super) fn target_name(schema: &mut Schema) {
    let reserved = RESERVED_NAMES.map(|name| format!("'{name}'")).join(", ");
    let rule = format!("!(self in [{reserved}])");
    let message = "this name means something else in conditions, use another";
    rules(schema, &[(&rule, message)]);
}

/// Asks for up to 32 conditions, none of them empty.
pub(super) fn conditions(schema: &mut Schema) {
    schema.insert("maxItems".to_owned(), 32.into());
    schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
    if let Some(items) = schema.get_mut("items") {
        items["minLength"] = 1.into();
        items["maxLength"] = 8192.into();
    }
}

/// Labels and their values. The values have no pattern: manifests with placeholders can be stored.
pub(super) fn match_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": SELECTOR_MAX,
        "additionalProperties": { "type": "string", "maxLength": LABEL_VALUE_MAX },
        "x-kubernetes-map-type": "atomic",
    })
}

/// A label selector. The type is Kubernetes' own, which knows neither bounds nor operators.
pub(super) fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut labels = match_labels(generator);
    labels.insert(
        "description".to_owned(),
        "Give labels that an object must have, with their values.".into(),
    );
    let values = json!({
        "type": "array",
        "description": "List the values: at least one for In and NotIn, none for Exists and DoesNotExist.",
        "maxItems": SELECTOR_MAX,
        "items": { "type": "string", "maxLength": LABEL_VALUE_MAX },
        "x-kubernetes-list-type": "atomic",
    });
    let requirement = json!({
        "type": "object",
        "description": "One requirement.",
        "required": ["key", "operator"],
        "properties": {
            "key": {
                "type": "string",
                "description": "Name the label.",
                "minLength": 1,
                "maxLength": LABEL_KEY_MAX,
            },
            "operator": {
                "type": "string",
                "description": "Choose what is required: In, NotIn, Exists or DoesNotExist.",
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
            },
            "values": values,
        },
        "x-kubernetes-validations": [{
            "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "message": "In and NotIn need values, Exists and DoesNotExist have none",
        }],
    });
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": labels,
            "matchExpressions": {
                "type": "array",
                "description": "List requirements, all of which an object must meet.",
                "maxItems": SELECTOR_MAX,
                "items": requirement,
                "x-kubernetes-list-type": "atomic",
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}
