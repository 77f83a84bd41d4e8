//! The install manifests grant each duty what it uses: nothing is missing, and nothing is too much.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{
    Chain, Duty, GivenNames, Need, Right as Needed, RightScope, Row, Switch, WEBHOOK_NAME,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The names that `podloom run` uses by default.
const GIVEN: GivenNames<'_> = GivenNames {
    lease: None,
    webhook: WEBHOOK_NAME,
};

/// Any document of the manifests, as far as rights go.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    rules: Vec<PolicyRule>,
    role_ref: Option<RoleRef>,
    #[serde(default)]
    subjects: Vec<Subject>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

/// One verb on one resource: where, group, resource, verb, and the one object that it is held to.
type Right = (&'static str, String, String, String, Option<String>);

const EVERYWHERE: &str = "in the whole cluster";
const OWN_NAMESPACE: &str = "in the operator's namespace";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// What the manifests of a duty and one set of API groups say of rights.
fn documents(row: &Row, api: SelenosisApi) -> Vec<Document> {
    let duty = deploy().join("controllers").join(row.name);
    let own = duty.join(api.name()).join("rbac.yaml");
    // The default set is not named, and a duty without kinds of Selenosis is the same in both.
    let path = if own.exists() {
        own
    } else {
        duty.join("rbac.yaml")
    };
    let text = fs::read_to_string(&path).expect("the manifests have an rbac.yaml");
    serde_saphyr::from_multiple(&text).expect("it is YAML")
}

/// Each duty in both sets of API groups.
fn all() -> impl Iterator<Item = (&'static Row, SelenosisApi)> {
    let rows = Duty::ALL.into_iter().map(Duty::row);
    rows.flat_map(|row| SelenosisApi::ALL.map(|api| (row, api)))
}

fn granted(row: &Row, api: SelenosisApi) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for document in documents(row, api) {
        let place = match document.kind.as_str() {
            "ClusterRole" => EVERYWHERE,
            "Role" => OWN_NAMESPACE,
            _ => continue,
        };
        for rule in document.rules {
            assert!(rule.non_resource_urls.is_none());
            let names = match rule.resource_names {
                None => vec![None],
                Some(names) => names.into_iter().map(Some).collect(),
            };
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for verb in &rule.verbs {
                        rights.extend(names.iter().map(|name| {
                            (
                                place,
                                group.clone(),
                                resource.clone(),
                                verb.clone(),
                                name.clone(),
                            )
                        }));
                    }
                }
            }
        }
    }
    rights
}

fn used(row: &Row, api: SelenosisApi) -> BTreeSet<Right> {
    let all = row.all_rights();
    all.flat_map(|right| rights(row, right, api)).collect()
}

fn rights(row: &Row, right: &Needed, api: SelenosisApi) -> Vec<Right> {
    let resource = match right.subresource {
        None => right.resource.to_owned(),
        Some(subresource) => format!("{}/{subresource}", right.resource),
    };
    let place = match right.scope {
        RightScope::WatchedNamespaces
        | RightScope::AllNamespaces
        | RightScope::Cluster
        | RightScope::Namespace(_)
        | RightScope::GlobalSecrets => EVERYWHERE,
        RightScope::LeaseNamespace | RightScope::OwnNamespace => OWN_NAMESPACE,
    };
    let verbs = right.verbs.iter().map(|verb| {
        // A right to create cannot be held to a name: it is not known when the right is checked.
        let is_named = right.scope == RightScope::LeaseNamespace && *verb != "create";
        (
            place,
            right.group.name(api).to_owned(),
            resource.clone(),
            (*verb).to_owned(),
            match right.object {
                Some(object) => Some(object.name(WEBHOOK_NAME)),
                None => is_named.then(|| row.lease_name(&GIVEN)),
            },
        )
    });
    verbs.collect()
}

#[test]
fn every_duty_is_granted_what_it_uses_and_nothing_else() {
    for (row, api) in all() {
        let (granted, used) = (granted(row, api), used(row, api));
        let missing: Vec<_> = used.difference(&granted).collect();
        let too_much: Vec<_> = granted.difference(&used).collect();
        assert!(
            missing.is_empty() && too_much.is_empty(),
            "{}, {api}: deploy/ lacks {missing:#?} and has too much {too_much:#?}",
            row.name
        );
    }
}

#[test]
fn every_duty_has_a_folder_and_every_folder_is_a_duty() {
    let folders = fs::read_dir(deploy().join("controllers")).expect("it is there");
    let folders = folders.map(|entry| {
        let name = entry.expect("it can be read").file_name();
        name.into_string().expect("UTF-8")
    });
    let duties = Duty::ALL.map(|duty| duty.row().name.to_owned());
    assert_eq!(folders.collect::<BTreeSet<_>>(), BTreeSet::from(duties));
}

#[test]
fn every_role_is_bound_to_the_account_of_its_duty_alone() {
    for (row, api) in all() {
        let documents = documents(row, api);
        let account = row.object_name(&GIVEN);
        let account = ("ServiceAccount", account.as_str(), Some("podloom-system"));
        let roles = named(&documents, &["ClusterRole", "Role"]);
        let bound: BTreeSet<_> = documents
            .iter()
            .filter_map(|document| {
                let role = document.role_ref.as_ref()?;
                let who = document.subjects.iter().map(|subject| {
                    (
                        subject.kind.as_str(),
                        subject.name.as_str(),
                        subject.namespace.as_deref(),
                    )
                });
                assert_eq!(who.collect::<Vec<_>>(), [account]);
                Some((
                    role.kind.as_str(),
                    role.name.as_str(),
                    document.metadata.namespace.as_deref(),
                ))
            })
            .collect();
        assert_eq!(bound, roles, "{api}");
        assert_eq!(
            named(&documents, &["ServiceAccount"]),
            BTreeSet::from([account])
        );
    }
}

fn named<'a>(
    documents: &'a [Document],
    kinds: &[&str],
) -> BTreeSet<(&'a str, &'a str, Option<&'a str>)> {
    documents
        .iter()
        .filter(|document| kinds.contains(&document.kind.as_str()))
        .map(|document| {
            (
                document.kind.as_str(),
                document.metadata.name.as_str(),
                document.metadata.namespace.as_deref(),
            )
        })
        .collect()
}

/// A document of the manifests, whole.
fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path);
    assert!(text.is_ok(), "{path:?}: {text:?}");
    let document = serde_saphyr::from_str(&text.expect("it can be read"));
    assert!(document.is_ok(), "{path:?}: {document:?}");
    document.expect("it is YAML")
}

/// The value of a variable of a Deployment's container.
fn variable(deployment: &Value, name: &str) -> Option<String> {
    let container = deployment.pointer("/spec/template/spec/containers/0")?;
    assert_eq!(container["name"], "podloom");
    let mut variables = container["env"].as_array()?.iter();
    let variable = variables.find(|variable| variable["name"] == name)?;
    variable["value"].as_str().map(str::to_owned)
}

/// The variable that a kustomization gives to a duty's Deployment.
fn patched(kustomization: &Path, row: &Row, name: &str) -> Option<String> {
    let kustomization = read(kustomization);
    let patches = kustomization["patches"].as_array()?.iter();
    let mut patches = patches.map(|patch| {
        let patch = patch["patch"].as_str().expect("it is inline");
        serde_saphyr::from_str::<Value>(patch).expect("it is YAML")
    });
    patches.find_map(|patch| {
        let is_ours =
            patch["kind"] == "Deployment" && patch["metadata"]["name"] == row.object_name(&GIVEN);
        is_ours.then(|| variable(&patch, name))?
    })
}

#[test]
fn every_duty_has_a_deployment_as_its_row_says() {
    for row in Duty::ALL.map(Duty::row) {
        let folder = deploy().join("controllers").join(row.name);
        let deployment = read(&folder.join("workload/deployment.yaml"));
        let name = row.object_name(&GIVEN);
        let metadata = &deployment["metadata"];
        assert_eq!(metadata["name"], name);
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], name);
        let chain = metadata["labels"].get("podloom.dev/chain");
        let wanted = (row.chain == Chain::Needed).then(|| json!("needed"));
        assert_eq!(chain, wanted.as_ref(), "{}", row.name);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], name);
        let controllers = variable(&deployment, "PODLOOM_CONTROLLERS");
        let expected = match row.switch {
            Switch::Controllers => row.name,
            Switch::Flag(flag) => {
                let variable_of_flag = flag.trim_start_matches('-').to_uppercase();
                let address = variable(&deployment, &format!("PODLOOM_{variable_of_flag}"));
                assert!(address.is_some(), "{flag}");
                "none"
            }
        };
        assert_eq!(controllers.as_deref(), Some(expected));

        let schema = folder.join("flow-schema/flow-schema.yaml");
        let account = json!({ "name": name, "namespace": "podloom-system" });
        let subjects = json!([{ "kind": "ServiceAccount", "serviceAccount": account }]);
        assert_eq!(read(&schema)["spec"]["rules"][0]["subjects"], subjects);
    }
}

#[test]
fn every_overlay_has_each_duty_with_its_settings() {
    for row in Duty::ALL.map(Duty::row) {
        let component = format!("controllers/{}", row.name);
        let has = |kustomization: &str, component: &str| {
            let kustomization = read(&deploy().join(kustomization).join("kustomization.yaml"));
            let components = kustomization["components"].as_array().cloned();
            components.unwrap_or_default().contains(&json!(component))
        };
        // A duty that not every installation has comes with an overlay of its own.
        let has_own = deploy().join(row.name).join("kustomization.yaml").exists();
        let overlay = if has_own { row.name } else { "operator" };
        assert!(has_own || row.switch == Switch::Controllers, "{component}");
        assert!(has(overlay, &format!("../{component}")), "{component}");
        let groups = |api: SelenosisApi| {
            let rights = row.all_rights();
            rights
                .map(|right| right.group.name(api))
                .collect::<Vec<_>>()
        };
        let is_split = groups(SelenosisApi::Seed) != groups(SelenosisApi::Split);
        let own = if is_split { "/split" } else { "" };
        let split = format!("../../{component}{own}");
        // An overlay of its own is the same for both sets, unless its groups differ.
        if is_split || !has_own {
            assert!(has(&format!("{overlay}/split"), &split), "{split}");
        }
        if is_split {
            let path = deploy().join(&component).join("split/kustomization.yaml");
            let api = patched(&path, row, "PODLOOM_SELENOSIS_API");
            assert_eq!(api.as_deref(), Some("split"), "{component}");
        }
        // What needs the whole cluster works in no single namespace. What has an overlay of its own is installed by that.
        let is_placed = row.switch == Switch::Controllers
            && !has_own
            && !row
                .all_rights()
                .any(|right| right.scope == RightScope::Cluster && right.need == Need::Required);
        let workload = format!("../{component}/workload");
        assert_eq!(has("namespaced", &workload), is_placed, "{workload}");
        let path = deploy().join("namespaced/kustomization.yaml");
        let namespaces = patched(&path, row, "PODLOOM_NAMESPACE");
        assert_eq!(namespaces.as_deref(), is_placed.then_some("browsers"));
    }
}
