//! What the API server fills in before a webhook sees a pod: an equal volume or variable is known as one there as it is offline.

use podloom_plugin_sdk::json::{Object, Value};

/// Whether two parts of a pod are the same but for what the API server fills in.
pub(crate) fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            has_all_of(ours, theirs) && has_all_of(theirs, ours)
        }
        (Value::List(ours), Value::List(theirs)) => {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len() && pairs.all(|(ours, theirs)| same(ours, theirs))
        }
        _ => ours == theirs,
    }
}

/// Whether an object has all fields of another one that are no defaults.
fn has_all_of(object: &Object, other: &Object) -> bool {
    let mut fields = other.fields().filter(|(_, value)| !value.is_null());
    fields.all(|(key, value)| match object.get(key) {
        Value::Null => is_default(key, value),
        found => same(found, value),
    })
}

/// Whether the API server sets this value where a volume or a variable says nothing.
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        // A volume without a source.
        "emptyDir" => value
            .as_object()
            .is_some_and(|source| source.fields().next().is_none()),
        "defaultMode" => value.as_i64() == Some(0o644),
        "expirationSeconds" => value.as_i64() == Some(3600),
        "apiVersion" => value.as_str() == Some("v1"),
        "divisor" => matches!(value.as_str(), Some("0")),
        "type" => value.as_str() == Some(""),
        "volumeMode" => value.as_str() == Some("Filesystem"),
        "iscsiInterface" => value.as_str() == Some("default"),
        _ => false,
    }
}
