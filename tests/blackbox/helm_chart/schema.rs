//! values.yaml and values.schema.json name the same values.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::{Chart, objects};

/// Helm gives it to each chart that is part of another.
const OF_HELM: &str = "global";

fn read(file: &str) -> String {
    fs::read_to_string(Chart::directory().join(file)).unwrap()
}

/// A schema, or the one that it refers to.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let Some(reference) = schema["$ref"].as_str() else {
        return schema;
    };
    root.pointer(reference.trim_start_matches('#')).unwrap()
}

/// Compares the names below a path, and returns how many there are.
#[track_caller]
fn compare(root: &Value, schema: &Value, values: &Value, path: &str) -> usize {
    let schema = resolve(root, schema);
    let (Some(properties), Some(values)) = (schema["properties"].as_object(), values.as_object())
    else {
        return 0;
    };
    // What Kubernetes defines is not written out in values.yaml.
    if path.ends_with("/resources") || path.ends_with("/namespaceSelector") {
        return 0;
    }
    assert_eq!(schema["additionalProperties"], false, "{path}");
    let known: BTreeSet<&String> = properties.keys().filter(|name| *name != OF_HELM).collect();
    assert_eq!(known, values.keys().collect(), "{path}");
    let below = values
        .iter()
        .map(|(name, value)| compare(root, &properties[name], value, &format!("{path}/{name}")));
    values.len() + below.sum::<usize>()
}

#[test]
fn the_schema_knows_each_value_and_no_other() {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values = objects(&read("values.yaml")).remove(0);
    let count = compare(&schema, &schema, &values, "");
    assert!(count > 80, "only {count} values found");
}

/// The comments of the first duty explain them.
#[test]
fn all_duties_have_the_same_values() {
    let values = objects(&read("values.yaml")).remove(0);
    let of = |duty: &str| -> BTreeSet<String> {
        values[duty].as_object().unwrap().keys().cloned().collect()
    };
    let first = of("browser");
    for duty in ["portal", "infrastructure", "cleaner"] {
        assert_eq!(of(duty), first, "{duty}");
    }
    assert!(of("webhook").is_superset(&first));
    assert!(of("together").is_subset(&first));
}
