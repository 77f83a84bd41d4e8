use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use podloom_api::TunnelClassObject;
use podloom_cleaner::{CleanerSettings, CleanerValidator};
use podloom_controllers::AdmissionCaches;
use podloom_engine::blocking::BlockingThreads;
use podloom_mutation::{
    CallFailure, MutatedPod, NamespaceMetadata, PluginOutcome, PluginRun, PodMutator, PodRejection,
    PodRequest, RejectedPod,
};
use podloom_turns::Limits;
use serde_json::{Value, json};

use super::{ObjectWebhook, ROWS};
use crate::PeerTurns;
use crate::metrics::Outcome;
use crate::mutate::Namespaces;
use crate::review::{Answer, Tenant, parse};

mod cleaner;
mod infrastructure;
mod portal;

/// A chain that decides by the image of the first container: `denied-…`, `failing-…`, `unloaded-…`, `slow-…`, and all others pass.
#[derive(Default)]
struct Chain(Mutex<Vec<PodRequest>>);

impl PodMutator for Chain {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        self.0.lock().expect("no test panics with it").push(request);
        let image = pod["spec"]["containers"][0]["image"].as_str();
        let image = image.unwrap_or_default().to_owned();
        async move {
            let run = |outcome| {
                vec![PluginRun {
                    plugin: "hardening".to_owned(),
                    version: "1".to_owned(),
                    outcome,
                    ..PluginRun::default()
                }]
            };
            let text = || format!("not {image}");
            match image.split('-').next() {
                Some("denied") => Err(RejectedPod {
                    rejection: PodRejection::Denied(format!("hardening: {}", text())),
                    runs: run(PluginOutcome::Denied(text())),
                }),
                Some("failing") => Err(RejectedPod {
                    rejection: PodRejection::Broken(format!("hardening: {}", text())),
                    runs: run(PluginOutcome::Failed(CallFailure::Reported(text()))),
                }),
                Some("unloaded") => {
                    Err(PodRejection::Broken("no plugin chain is loaded".to_owned()).into())
                }
                Some("slow") => future::pending().await,
                _ => Ok(MutatedPod::untouched(pod)),
            }
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

struct Known;

impl Namespaces for Known {
    fn of<'a>(
        &'a self,
        (_, name): &'a Tenant,
        _: Instant,
    ) -> BoxFuture<'a, Option<NamespaceMetadata>> {
        let labels = [("team".to_owned(), name.to_owned())].into();
        future::ready(Some(NamespaceMetadata {
            labels,
            ..NamespaceMetadata::default()
        }))
        .boxed()
    }
}

fn settings() -> CleanerSettings {
    CleanerSettings {
        excluded_namespaces: ["kube-system".to_owned()].into(),
        ..CleanerSettings::default()
    }
}

fn config(browsers: &Value) -> Value {
    json!({ "metadata": { "name": "a", "namespace": "team-a" }, "spec": { "browsers": browsers } })
}

fn chrome(images: &[(&str, &str)]) -> Value {
    let versions: serde_json::Map<String, Value> = images
        .iter()
        .map(|&(version, image)| (version.to_owned(), json!({ "image": image })))
        .collect();
    config(&json!({ "chrome": versions }))
}

struct Asked {
    answer: Answer,
    outcome: Outcome,
    requests: Vec<PodRequest>,
}

/// Sends a review to the row of a plural.
async fn ask(plural: &str, request: &Value) -> Asked {
    ask_with(plural, request, Vec::new()).await
}

/// Sends a review to the row of a plural, in a cluster with these TunnelClasses.
async fn ask_with(plural: &str, request: &Value, classes: Vec<TunnelClassObject>) -> Asked {
    let chain = Arc::new(Chain::default());
    let webhook = webhook(&chain, classes);
    let (answer, outcome) = ask_within(&webhook, plural, request, Duration::from_secs(2)).await;
    let requests = chain.0.lock().expect("no test panics with it").clone();
    Asked {
        answer,
        outcome,
        requests,
    }
}

fn turns() -> PeerTurns {
    PeerTurns::new(Limits::for_each(1, 8))
}

fn webhook(chain: &Arc<Chain>, classes: Vec<TunnelClassObject>) -> ObjectWebhook {
    ObjectWebhook {
        mutator: Arc::clone(chain) as Arc<dyn PodMutator>,
        namespaces: Arc::new(Known),
        caches: AdmissionCaches::of([], classes, []),
        blocking: BlockingThreads::new(),
        checks: turns(),
        tries: turns(),
        turns: turns(),
        cleaners: CleanerValidator::new(settings(), 1),
    }
}

/// Sends a review to the row of a plural, or of a whole path, with so much time.
async fn ask_within(
    webhook: &ObjectWebhook,
    plural: &str,
    request: &Value,
    time: Duration,
) -> (Answer, Outcome) {
    let mut whole = json!({
        "uid": "1", "operation": "CREATE", "namespace": "team-a",
        "kind": { "group": "selenosis.io", "version": "v1", "kind": "" },
    });
    for (field, value) in request.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    let body =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole });
    let review = parse(&body.to_string()).expect("it is a review");
    let endpoint = match plural.contains('/') {
        true => plural.to_owned(),
        false => format!("validate/{plural}"),
    };
    let row = ROWS.iter().find(|row| row.0 == endpoint);
    let (_, check) = row.expect("the kind has a row");
    webhook.answer(*check, review, Instant::now() + time).await
}

/// Checks the denial and the warnings of a BrowserConfig; with an old one, of its update.
#[track_caller]
fn check(asked: &Asked, denial: Option<(u16, &str)>, warnings: &[&str]) {
    let denied = asked.answer.denial.as_ref();
    let denied = denied.map(|denial| (denial.code, denial.message.as_str()));
    assert_eq!(denied, denial);
    assert_eq!(asked.answer.warnings, warnings);
    let expected = match denial {
        Some(_) => Outcome::Denied,
        None => Outcome::Admitted,
    };
    assert_eq!(asked.outcome, expected);
}

async fn create(new: Value) -> Asked {
    ask("browserconfigs", &json!({ "object": new })).await
}

async fn update(old: Value, new: Value) -> Asked {
    let review = json!({ "operation": "UPDATE", "object": new, "oldObject": old });
    ask("browserconfigs", &review).await
}

#[tokio::test]
async fn a_browser_that_nothing_serves_is_admitted_with_a_warning() {
    let browser = json!({ "metadata": { "name": "a" }, "spec": { "browserName": "chrome", "browserVersion": "1" } });
    let asked = ask("browsers", &json!({ "object": browser })).await;
    check(&asked, None, &["the namespace has no BrowserConfig"]);
}

#[tokio::test]
async fn a_new_browser_gets_the_finalizer_and_labels_that_it_lacks() {
    let spec = json!({ "browserName": "chrome", "browserVersion": "1" });
    let patch = async |metadata: Value, operation: &str| {
        let object = json!({ "metadata": metadata, "spec": spec });
        let review = json!({ "operation": operation, "object": object, "oldObject": object });
        let asked = ask("mutate/browsers", &review).await;
        let patch = asked.answer.patch.unwrap_or_else(|| "null".to_owned());
        (serde_json::from_str(&patch).unwrap(), asked.outcome)
    };
    let finalizer = "browserpod.selenosis.io/finalizer";
    let labels = json!({
        "selenosis.io/browser": "a", "selenosis.io/browser.name": "chrome", "selenosis.io/browser.version": "1"
    });
    let all = json!([
        { "op": "add", "path": "/metadata/finalizers", "value": [finalizer] },
        { "op": "add", "path": "/metadata/labels", "value": labels },
    ]);
    let bare = json!({ "name": "a" });
    assert_eq!(patch(bare.clone(), "CREATE").await, (all, Outcome::Mutated));
    // Nothing of its own is lost.
    let own = json!({ "name": "a", "finalizers": ["b/c"], "labels": {
        "d": "e", "selenosis.io/browser": "a", "selenosis.io/browser.version": "1"
    } });
    let rest = json!([
        { "op": "add", "path": "/metadata/finalizers", "value": ["b/c", finalizer] },
        { "op": "add", "path": "/metadata/labels/selenosis.io~1browser.name", "value": "chrome" },
    ]);
    assert_eq!(patch(own, "CREATE").await, (rest, Outcome::Mutated));
    let marked = json!({ "name": "a", "finalizers": [finalizer], "labels": labels });
    for (metadata, operation) in [
        (json!({ "generateName": "a" }), "CREATE"),
        (marked, "CREATE"),
        (bare, "UPDATE"),
    ] {
        let expected = (Value::Null, Outcome::Admitted);
        assert_eq!(patch(metadata, operation).await, expected);
    }
}

#[tokio::test]
async fn a_browser_with_options_that_nothing_reads_is_refused() {
    let browser = json!({
        "metadata": { "name": "a", "annotations": { "selenosis.io/options": "[]" } },
        "spec": { "browserName": "chrome", "browserVersion": "1" },
    });
    let asked = ask("browsers", &json!({ "object": browser })).await;
    let message = r#"metadata.annotations["selenosis.io/options"]: annotation selenosis.io/options: the whole is a list, use an object"#;
    check(
        &asked,
        Some((422, message)),
        &["the namespace has no BrowserConfig"],
    );
}

#[tokio::test]
async fn a_config_whose_pods_pass_is_admitted_and_plugins_see_a_dry_run() {
    let asked = create(chrome(&[("1", "a"), ("2", "b")])).await;
    check(&asked, None, &[]);
    assert_eq!(asked.requests.len(), 2);
    for request in asked.requests {
        assert!(request.dry_run && request.deadline.is_some());
        assert_eq!(
            (request.kind, request.namespace.as_str()),
            ("Browser", "team-a")
        );
        assert_eq!(request.namespace_labels["team"], "team-a");
    }
}

#[tokio::test]
async fn a_denial_refuses_with_the_field_and_the_plugin_and_a_failure_warns() {
    let new = chrome(&[
        ("1.0", "denied-a"),
        ("2", "failing-a"),
        ("3", "denied-b"),
        ("4", "denied-a"),
    ]);
    let message = r#"spec.browsers.chrome: chrome 1.0, chrome 4: plugin hardening denies its pod: not denied-a; spec.browsers.chrome.3: plugin hardening denies its pod: not denied-b"#;
    // Equal versions are tried once, so they differ here.
    let mut new = new;
    new["spec"]["browsers"]["chrome"]["4"]["workingDir"] = json!("/");
    check(
        &create(new).await,
        Some((403, message)),
        &["spec.browsers.chrome.2: plugin hardening failed on its pod: not failing-a"],
    );
}

#[tokio::test]
async fn a_mistake_of_the_config_and_a_denial_are_told_together() {
    let mut new = chrome(&[("1", "denied-a"), ("2", "a")]);
    new["spec"]["browsers"]["chrome"]["2"]["sidecars"] =
        json!([{ "name": "browser", "image": "b" }]);
    let message = "spec.browsers.chrome.2: a sidecar or init container is called browser, rename it: the browser container has that name; spec.browsers.chrome.1: plugin hardening denies its pod: not denied-a";
    check(&create(new).await, Some((422, message)), &[]);
}

#[tokio::test]
async fn without_a_chain_one_warning_says_so() {
    let asked = create(chrome(&[("1", "unloaded-a"), ("2", "unloaded-b")])).await;
    check(
        &asked,
        None,
        &["spec: its pods were not tried on the chain: no plugin chain is loaded"],
    );
    assert_eq!(asked.requests.len(), 1);
}

#[tokio::test]
async fn what_was_denied_before_is_only_warned_of() {
    let old = chrome(&[("1", "denied-a"), ("2", "denied-a"), ("3", "a")]);
    let new = chrome(&[("1", "denied-a"), ("2", "denied-b"), ("3", "b")]);
    check(
        &update(old.clone(), new).await,
        None,
        &[
            "spec.browsers.chrome.1: plugin hardening denies its pod: not denied-a",
            "spec.browsers.chrome.2: plugin hardening denies its pod: not denied-b",
        ],
    );
    let message = "spec.browsers.chrome.3: plugin hardening denies its pod: not denied-b";
    let new = chrome(&[("3", "denied-b")]);
    check(&update(old, new).await, Some((403, message)), &[]);
}

#[tokio::test]
async fn a_repair_that_a_plugin_denies_is_refused() {
    let mut old = chrome(&[("1", "a")]);
    old["spec"]["browsers"]["chrome"]["1"]["sidecars"] =
        json!([{ "name": "browser", "image": "b" }]);
    let message = "spec.browsers.chrome.1: plugin hardening denies its pod: not denied-a";
    let asked = update(old, chrome(&[("1", "denied-a")])).await;
    check(&asked, Some((403, message)), &[]);
}

#[tokio::test]
async fn old_pods_are_tried_only_after_a_denial() {
    let old = chrome(&[("1", "a"), ("2", "b")]);
    let asked = update(old, chrome(&[("1", "c"), ("2", "failing-a")])).await;
    assert_eq!(asked.requests.len(), 2);
}

#[tokio::test]
async fn the_namespace_is_that_of_the_review() {
    let mut new = chrome(&[("1", "a")]);
    new["metadata"]["namespace"] = json!("team-b");
    let asked = create(new).await;
    assert_eq!(asked.requests[0].namespace, "team-a");
    assert_eq!(asked.requests[0].namespace_labels["team"], "team-a");
}

#[tokio::test]
async fn an_update_of_what_our_types_cannot_hold_is_never_refused() {
    let old = config(&json!({ "chrome": { "1": { "image": 1 } } }));
    check(
        &update(old, chrome(&[("1", "denied-a")])).await,
        None,
        &["spec.browsers.chrome.1: plugin hardening denies its pod: not denied-a"],
    );
}

#[tokio::test]
async fn metadata_and_objects_that_are_being_deleted_pass_without_a_look() {
    let old = chrome(&[("1", "denied-a")]);
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["a.example/b"]);
    let asked = update(old.clone(), new).await;
    check(&asked, None, &[]);
    assert_eq!(asked.requests.len(), 0);
    let mut new = chrome(&[("1", "denied-b"), ("2", "denied-b")]);
    new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(&update(old, new).await, None, &[]);
}

#[tokio::test]
async fn a_chain_that_takes_too_long_costs_a_warning() {
    let began = Instant::now();
    let asked = create(chrome(&[("1", "a"), ("2", "slow-a"), ("3", "slow-b")])).await;
    check(
        &asked,
        None,
        &["spec: 2 versions were not tried on the chain: there was not enough time"],
    );
    assert!(began.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn of_many_versions_some_are_tried() {
    let images: Vec<(String, String)> = (0..40)
        .map(|number| (format!("v{number:02}"), format!("image-{number}")))
        .collect();
    let images: Vec<(&str, &str)> = images
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let asked = create(chrome(&images)).await;
    check(
        &asked,
        None,
        &["spec: 8 versions were not tried on the chain: they are too many or too large"],
    );
    assert_eq!(asked.requests.len(), 32);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_left_to_the_api_server() {
    for plural in [
        "browsers",
        "browserconfigs",
        "portalexposes",
        "tunnelclasses",
        "clusters",
        "clouds",
        "globalclouds",
        "infrastructureproviders",
        "globalinfrastructureproviders",
        "cleaners",
    ] {
        for object in [
            Value::Null,
            json!([]),
            json!({ "spec": 1 }),
            json!({ "metadata": { "labels": "hunter2" } }),
            json!({ "spec": "hunter2" }),
        ] {
            let asked = ask(plural, &json!({ "object": object })).await;
            assert_eq!(
                (asked.answer.denial, asked.outcome),
                (None, Outcome::Admitted)
            );
            let warning = &asked.answer.warnings[0];
            let part = match object.get("metadata") {
                Some(_) => "metadata",
                None => "spec",
            };
            assert_eq!(
                *warning,
                format!(
                    "not checked, since {part} cannot be read: a field is missing or has the wrong type"
                )
            );
        }
    }
}

#[tokio::test]
async fn deletions_and_subresources_are_not_looked_at() {
    let config = chrome(&[("1", "denied-a")]);
    for request in [
        json!({ "operation": "DELETE", "oldObject": config }),
        json!({ "operation": "UPDATE", "subResource": "status", "object": config }),
    ] {
        let asked = ask("browserconfigs", &request).await;
        assert_eq!(
            (asked.answer, asked.outcome),
            (Answer::admitted(), Outcome::Skipped)
        );
    }
}
