//! Clusters, as YAML, and what is reported about them.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use podloom_mutators::Match;
use serde::Deserialize;
use serde_json::{Value, json};

use super::findings::Findings;
use super::judge::{Expected, Judge, Passed};
use super::namespaces::Namespaces;
use super::pod::{Pod, controller};
use super::report::{Report, json_of, text_of};
use super::tally::Tally;
use super::webhook::{Installed, Webhook};
use super::{Scope, Skipped};

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
            namespaces.insert(name.clone(), labels.clone());
        }
        let plugins = self.plugins.clone();
        Judge {
            webhook: match &self.webhook {
                Some(webhook) => Webhook::Installed(Installed::of(webhook)),
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

    fn findings(&self) -> Findings {
        let judge = self.judge();
        let digest = judge.expected.as_ref().map(|it| it.digest.clone());
        let mut tally = Tally::new(digest);
        for pod in &self.pods {
            let pod = completed(pod);
            let pod = Pod(&pod);
            tally.add(&pod, judge.judge(&pod));
        }
        for owner in &self.owners {
            if let Some(of) = controller(owner) {
                tally.resolve(owner["metadata"]["uid"].as_str().unwrap(), of);
            }
        }
        for kind in &self.unread {
            tally.unread("apps", kind);
        }
        let wanted = tally.deployments();
        let mut stamped = HashMap::new();
        for deployment in &self.deployments {
            let uid = deployment["metadata"]["uid"].as_str().unwrap();
            assert!(wanted.contains(uid), "{uid} is not needed");
            let passed = Passed::of(deployment, "/spec/template");
            stamped.extend(passed.map(|passed| (uid.to_owned(), passed)));
        }
        tally.finish(&stamped)
    }
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
        };
        let skipped = case.unread.iter().map(|what| Skipped {
            what: format!("{what}s"),
            why: "you may not list them".to_owned(),
        });
        let report = Report {
            scope: &scope,
            findings: &findings,
            knows_chain: case.plugins.is_some(),
            skipped: &skipped.collect::<Vec<_>>(),
        };
        let text = anstream::adapter::strip_str(&text_of(&report)).to_string();
        let counts: Vec<String> = findings
            .namespaces
            .iter()
            .map(|(name, counts)| format!("{name}: {counts:?}\n"))
            .collect();
        let json = json_of(&report);
        assert_eq!(json["drifted"], findings.has_drifted());
        let json = serde_json::to_string(&json).unwrap();
        insta::assert_snapshot!(format!(
            "{text}----------\n{}----------\n{json}\n",
            counts.concat()
        ));
    });
}
