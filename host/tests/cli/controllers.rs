//! The standard chain breaks no well-known controller: what it changes in the pods of ten of them, and why each change is safe.
//!
//! The fixtures have what matters of the controllers' public manifests: accounts, security contexts, ports and mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use super::{bundle, podloom};

/// Paths in the pod template that the chain may add in every pod, and why that is safe.
const IN_EVERY_POD: [(&str, &str); 6] = [
    (
        "/metadata/annotations/podloom.dev/chain",
        "nobody reads it but Podloom",
    ),
    (
        "/metadata/annotations/podloom.dev/mutations",
        "nobody reads it but Podloom",
    ),
    (
        "/metadata/labels/app.kubernetes.io/managed-by",
        "a label more: selectors still match, and a label that is there is kept",
    ),
    (
        "/metadata/labels/submitted-as",
        "a label more: selectors still match",
    ),
    (
        "/metadata/labels/team",
        "a label more: selectors still match",
    ),
    (
        "/spec/enableServiceLinks",
        "without it only the variables of the namespace's own Services are gone, and these controllers find Services by DNS; those of the API server stay",
    ),
];

/// The changes beyond those: fixture, path in the pod template, and why it is safe.
const IN_SOME_PODS: [(&str, &str, &str); 10] = [
    (
        "external-dns",
        "/spec/securityContext/runAsNonRoot",
        "its image runs as user 65532",
    ),
    (
        "external-dns",
        "/spec/securityContext/seccompProfile/type",
        "a static Go program, which makes none of the calls that the runtime's profile forbids",
    ),
    (
        "external-dns",
        "/spec/containers/[external-dns]/securityContext/allowPrivilegeEscalation",
        "its image has no program with set-user-ID or file capabilities",
    ),
    (
        "external-dns",
        "/spec/containers/[external-dns]/securityContext/capabilities/drop",
        "it does not run as root, so it has no capabilities to lose; it listens on 7979",
    ),
    (
        "strimzi",
        "/spec/securityContext/runAsNonRoot",
        "its image runs as user 1001",
    ),
    (
        "strimzi",
        "/spec/securityContext/seccompProfile/type",
        "a Java program, and Java runs under the runtime's profile",
    ),
    (
        "strimzi",
        "/spec/containers/[strimzi-cluster-operator]/securityContext/allowPrivilegeEscalation",
        "its start script runs java and no program with set-user-ID",
    ),
    (
        "strimzi",
        "/spec/containers/[strimzi-cluster-operator]/securityContext/capabilities/drop",
        "it does not run as root, so it has no capabilities to lose; it listens on 8080",
    ),
    (
        "reloader",
        "/spec/containers/[reloader-reloader]/securityContext/allowPrivilegeEscalation",
        "its image is one static Go program",
    ),
    (
        "reloader",
        "/spec/containers/[reloader-reloader]/securityContext/capabilities/drop",
        "its pod runs as user 65534, so it has no capabilities to lose; it listens on 9090",
    ),
];

/// The objects of all fixtures, before and after the chain, and the report; compiling the chain takes a while. None without a bundle.
fn rendered() -> Option<&'static [Value; 3]> {
    static RENDERED: OnceLock<Option<[Value; 3]>> = OnceLock::new();
    let json = |text: &str| serde_json::from_str(text).expect("the output is JSON");
    let render = || {
        let bundle = bundle()?;
        let plugins = bundle.to_str().expect("the path is UTF-8");
        let before = podloom(&["render", "-f", "controllers", "-o", "json"]);
        let arguments = ["-o", "json", "-p", plugins, "--explain"];
        let after = podloom(&[&["render", "-f", "controllers"], &arguments[..]].concat());
        assert_eq!(after.code, 0, "{}", after.text());
        Some([
            json(&before.stdout),
            json(&after.stdout),
            json(&after.stderr),
        ])
    };
    RENDERED.get_or_init(render).as_ref()
}

/// The objects of a report, with the name of their fixture.
fn reported(report: &Value) -> Vec<(&str, &Value)> {
    let objects = report["objects"].as_array().expect("a list").iter();
    objects
        .map(|object| {
            let file = object["file"].as_str().expect("a file");
            let name = file.trim_start_matches("controllers/");
            (name.trim_end_matches(".yaml"), object)
        })
        .collect()
}

#[test]
fn every_change_of_a_well_known_controller_is_known_to_be_safe() {
    let Some([before, after, report]) = rendered() else {
        return;
    };
    let (before, after) = (before["items"].as_array(), after["items"].as_array());
    let (before, after) = (before.unwrap(), after.unwrap());
    let objects = reported(report);
    assert_eq!((before.len(), objects.len()), (after.len(), after.len()));
    let mut explained = 0;
    for (((controller, _), before), after) in objects.iter().zip(before).zip(after) {
        let (before, after) = (leaves(before), leaves(after));
        for (path, value) in &before {
            assert_eq!(after.get(path), Some(value), "{controller}: {path}");
        }
        for path in after.keys().filter(|path| !before.contains_key(*path)) {
            let path = path.strip_prefix("/spec/template").unwrap_or(path);
            let everywhere = IN_EVERY_POD.iter().any(|(known, _)| *known == path);
            let here = IN_SOME_PODS
                .iter()
                .any(|(name, known, _)| name == controller && *known == path);
            explained += usize::from(here);
            assert!(
                everywhere || here,
                "{controller}: the chain wrote {path}, which nobody has explained to be safe"
            );
        }
    }
    assert_eq!(
        explained,
        IN_SOME_PODS.len(),
        "an explanation is not needed"
    );
    let controllers: BTreeSet<&str> = objects.iter().map(|(name, _)| *name).collect();
    assert_eq!(controllers.len(), 10);
}

/// All of them use the Kubernetes API. That no field beyond the known ones is written, the test above checks.
#[test]
fn well_known_controllers_keep_their_token_with_a_note() {
    let Some([_, _, report]) = rendered() else {
        return;
    };
    for (controller, object) in reported(report) {
        let note =
            "automountServiceAccountToken: left as it is, since the pod names the service account";
        // This one asks for the token itself.
        let says = controller != "prometheus-operator";
        assert_eq!(object.to_string().contains(note), says, "{object}");
    }
}

/// Every scalar and every list of scalars, by its path; elements that have a name are found by it.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(value, String::new(), &mut found);
    found
}

fn collect(value: &Value, path: String, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                collect(value, format!("{path}/{key}"), found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                let name = item["name"]
                    .as_str()
                    .map_or(index.to_string(), str::to_owned);
                collect(item, format!("{path}/[{name}]"), found);
            }
        }
        leaf => {
            found.insert(path, leaf.clone());
        }
    }
}
