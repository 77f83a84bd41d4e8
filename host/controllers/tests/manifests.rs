//! The install manifests grant what the operator uses: nothing is missing, and nothing is too much.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use podloom_api::SelenosisApi;
use podloom_controllers::access::{Place, RULES, Rule};
use serde::Deserialize;

/// The name of the Lease that `podloom run` asks for by default.
const LEASE: &str = "podloom";

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

/// What the manifests of one set of API groups say of rights.
fn documents(api: SelenosisApi) -> Vec<Document> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    ["base", api.name()]
        .iter()
        .flat_map(|directory| {
            let path = deploy.join(directory).join("rbac.yaml");
            let text = fs::read_to_string(&path).expect("the manifests have an rbac.yaml");
            serde_saphyr::from_multiple::<Document>(&text).expect("it is YAML")
        })
        .collect()
}

fn granted(api: SelenosisApi) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for document in documents(api) {
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

fn used(api: SelenosisApi) -> BTreeSet<Right> {
    RULES.iter().flat_map(|rule| rights(rule, api)).collect()
}

fn rights(rule: &Rule, api: SelenosisApi) -> impl Iterator<Item = Right> {
    let resource = match rule.subresource {
        None => rule.resource.to_owned(),
        Some(subresource) => format!("{}/{subresource}", rule.resource),
    };
    let place = match rule.place {
        Place::Watched | Place::Cluster => EVERYWHERE,
        Place::Lease => OWN_NAMESPACE,
    };
    rule.verbs.iter().map(move |verb| {
        // A right to create cannot be held to a name: it is not known when the right is checked.
        let name = (rule.place == Place::Lease && *verb != "create").then(|| LEASE.to_owned());
        (
            place,
            rule.api_group(api).to_owned(),
            resource.clone(),
            (*verb).to_owned(),
            name,
        )
    })
}

#[test]
fn the_operator_is_granted_what_it_uses_and_nothing_else() {
    for api in SelenosisApi::ALL {
        let (granted, used) = (granted(api), used(api));
        let missing: Vec<_> = used.difference(&granted).collect();
        let too_much: Vec<_> = granted.difference(&used).collect();
        assert!(
            missing.is_empty() && too_much.is_empty(),
            "{api}: deploy/ lacks {missing:#?} and has too much {too_much:#?}"
        );
    }
}

#[test]
fn every_role_is_bound_to_the_operator_alone() {
    for api in SelenosisApi::ALL {
        let documents = documents(api);
        let roles = named(&documents, &["ClusterRole", "Role"]);
        let bound: BTreeSet<_> = documents
            .iter()
            .filter_map(|document| {
                let role = document.role_ref.as_ref()?;
                let who: Vec<_> = document
                    .subjects
                    .iter()
                    .map(|subject| {
                        (
                            subject.kind.as_str(),
                            subject.name.as_str(),
                            subject.namespace.as_deref(),
                        )
                    })
                    .collect();
                assert_eq!(who, [("ServiceAccount", "podloom", Some("podloom-system"))]);
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
            BTreeSet::from([("ServiceAccount", "podloom", Some("podloom-system"))]),
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
