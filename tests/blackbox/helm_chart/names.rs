//! A release of another name, in another namespace, shares nothing with the first, and all that it names is its own.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Chart, RELEASE, everything, key};

/// A release whose name does not contain that of the chart.
const OTHER: (&str, &str) = ("team", "elsewhere");

/// What its names begin with.
const PREFIX: &str = "team-podloom";

fn rendered(chart: &Chart, release: (&str, &str), together: bool) -> Vec<Value> {
    let mut values = everything();
    values["crds"] = json!({ "install": false });
    values["together"] = json!({ "enabled": together });
    chart.template(release, &values).unwrap()
}

fn keys(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(key).collect()
}

/// All strings of a value, each with the name of its field.
fn strings<'v>(value: &'v Value, field: &'v str, found: &mut Vec<(&'v str, &'v str)>) {
    match value {
        Value::String(text) => found.push((field, text)),
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| strings(element, field, found)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(field, value)| strings(value, field, found)),
        _ => {}
    }
}

#[test]
fn two_releases_share_no_object_and_no_name() {
    let Some(chart) = Chart::new() else { return };
    for together in [false, true] {
        let (first, other) = (
            rendered(&chart, RELEASE, together),
            rendered(&chart, OTHER, together),
        );
        assert_eq!(first.len(), other.len());
        let (first, other_keys) = (keys(&first), keys(&other));
        assert_eq!(first.intersection(&other_keys).count(), 0);
        let mut found = Vec::new();
        for object in &other {
            let name = object["metadata"]["name"].as_str().unwrap();
            assert!(name.starts_with(PREFIX), "{}", key(object));
            strings(object, "", &mut found);
        }
        for (field, text) in found {
            // The container and the label that all releases have.
            let is_shared = [
                "name",
                "kubectl.kubernetes.io/default-container",
                "app.kubernetes.io/part-of",
            ]
            .contains(&field)
                && text == "podloom";
            let is_of_first = text == "podloom" || text.starts_with("podloom-");
            let is_version = field == "helm.sh/chart";
            assert!(is_shared || is_version || !is_of_first, "{field}: {text}");
        }
    }
}

#[test]
fn everything_that_is_named_is_there() {
    let Some(chart) = Chart::new() else { return };
    for release in [RELEASE, OTHER] {
        for together in [false, true] {
            let objects = rendered(&chart, release, together);
            let keys = keys(&objects);
            let namespace = release.1;
            for object in &objects {
                for wanted in names(object, namespace) {
                    assert!(keys.contains(&wanted), "{} names {wanted}", key(object));
                }
            }
            let deployments = objects
                .iter()
                .filter(|object| object["kind"] == "Deployment")
                .count();
            assert_eq!(deployments, if together { 1 } else { 5 });
        }
    }
}

/// The objects that an object names, as [`key`] writes them.
fn names(object: &Value, namespace: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let account = |name: &Value| format!("ServiceAccount {namespace}/{}", text(name));
    match object["kind"].as_str().unwrap() {
        "Deployment" => vec![
            account(&object["spec"]["template"]["spec"]["serviceAccountName"]),
            format!(
                "PriorityClass /{}",
                text(&object["spec"]["template"]["spec"]["priorityClassName"])
            ),
        ],
        "RoleBinding" | "ClusterRoleBinding" => {
            let (role, subject) = (&object["roleRef"], &object["subjects"][0]);
            assert_eq!(subject["namespace"], namespace);
            let of = if role["kind"] == "ClusterRole" {
                ""
            } else {
                own
            };
            vec![
                format!("{} {of}/{}", text(&role["kind"]), text(&role["name"])),
                account(&subject["name"]),
            ]
        }
        "FlowSchema" => vec![account(
            &object["spec"]["rules"][0]["subjects"][0]["serviceAccount"]["name"],
        )],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            let webhooks = object["webhooks"].as_array().unwrap().iter();
            webhooks
                .map(|webhook| {
                    let service = &webhook["clientConfig"]["service"];
                    format!(
                        "Service {}/{}",
                        text(&service["namespace"]),
                        text(&service["name"])
                    )
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Pods are found by the labels that they have.
#[test]
fn each_selector_selects_the_pods_of_its_deployment() {
    let Some(chart) = Chart::new() else { return };
    for together in [false, true] {
        let objects = rendered(&chart, OTHER, together);
        let deployments: Vec<&Value> = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .collect();
        let pods = |selector: &Value| -> Vec<&str> {
            let selector = selector.as_object().unwrap();
            let is_selected =
                |labels: &Value| selector.iter().all(|(name, value)| labels[name] == *value);
            let selected = deployments
                .iter()
                .filter(|one| is_selected(&one["spec"]["template"]["metadata"]["labels"]));
            selected
                .map(|one| one["metadata"]["name"].as_str().unwrap())
                .collect()
        };
        for object in &objects {
            let selector = match object["kind"].as_str().unwrap() {
                "Deployment" | "PodDisruptionBudget" => &object["spec"]["selector"]["matchLabels"],
                "Service" => &object["spec"]["selector"],
                "PodMonitor" => {
                    assert_eq!(
                        pods(&object["spec"]["selector"]["matchLabels"]).len(),
                        deployments.len()
                    );
                    continue;
                }
                _ => continue,
            };
            let own = if together {
                PREFIX
            } else {
                object["metadata"]["name"].as_str().unwrap()
            };
            // This field of a Deployment never changes, so a release can take over only what kustomize selects in the same way.
            assert_eq!(*selector, json!({ "app.kubernetes.io/name": own }));
            assert_eq!(pods(selector), [own], "{}", key(object));
        }
    }
}

/// A Role of a watched namespace and one of the operator's own become one where both are the same namespace.
#[test]
fn watched_namespaces_have_roles_of_their_own() {
    let Some(chart) = Chart::new() else { return };
    let duty = json!({ "enabled": true });
    let watched = ["default", "team-a", "elsewhere"];
    let values = json!({
        "portal": duty,
        "infrastructure": duty,
        "cleaner": duty,
        "namespaces": watched,
        "crds": { "install": false },
    });
    let objects = chart.template(OTHER, &values).unwrap();
    let found = keys(&objects);
    assert_eq!(found.len(), objects.len(), "an object is there twice");
    for namespace in watched {
        for role in [
            "",
            "-browsers",
            "-portal",
            "-portal-kinds",
            "-infrastructure",
            "-infrastructure-kinds",
            "-cleaner",
            "-cleaner-kinds",
        ] {
            for kind in ["Role", "RoleBinding"] {
                let wanted = format!("{kind} {namespace}/{PREFIX}{role}");
                assert!(found.contains(&wanted), "{wanted}");
            }
        }
    }
    // Both the Secrets of watched namespaces, and those of cluster-scoped objects.
    let own = format!("Role elsewhere/{PREFIX}-infrastructure");
    let own = objects.iter().find(|object| key(object) == own).unwrap();
    let verbs = own["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| &rule["verbs"]);
    let verbs: BTreeSet<String> = verbs.map(Value::to_string).collect();
    for wanted in [
        r#"["get","create","patch"]"#,
        r#"["get","patch"]"#,
        r#"["create","patch"]"#,
    ] {
        assert!(verbs.contains(wanted), "{verbs:?}");
    }
    // Only what podloom rbac cannot put into a namespace is for the whole cluster.
    let of_cluster: Vec<&String> = found
        .iter()
        .filter(|key| key.starts_with("Cluster") && !key.starts_with("ClusterRoleBinding"))
        .collect();
    assert_eq!(
        of_cluster,
        [
            &format!("ClusterRole /{PREFIX}-cleaner-targets"),
            &format!("ClusterRole /{PREFIX}-portal-kinds")
        ]
    );
}
