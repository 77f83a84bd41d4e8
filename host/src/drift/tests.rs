//! Clusters, as YAML, and what is reported about them.

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use podloom_mutation::{NamespaceMetadata, Operation};
use podloom_mutators::Match;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ephemeral::Ephemeral;
use super::judge::{
    Change, Expected, Judge, Need, Passed, Pod, Unstamped, Unwanted, Verdict, controller,
};
use super::report::{json_of, text_of};
use super::tally::{Findings, Id, MORE_OWNERS, Tally};
use super::webhook::Webhook;
use super::{Reader, Scope};
use crate::exceptions::Exceptions;
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
    /// What the chain says of their ephemeral containers, by name; empty if it cannot say anything.
    #[serde(default)]
    ephemeral: BTreeMap<String, String>,
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
            large_namespaces: HashSet::new(),
            exceptions: Exceptions::default(),
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
            if let Some(reason) = self.ephemeral.get(pod.name()) {
                let found = match reason.as_str() {
                    "" => Ephemeral::Unclear,
                    reason => Ephemeral::Rejected(reason.to_owned()),
                };
                tally.add_ephemeral(&pod, found);
            }
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
            is_excepted: false,
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

/// A labelled namespace and another one, and a chain whose plugin takes only some pods.
const CLUSTER: &str = "
webhook:
  metadata: { name: podloom-webhook, creationTimestamp: 2026-01-01T00:00:00Z }
  webhooks:
  - name: pods.podloom.dev
    admissionReviewVersions: [v1]
    clientConfig: {}
    sideEffects: None
    rules: [{ apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods] }]
    namespaceSelector: { matchLabels: { chain: 'yes' } }
namespaces: { shop: { chain: 'yes' }, other: {} }
plugins: { all: { selector: { matchExpressions: [{ key: plain, operator: DoesNotExist }] } } }
pods: []
";

/// Why a pod should be replaced, if banned chains are `bad`, and other ones are unwanted or not.
fn need(metadata: &Value, is_older_unwanted: bool) -> Option<Need> {
    let case: Case = serde_saphyr::from_str(CLUSTER).unwrap();
    let unwanted = Unwanted {
        banned: vec!["bad".to_owned()],
        older: is_older_unwanted,
    };
    let pod = completed(&json!({ "metadata": metadata }));
    case.judge().need(&Pod(&pod), &unwanted)
}

#[test]
fn only_pods_that_would_pass_another_chain_now_are_replaced() {
    let stamped =
        |digest: &str| json!({ "name": "a", "annotations": { "podloom.dev/chain": digest } });
    let with = |mut metadata: Value, field: &str, value: Value| {
        metadata[field] = value;
        metadata
    };
    let bare = || json!({ "name": "a" });
    let plain = || json!({ "plain": "yes" });
    for (metadata, usually, if_older_are_unwanted) in [
        (bare(), Some(Need::Missed), Some(Need::Missed)),
        (stamped("now"), None, None),
        (stamped("before"), None, Some(Need::Older)),
        (stamped("bad"), Some(Need::Banned), Some(Need::Banned)),
        // The webhook would not be asked about them.
        (with(bare(), "namespace", json!("other")), None, None),
        (
            with(stamped("bad"), "namespace", json!("other")),
            None,
            None,
        ),
        (
            with(stamped("before"), "namespace", json!("other")),
            None,
            None,
        ),
        // No plugin would run. But what an unwanted chain wrote is still there.
        (with(bare(), "labels", plain()), None, None),
        (
            with(stamped("bad"), "labels", plain()),
            Some(Need::Banned),
            Some(Need::Banned),
        ),
        // It is older than the webhook, and missed the chain nevertheless.
        (
            with(bare(), "creationTimestamp", json!("2025-01-01T00:00:00Z")),
            Some(Need::Missed),
            Some(Need::Missed),
        ),
        (
            with(bare(), "deletionTimestamp", json!("2026-01-02T00:00:00Z")),
            None,
            None,
        ),
        (
            with(
                bare(),
                "labels",
                json!({ "portal.gosuda.org/portalexpose": "a" }),
            ),
            None,
            None,
        ),
    ] {
        let needs = [false, true].map(|is| need(&metadata, is));
        assert_eq!(needs, [usually, if_older_are_unwanted], "{metadata}");
    }
}

#[test]
fn the_webhook_for_later_changes_says_which_ephemeral_containers_count() {
    let asked = |case: &Case, namespace: &str| {
        let pod = completed(&json!({ "metadata": { "name": "a", "namespace": namespace } }));
        let judge = case.judge();
        [Operation::Create, Operation::EphemeralContainers].map(|it| judge.is_asked(it, &Pod(&pod)))
    };
    let mut case: Case = serde_saphyr::from_str(CLUSTER).unwrap();
    // If there is none, that for new pods does.
    assert_eq!(asked(&case, "shop"), [Ok(true), Ok(true)]);
    assert_eq!(asked(&case, "other"), [Ok(false), Ok(false)]);
    let later = json!({
        "name": "updates.podloom.dev", "admissionReviewVersions": ["v1"], "clientConfig": {}, "sideEffects": "None",
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["pods", "pods/ephemeralcontainers"],
        }],
        "namespaceSelector": { "matchExpressions": [{ "key": "chain", "operator": "DoesNotExist" }] },
        "matchConditions": [{ "name": "spec-changes", "expression": "object.spec != oldObject.spec" }],
    });
    let later = serde_json::from_value(later).unwrap();
    let webhooks = case.webhook.as_mut().unwrap().webhooks.as_mut();
    webhooks.unwrap().push(later);
    assert_eq!(asked(&case, "shop"), [Ok(true), Ok(false)]);
    assert_eq!(asked(&case, "other"), [Ok(false), Ok(true)]);
}
