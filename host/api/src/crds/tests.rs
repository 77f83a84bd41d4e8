use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{
    chain_exception_crd, chain_rollout_crd, cleaner_crd, crds, infrastructure_crd,
    portal_expose_crd, tunnel_class_crd,
};
use crate::{InfrastructureKind, SelenosisApi};

mod cleaner;
mod infrastructure;
mod portal;
mod reference;

/// `kubectl apply` keeps the whole document in an annotation, which can hold no more; a tenth is left for what kubectl adds.
const APPLY_MAX: usize = 262_144 * 9 / 10;

const HEADER: &str =
    "# Made from the types of podloom-api by its tests; change those, not this file.\n";

/// The directories of `crds/`, and the definitions in each. The default set is where `kubectl apply -f crds/` looks, which does not
/// descend.
fn directories() -> [(PathBuf, Vec<CustomResourceDefinition>); 7] {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let portal = vec![portal_expose_crd(), tunnel_class_crd()];
    [
        (root.clone(), crds(SelenosisApi::Seed)),
        (root.join("split"), crds(SelenosisApi::Split)),
        (root.join("portal"), portal),
        (
            root.join("infrastructure"),
            InfrastructureKind::ALL.map(infrastructure_crd).to_vec(),
        ),
        (root.join("cleaner"), vec![cleaner_crd()]),
        (root.join("rollout"), vec![chain_rollout_crd()]),
        (root.join("webhook"), vec![chain_exception_crd()]),
    ]
}

fn all() -> impl Iterator<Item = CustomResourceDefinition> {
    directories().into_iter().flat_map(|(_, crds)| crds)
}

/// One of each kind.
fn kinds() -> impl Iterator<Item = CustomResourceDefinition> {
    let [seed, _, portal, infrastructure, cleaner, rollout, webhook] = directories();
    let others = portal.1.into_iter().chain(infrastructure.1);
    let others = others.chain(cleaner.1).chain(rollout.1).chain(webhook.1);
    seed.1.into_iter().chain(others)
}

fn file(crd: &CustomResourceDefinition) -> String {
    format!("{}.yaml", crd.spec.names.plural)
}

/// On a developer's machine the files are rewritten, and the test fails once; in CI it only fails.
#[test]
fn files_are_fresh() {
    let mut stale = Vec::new();
    for (directory, crds) in directories() {
        for crd in crds {
            let text = format!("{HEADER}{}", serde_saphyr::to_string(&crd).unwrap());
            let path = directory.join(file(&crd));
            if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
                continue;
            }
            if std::env::var_os("CI").is_none() {
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(&path, text).unwrap();
            }
            stale.push(path);
        }
    }
    assert!(
        stale.is_empty(),
        "these files were not what the types give; run this test again and commit them: {stale:#?}",
    );
}

#[test]
fn no_other_file_is_in_the_way_of_kubectl() {
    for (directory, crds) in directories() {
        let mut names: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".yaml") || name.ends_with(".json"))
            .collect();
        names.sort();
        let mut expected: Vec<_> = crds.iter().map(file).collect();
        expected.sort();
        assert_eq!(names, expected, "{}", directory.display());
    }
}

#[test]
fn each_kustomization_has_all_files_of_its_directory() {
    for (directory, crds) in directories() {
        let text = std::fs::read_to_string(directory.join("Kustomization")).unwrap();
        let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
        let mut expected: Vec<_> = crds.iter().map(file).collect();
        expected.sort();
        assert_eq!(
            kustomization["resources"],
            Value::from(expected),
            "{}",
            directory.display()
        );
    }
}

#[test]
fn definitions_are_small_enough_for_client_side_apply() {
    for crd in all() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < APPLY_MAX, "{:?} has {size} bytes", crd.metadata.name);
    }
}

#[test]
fn sets_differ_in_group_and_name_alone() {
    let [seed, split] = SelenosisApi::ALL.map(|api| {
        crds(api)
            .into_iter()
            .map(|mut crd| {
                crd.spec.group.clear();
                crd.metadata.name = None;
                crd
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(seed, split);
}

#[test]
fn columns_are_those_that_clients_know() {
    check_columns(
        &crds(SelenosisApi::Seed)[0],
        &[
            ("Browser", "string", ".spec.browserName", None),
            ("Version", "string", ".spec.browserVersion", None),
            ("Phase", "string", ".status.phase", None),
            ("PodIP", "string", ".status.podIP", None),
            ("StartTime", "date", ".status.startTime", None),
            ("Age", "date", ".metadata.creationTimestamp", None),
            // Only with `-o wide`.
            ("Pod", "string", ".status.podName", Some(1)),
            ("Reason", "string", ".status.reason", Some(1)),
            ("Message", "string", ".status.message", Some(1)),
        ],
    );
}

/// Name, type, path and priority of each column.
#[track_caller]
fn check_columns(crd: &CustomResourceDefinition, expected: &[(&str, &str, &str, Option<i32>)]) {
    let columns: Vec<_> = crd.spec.versions[0]
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| {
            (
                column.name.as_str(),
                column.type_.as_str(),
                column.json_path.as_str(),
                column.priority,
            )
        })
        .collect();
    assert_eq!(columns, expected);
}

/// Nodes of a schema, each with its path.
fn nodes<'a>(path: &str, node: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    found.push((path.to_owned(), node));
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        nodes(&format!("{path}.{name}"), property, found);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(nested) = node.get(key) {
            nodes(&format!("{path}{mark}"), nested, found);
        }
    }
}

fn schema(crd: &CustomResourceDefinition) -> Value {
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

/// The rules of a structural schema that a type could break; a real API server has the last word.
#[test]
fn schemas_are_structural() {
    for crd in kinds() {
        let schema = schema(&crd);
        let mut found = Vec::new();
        nodes("", &schema, &mut found);
        assert!(found.len() > 20);
        for (path, node) in found {
            let int_or_string = node["x-kubernetes-int-or-string"] == true;
            assert!(
                int_or_string != node["type"].is_string(),
                "{path} has no type"
            );
            assert!(node.get("$ref").is_none(), "{path} has a reference");
            assert!(
                node.get("oneOf").is_none() && node.get("allOf").is_none(),
                "{path}"
            );
            let format = node["format"].as_str().unwrap_or_default();
            assert!(
                ["", "int32", "int64", "date-time"].contains(&format),
                "{path} has format {format}",
            );
            assert!(
                node["pattern"].is_string() || !int_or_string,
                "{path} is no quantity"
            );
        }
    }
}

#[test]
fn own_fields_are_described_and_embedded_ones_are_not() {
    for crd in crds(SelenosisApi::Seed) {
        let schema = schema(&crd);
        let mut found = Vec::new();
        nodes("", &schema, &mut found);
        let described = |wanted: &str| {
            found
                .iter()
                .find(|(path, _)| path == wanted)
                .map(|(_, node)| node["description"].is_string())
        };
        let own = |found: bool| if found { Some(true) } else { None };
        let config = crd.spec.names.kind == "BrowserConfig";
        assert_eq!(described(".spec.template.sidecars[].ports"), own(config));
        assert_eq!(described(".spec.browsers{}{}.affinity"), own(config));
        assert_eq!(described(".spec.browserName"), own(!config));
        if config {
            assert_eq!(described(".spec.template.env[].value"), Some(false));
            assert_eq!(
                described(".spec.template.affinity.podAffinity"),
                Some(false)
            );
        }
        for (path, node) in found {
            let text = node["description"].as_str().unwrap_or_default();
            assert!(!text.contains("```"), "{path} carries an example");
        }
    }
}

/// The bounds that are not 1024.
const BOUNDS: [(&str, u64); 18] = [
    (".spec.warm", 64),
    (".spec.warm{}", 64),
    (".spec.plugins", 16),
    (".spec.sessionOptions.env{}", 128),
    (".spec.sessionOptions.labels", 128),
    (".spec.sessionOptions.annotations", 128),
    (".spec.relay.targets", 16),
    (".spec.nodeSelector", 64),
    (".spec.tolerations", 64),
    (".spec.generic.parameters", 32),
    (".spec.generic.secretParameters", 16),
    (".spec.conditions", 32),
    (".spec.steps", 20),
    (".spec.targets", 64),
    (".spec.targets[].reference.matchLabels", 64),
    (".spec.targets[].reference.labelSelector.matchLabels", 64),
    (
        ".spec.targets[].reference.labelSelector.matchExpressions",
        64,
    ),
    (
        ".spec.targets[].reference.labelSelector.matchExpressions[].values",
        64,
    ),
];

/// What reading and merging a spec costs grows with its lists and maps, and a tenant may write it.
#[test]
fn every_list_and_map_of_a_spec_has_a_bound() {
    for crd in kinds() {
        let schema = schema(&crd);
        let mut found = Vec::new();
        nodes(".spec", &schema["properties"]["spec"], &mut found);
        for (path, node) in found {
            let bound = BOUNDS.iter().find(|(bounded, _)| *bounded == path);
            let most = bound.map_or(1024, |(_, most)| *most);
            if node["type"] == "array" {
                assert_eq!(node["maxItems"], most, "{path}");
            }
            if node["additionalProperties"].is_object() {
                assert_eq!(node["maxProperties"], most, "{path}");
            }
        }
    }
}

#[track_caller]
fn check_rule(pointer: &str, rule: &str, expected: impl Into<Value>) {
    let schemas: Vec<_> = kinds().map(|crd| schema(&crd)).collect();
    let node = schemas
        .iter()
        .find_map(|schema| schema.pointer(pointer))
        .unwrap_or(&Value::Null);
    assert_eq!(node[rule], expected.into(), "{pointer} {rule}");
}

#[test]
fn rules_of_the_fields_are_in_the_schema() {
    const SPEC: &str = "/properties/spec";
    const TEMPLATE: &str = "/properties/spec/properties/template";
    const BROWSERS: &str = "/properties/spec/properties/browsers";
    const VERSION: &str =
        "/properties/spec/properties/browsers/additionalProperties/additionalProperties";
    const CONDITIONS: &str = "/properties/status/properties/conditions";
    for name in ["browserName", "browserVersion"] {
        check_rule(&format!("{SPEC}/properties/{name}"), "minLength", 1);
        check_rule(
            &format!("{SPEC}/properties/{name}/x-kubernetes-validations/0"),
            "rule",
            "self == oldSelf",
        );
    }
    check_rule(BROWSERS, "minProperties", 1);
    check_rule(
        &format!("{BROWSERS}/additionalProperties"),
        "minProperties",
        1,
    );
    check_rule(VERSION, "required", serde_json::json!(["image"]));
    check_rule(&format!("{VERSION}/properties/image"), "minLength", 1);
    check_rule(&format!("{TEMPLATE}/properties/sidecars"), "minItems", 1);
    check_rule(
        &format!("{VERSION}/properties/sidecars"),
        "minItems",
        Value::Null,
    );
    check_rule(
        &format!("{TEMPLATE}/properties/sidecars/items"),
        "required",
        serde_json::json!(["image", "name"]),
    );
    for name in ["browserName", "browserVersion"] {
        check_rule(&format!("{SPEC}/properties/{name}"), "maxLength", 253);
    }
    check_rule(
        &format!("{TEMPLATE}/properties/sidecars/items/properties/name"),
        "maxLength",
        253,
    );
    check_rule(
        &format!("{BROWSERS}/x-kubernetes-validations/0"),
        "rule",
        "self.all(b, size(b) <= 253 && self[b].all(v, size(v) <= 253))",
    );
    check_rule(
        &format!("{SPEC}/properties/sessionOptions/properties/env/x-kubernetes-validations/0"),
        "rule",
        "self.all(c, size(c) <= 253)",
    );
    check_rule(CONDITIONS, "x-kubernetes-list-type", "map");
    check_rule(
        CONDITIONS,
        "x-kubernetes-list-map-keys",
        serde_json::json!(["type"]),
    );
}
