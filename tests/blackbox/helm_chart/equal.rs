//! The chart installs what kustomize installs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use podloom_tests::kustomize;
use serde_json::{Map, Value, json};

use super::{Chart, RELEASE, key, objects, rows};

/// What differs, and nothing else does: the labels and the annotation that Helm's users expect, wherever they are,
const OF_HELM: [&str; 5] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/resource-policy",
];

/// the namespace, which `helm install --create-namespace` makes, the claim of a volume, which must be there,
const OF_KUSTOMIZE: [&str; 2] = ["Namespace", "PersistentVolumeClaim"];

/// and the order of what is in a list by name.
fn without_differences(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.filter(|(name, _)| !OF_HELM.contains(&name.as_str()));
            let fields: Map<String, Value> = fields
                .map(|(name, value)| (name, without_differences(value)))
                .collect();
            Value::Object(fields)
        }
        Value::Array(elements) => {
            let mut elements: Vec<Value> = elements.into_iter().map(without_differences).collect();
            let name = |element: &Value| element["name"].as_str().map(str::to_owned);
            elements.sort_by_key(name);
            Value::Array(elements)
        }
        other => other,
    }
}

/// A directory of kustomize with components, and the values that stand for it.
struct Case {
    base: String,
    components: Vec<String>,
    values: Value,
}

fn cases() -> Vec<Case> {
    let case = |case: Value| {
        let components = case["components"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Case {
            base: text(&case["base"]),
            components: components.map(text).collect(),
            values: case.get("values").cloned().unwrap_or_else(|| json!({})),
        }
    };
    rows(include_str!("cases.yaml"))
        .into_iter()
        .map(case)
        .collect()
}

#[track_caller]
fn by_key(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let is_compared = |object: &Value| OF_KUSTOMIZE.iter().all(|kind| object["kind"] != *kind);
    let objects: Vec<Value> = objects.into_iter().filter(is_compared).collect();
    let count = objects.len();
    let objects = objects.into_iter().map(without_differences);
    let keyed: BTreeMap<String, Value> = objects.map(|object| (key(&object), object)).collect();
    assert_eq!(keyed.len(), count, "an object is there twice");
    keyed
}

#[test]
fn each_way_to_install_is_the_same_with_both() {
    let Some(chart) = Chart::new() else { return };
    for case in cases() {
        let (base, components) = (&case.base, &case.components);
        let wanted = by_key(objects(&kustomize::build(base, components)));
        let found = by_key(chart.template(RELEASE, &case.values).unwrap());
        assert!(wanted.len() > 8, "{base} {components:?}");
        let keys = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&found), keys(&wanted), "{base} {components:?}");
        for (key, wanted) in wanted {
            assert_eq!(found[&key], wanted, "{base} {components:?}: {key}");
        }
    }
}

/// The directories of `deploy/` that have a kustomization, as they are there or as components.
#[test]
fn no_way_to_install_is_left_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let is_there = |path: &str| root.join(path).join("kustomization.yaml").exists();
    let mut used = BTreeSet::new();
    for case in cases() {
        used.extend(case.components.iter().map(|name| format!("deploy/{name}")));
        used.insert(case.base);
    }
    let names = |path: &str| -> Vec<String> {
        let entries = fs::read_dir(root.join(path)).unwrap();
        entries
            .map(|entry| {
                format!(
                    "{path}/{}",
                    entry.unwrap().file_name().into_string().unwrap()
                )
            })
            .collect()
    };
    let mut seen = 0;
    // base has only the namespace, clients is for programs of others, and the browser controller is in deploy/operator.
    let others = [
        "deploy/base",
        "deploy/clients",
        "deploy/controllers/browser",
    ];
    for path in [
        "deploy",
        "deploy/controllers",
        "deploy/options",
        "deploy/plugins",
    ]
    .into_iter()
    .flat_map(names)
    {
        if is_there(&path) && !others.contains(&path.as_str()) {
            assert!(
                used.contains(&path),
                "write a case for {path}, and the values in deploy/helm for it"
            );
            seen += 1;
        }
    }
    assert!(seen > 15, "only {seen} found");
}
