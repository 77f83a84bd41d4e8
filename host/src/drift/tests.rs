//! Clusters, as YAML, and what is reported about them.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use podloom_mutation::NamespaceMetadata;
use podloom_mutators::Match;
use serde::Deserialize;
use serde_json::{Value, json};

use super::judge::{Change, Expected, Judge, Passed, Pod, Unstamped, Verdict, controller};
use super::report::{json_of, text_of};
use super::tally::{Findings, Id, MORE_OWNERS, Tally};
use super::webhook::Webhook;
use super::{Reader, Scope};
use crate::feed::Skipped;
use crate::render::Namespaces;

/// A cluster, and what is known about it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    webhook: Option<MutatingWebhookConfiguration>,
    #[serde(default)]
    unread_webhook: bool,
    /// Their labels.
    #[serde(default)]
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// What `--plugins` knows: names, and `match`. The digest of the chain is `now`.
    plugins: Option<BTreeMap<String, Match>>,
    pods: Vec<Value>,
    /// ReplicaSets and Jobs.
    #[serde(default)]
    owners: Vec<Value>,
    #[serde(default)]
    deployments: Vec<Value>,
    /// Kinds that may not be listed.
    #[serde(default)]
    unread: Vec<String>,
}

impl Case {
    fn judge(&self) -> Judge {
        let mut namespaces = Namespaces::default();
        for (name, labels) in &self.namespaces {
            let about = NamespaceMetadata {
                labels: labels.clone(),
                ..NamespaceMetadata::default()
            };
            namespaces.insert(name.clone(), about);
        }
        let plugins = self.plugins.clone();
        Judge {
            webhook: match &self.webhook {
                Some(webhook) => Webhook::of(webhook),
                None if self.unread_webhook => Webhook::Unread,
                None => Webhook::Absent,
            },
            namespaces,
            expected: plugins.map(|plugins| Expected {
                digest: "now".to_owned(),
                plugins: plugins.into_iter().collect(),
            }),
        }
    }

    fn skipped(&self) -> impl Iterator<Item = Skipped> {
        self.unread.iter().map(|what| Skipped {
            what: format!("{what}s"),
            why: "you may not list them".to_owned(),
        })
    }

    fn findings(&self) -> Findings {
        let judge = self.judge();
        let digest = judge.expected.as_ref().map(|it| it.digest.clone());
        let mut tally = Tally::new(digest, Reader::Person);
        for pod in &self.pods {
            let pod = completed(pod);
            let pod = Pod(&pod);
            tally.add(&pod, judge.judge(&pod));
        }
        for owner in &self.owners {
            if let Some(of) = controller(owner) {
                tally.resolve(&id(owner), of);
            }
        }
        for kind in &self.unread {
            tally.unread("apps", kind);
        }
        let wanted = tally.deployments();
        let mut stamped = HashMap::new();
        for deployment in &self.deployments {
            let id = id(deployment);
            assert!(wanted.contains(&id), "{id:?} is not needed");
            let passed = Passed::of(deployment, "/spec/template");
            stamped.extend(passed.map(|passed| (id, passed)));
        }
        Findings {
            unjudged: judge.unjudged(),
            knows_chain: judge.expected.is_some(),
            skipped: self.skipped().collect(),
            ..tally.finish(&stamped)
        }
    }
}

fn id(object: &Value) -> Id {
    let text = |field: &str| object["metadata"][field].as_str();
    let namespace = text("namespace").unwrap_or("shop");
    (namespace.to_owned(), text("uid").unwrap().to_owned())
}

/// Fills in what every pod has.
fn completed(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let metadata = &mut pod["metadata"];
    for (field, default) in [
        ("namespace", json!("shop")),
        ("uid", json!(format!("uid of {}", metadata["name"]))),
        ("creationTimestamp", json!("2026-01-02T00:00:00Z")),
    ] {
        if metadata[field].is_null() {
            metadata[field] = default;
        }
    }
    pod
}

#[test]
fn each_cluster_is_reported() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let case: Case = serde_saphyr::from_str(&text).unwrap();
        let findings = case.findings();
        let scope = Scope {
            namespace: None,
            selector: None,
            webhook: "podloom-webhook".to_owned(),
            reader: Reader::Person,
        };
        let text = anstream::adapter::strip_str(&text_of(&findings, &scope)).to_string();
        let counts: Vec<String> = findings
            .namespaces
            .iter()
            .map(|(name, counts)| format!("{name}: {counts:?}\n"))
            .collect();
        let json = json_of(&findings);
        assert_eq!(json["drifted"], findings.has_drifted());
        let json = serde_json::to_string(&json).unwrap();
        insta::assert_snapshot!(format!(
            "{text}----------\n{}----------\n{json}\n",
            counts.concat()
        ));
    });
}

/// The findings about pods of this namespace without a stamp, each with an owner of its own.
fn of_owners(number: usize, reader: Reader) -> Findings {
    let mut tally = Tally::new(None, reader);
    for index in 0..number {
        let name = "x".repeat(10_000);
        let owner = json!({ "apiVersion": "v1", "kind": name, "name": name, "uid": format!("{index}{name}"), "controller": true });
        let pod =
            json!({ "metadata": { "name": format!("p{index}"), "ownerReferences": [owner] } });
        let pod = completed(&pod);
        let pod = Pod(&pod);
        tally.add(&pod, Verdict::Unstamped(Unstamped::Missed(Vec::new())));
        let changes = (0..100).map(|it| Change {
            path: format!("/{index}/{it}"),
            plugin: None,
            manager: String::new(),
        });
        let passed = Passed {
            digest: "now".to_owned(),
            changes: changes.collect(),
            is_whole: true,
        };
        tally.add(&pod, Verdict::Passed(passed));
    }
    tally.finish(&HashMap::new())
}

#[test]
fn what_is_kept_of_forged_owners_is_limited() {
    let findings = of_owners(1_500, Reader::Person);
    let counts = findings.namespaces["shop"];
    assert_eq!((counts.missed, counts.changed), (1_500, 1_500));
    // Names that were cut off may be equal; their pods are in one row then.
    let pods: u64 = findings.missed.iter().map(|row| row.pods).sum();
    assert_eq!(pods, 1_500);
    assert!(
        findings
            .missed
            .iter()
            .all(|row| row.name.len() < 300 && row.kind.len() < 300)
    );
    let more = findings.missed.iter().find(|row| row.kind == MORE_OWNERS);
    assert_eq!(more.unwrap().pods, 500);
    let changes: usize = findings.changed.iter().map(|row| row.changes.len()).sum();
    assert!(changes <= 20_000, "{changes}");

    let counts = of_owners(10, Reader::Operator);
    assert_eq!(counts.namespaces["shop"].changed, 10);
    assert!(counts.changed.is_empty());
    assert!(counts.missed.iter().all(|row| row.names.is_empty()));
}
