use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_mutation::{
    CallFailure, MutatedPod, NamespaceMetadata, Note, PluginOutcome, PluginRun, PodMutator,
    PodRejection, PodRequest, RejectedPod,
};
use podloom_turns::{Limits, Lines};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{CONTAINERS, Namespaces, PodWebhook};
use crate::PeerTurns;
use crate::metrics::{Outcome, WebhookMetrics};
use crate::review::{Answer, ReviewRequest, Tenant, Unavailable, parse};

const DIGEST: &str = "sha256:this";

/// A chain that answers always the same, and remembers what it was asked.
struct Chain {
    result: Result<(Option<&'static str>, Vec<PluginRun>), RejectedPod>,
    asked: Mutex<Vec<(Value, PodRequest)>>,
    writes_labels: bool,
    takes_updates: bool,
}

impl PodMutator for Chain {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        let mut asked = self.asked.lock().expect("no test panics with it");
        asked.push((pod.clone(), request));
        let result = self.result.clone();
        async move {
            let (patch, runs) = result?;
            Ok(MutatedPod {
                patch: patch.map(str::to_owned),
                chain: Some(DIGEST.to_owned()),
                runs,
                ..MutatedPod::untouched(pod)
            })
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        Some(DIGEST.to_owned())
    }

    fn takes_updates(&self) -> bool {
        self.takes_updates
    }

    fn writes_labels(&self) -> bool {
        self.writes_labels
    }
}

struct Known;

impl Namespaces for Known {
    fn of<'a>(
        &'a self,
        (_, name): &'a Tenant,
        _: Instant,
    ) -> BoxFuture<'a, Option<NamespaceMetadata>> {
        if name == "unread" {
            return async { None }.boxed();
        }
        let labels = BTreeMap::from([("team".to_owned(), name.to_owned())]);
        let annotations = BTreeMap::new();
        async move {
            Some(NamespaceMetadata {
                labels,
                annotations,
            })
        }
        .boxed()
    }
}

fn run(outcome: PluginOutcome, notes: &[&str]) -> PluginRun {
    PluginRun {
        plugin: "sidecar".to_owned(),
        version: "1".to_owned(),
        outcome,
        notes: notes.iter().copied().map(Note::normal).collect(),
        ..PluginRun::default()
    }
}

fn rejected(rejection: PodRejection, runs: Vec<PluginRun>) -> RejectedPod {
    RejectedPod { rejection, runs }
}

/// A review of a pod, and of what the test says of it.
fn review(request: &Value, metadata: &Value) -> ReviewRequest {
    let mut whole = json!({
        "uid": "1", "operation": "CREATE", "namespace": "team-a", "userInfo": { "username": "alice" },
        "kind": { "version": "v1", "kind": "Pod" },
        "object": { "metadata": metadata, "spec": { "containers": [] } },
    });
    for (field, value) in request.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    let body =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole });
    parse(&body.to_string()).expect("it is a review")
}

fn turns() -> PeerTurns {
    PeerTurns::new(Limits::for_each(1, 8))
}

struct Asked {
    answer: Result<(Answer, Outcome), Unavailable>,
    /// What the chain was asked.
    asked: Vec<(Value, PodRequest)>,
    metrics: String,
}

async fn ask(
    review: ReviewRequest,
    result: Result<(Option<&'static str>, Vec<PluginRun>), RejectedPod>,
) -> Asked {
    ask_chain(review, of(result)).await
}

fn of(result: Result<(Option<&'static str>, Vec<PluginRun>), RejectedPod>) -> Chain {
    Chain {
        result,
        asked: Mutex::default(),
        writes_labels: true,
        takes_updates: true,
    }
}

async fn ask_chain(review: ReviewRequest, chain: Chain) -> Asked {
    let chain = Arc::new(chain);
    let webhook = PodWebhook {
        mutator: Arc::clone(&chain) as Arc<dyn PodMutator>,
        namespaces: Arc::new(Known),
        owners: crate::owners::of_tests(),
        trusted: vec!["system:serviceaccount:podloom-system:podloom".to_owned()],
        turns: turns(),
        lines: Lines::default(),
    };
    let mut registry = Registry::default();
    let recorded = WebhookMetrics::register(&mut registry);
    let deadline = Instant::now() + Duration::from_secs(5);
    let answer = webhook.answer(review, deadline, &recorded).await;
    let asked = chain.asked.lock().expect("no test panics with it").clone();
    let mut metrics = String::new();
    text::encode(&mut metrics, &registry).expect("text");
    Asked {
        answer,
        asked,
        metrics,
    }
}

const UNCHANGED: Result<(Option<&'static str>, Vec<PluginRun>), RejectedPod> =
    Ok((Some("[]"), Vec::new()));

#[tokio::test]
async fn plugins_see_the_pod_as_it_came_and_its_namespace() {
    let metadata =
        json!({ "generateName": "web-", "labels": { "app": "web" }, "annotations": { "a": "b" } });
    let asked = ask(review(&json!({ "dryRun": true }), &metadata), UNCHANGED)
        .await
        .asked;
    let [(pod, request)] = asked.as_slice() else {
        panic!("the chain was asked {} times", asked.len());
    };
    assert_eq!(
        (&pod["kind"], &pod["apiVersion"]),
        (&json!("Pod"), &json!("v1"))
    );
    assert_eq!(
        (
            request.kind,
            request.name.as_str(),
            request.namespace.as_str()
        ),
        ("Pod", "", "team-a")
    );
    assert_eq!(
        (&request.labels["app"], &request.annotations["a"]),
        (&"web".to_owned(), &"b".to_owned())
    );
    assert_eq!(request.namespace_labels["team"], "team-a");
    assert!(request.dry_run && request.wants_patch && request.deadline.is_some());
    assert!(request.selector.is_empty(), "nobody owns it");
}

#[tokio::test]
async fn a_controller_that_anybody_may_have_written_protects_nothing_and_is_noted() {
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1", "controller": true });
    let metadata = json!({ "labels": { "app": "web" }, "ownerReferences": [owner] });
    let Asked {
        answer,
        asked,
        metrics,
    } = ask(review(&json!({}), &metadata), UNCHANGED).await;
    assert!(metrics.contains("webhook_unknown_owners_total 1\n"));
    assert!(asked[0].1.selector.is_empty());
    let (answer, _) = answer.expect("an answer");
    let note = "no label of this pod is protected: its controller is ConfigMap a, whose kind --pod-owner does not name";
    assert_eq!(answer.warnings, [note]);
}

#[tokio::test]
async fn a_chain_that_writes_no_labels_knows_that_nobody_asked_for_the_owner() {
    let owner = json!({ "kind": "ReplicaSet", "controller": true });
    let owned = json!({ "labels": { "app": "web" }, "ownerReferences": [owner] });
    for (metadata, is_unread) in [(owned, true), (json!({}), false)] {
        let chain = Chain {
            writes_labels: false,
            ..of(UNCHANGED)
        };
        let asked = ask_chain(review(&json!({}), &metadata), chain).await.asked;
        assert_eq!(asked[0].1.is_selector_unread, is_unread);
    }
    let overdue = PodRejection::Overdue("another chain".to_owned());
    let rejected = Err(rejected(overdue, Vec::new()));
    let answer = ask(review(&json!({}), &json!({})), rejected).await.answer;
    assert!(matches!(answer, Err(Unavailable::Busy)));
}

#[tokio::test]
async fn what_is_no_new_pod_and_changes_none_does_not_pass_the_chain() {
    let same = json!({ "metadata": {}, "spec": { "containers": [] } });
    let skipped = [
        // Only its metadata changes.
        (
            json!({ "operation": "UPDATE", "oldObject": same }),
            json!({ "labels": { "a": "b" } }),
        ),
        (
            json!({ "operation": "UPDATE", "subResource": "status", "oldObject": { "spec": { "tolerations": [] } } }),
            json!({}),
        ),
        (json!({ "operation": "DELETE", "object": null }), json!({})),
        (
            json!({ "operation": "CONNECT", "subResource": "exec" }),
            json!({}),
        ),
        (json!({ "subResource": "ephemeralcontainers" }), json!({})),
        (
            json!({ "kind": { "group": "apps", "version": "v1", "kind": "Deployment" } }),
            json!({}),
        ),
        (
            json!({ "userInfo": { "username": "system:node:node-1" } }),
            json!({ "annotations": { "kubernetes.io/config.mirror": "abc" } }),
        ),
    ];
    for (request, metadata) in skipped {
        let Asked { answer, asked, .. } = ask(review(&request, &metadata), UNCHANGED).await;
        assert_eq!(
            answer.expect("it is admitted"),
            (Answer::admitted(), Outcome::Skipped)
        );
        assert!(asked.is_empty(), "{request} {metadata}");
    }
}

#[tokio::test]
async fn plugins_see_what_is_changed_in_a_pod_that_exists() {
    let pod = |image: &str, ephemeral: Value| json!({ "spec": { "containers": [{ "name": "a", "image": image }], "ephemeralContainers": ephemeral } });
    let old = pod("a:1", json!([]));
    for (sub_resource, new, change) in [
        ("", pod("a:2", json!([])), "/spec/containers/[name=a]/image"),
        (
            "ephemeralcontainers",
            pod("a:1", json!([{ "name": "debugger" }])),
            "/spec/ephemeralContainers/[name=debugger]",
        ),
    ] {
        let fields = json!({
            "operation": "UPDATE", "subResource": sub_resource, "object": new, "oldObject": old,
            // Who trusts this account trusts it with new pods.
            "userInfo": { "username": "system:serviceaccount:podloom-system:podloom" },
        });
        let asked = ask(review(&fields, &json!({})), UNCHANGED).await.asked;
        let later = asked[0].1.later.as_ref().expect("it is a later change");
        assert_eq!(later.changes, [change]);
        assert_eq!(asked[0].0["spec"], new["spec"]);
        let chain = Chain {
            takes_updates: false,
            ..of(UNCHANGED)
        };
        let asked = ask_chain(review(&fields, &json!({})), chain).await.asked;
        assert!(asked.is_empty(), "no plugin asks");
    }
}

#[tokio::test]
async fn only_a_trusted_account_can_say_that_a_pod_passed_this_chain() {
    let user = |name: &str| json!({ "userInfo": { "username": name } });
    let stamp = |digest: &str| json!({ "annotations": { "podloom.dev/chain": digest } });
    let operator = "system:serviceaccount:podloom-system:podloom";
    for (request, metadata, passes) in [
        (user(operator), stamp(DIGEST), true),
        (user(operator), stamp("sha256:another"), false),
        (user(operator), json!({}), false),
        (
            user("system:serviceaccount:team-a:podloom"),
            stamp(DIGEST),
            false,
        ),
        (user("alice"), stamp(DIGEST), false),
    ] {
        let asked = ask(review(&request, &metadata), UNCHANGED).await.asked;
        assert_eq!(asked.is_empty(), passes, "{request} {metadata}");
    }
}

/// A gate of the API server's policy is taken away from whatever may pass, and no plugin sees it.
#[tokio::test]
async fn the_gate_is_opened_for_each_pod_that_may_pass() {
    let opens = r#"[{"op":"remove","path":"/spec/schedulingGates"}]"#;
    let trusted =
        json!({ "userInfo": { "username": "system:serviceaccount:podloom-system:podloom" } });
    let stamped = json!({ "annotations": { "podloom.dev/chain": DIGEST } });
    for (request, metadata, passes) in [(trusted, stamped, true), (json!({}), json!({}), false)] {
        let mut review = review(&request, &metadata);
        review.object["spec"]["schedulingGates"] = json!([{ "name": "podloom.dev/chain" }]);
        let Asked { answer, asked, .. } = ask(review, UNCHANGED).await;
        let (answer, _) = answer.expect("an answer");
        assert_eq!(answer.patch.as_deref(), Some(opens), "{request}");
        assert_eq!(asked.is_empty(), passes);
        let sees_gate =
            |(pod, _): &(Value, PodRequest)| pod.pointer("/spec/schedulingGates").is_some();
        assert!(!asked.iter().any(sees_gate));
    }
}

#[tokio::test]
async fn notes_and_ignored_failures_are_warnings() {
    let runs = vec![
        run(
            PluginOutcome::Mutated,
            &["the user's container proxy stays"],
        ),
        run(
            PluginOutcome::Ignored(CallFailure::Reported("it ran for 1 s".to_owned())),
            &[],
        ),
    ];
    let patch = Some("[{}]");
    let (answer, outcome) = ask(review(&json!({}), &json!({})), Ok((patch, runs)))
        .await
        .answer
        .expect("an answer");
    assert_eq!(
        (answer.patch.as_deref(), outcome),
        (patch, Outcome::Mutated)
    );
    let expected = [
        "plugin sidecar failed and was ignored: it ran for 1 s",
        "sidecar: the user's container proxy stays",
    ];
    assert_eq!(answer.warnings, expected);
}

#[tokio::test]
async fn what_somebody_should_act_on_comes_first() {
    let mut last = run(PluginOutcome::Unchanged, &["a detail"]);
    last.notes.insert(0, Note::warning("privileged"));
    let runs = vec![run(PluginOutcome::Mutated, &["kept"; 20]), last];
    let (answer, _) = ask(review(&json!({}), &json!({})), Ok((None, runs)))
        .await
        .answer
        .expect("an answer");
    assert_eq!(answer.warnings[0], "sidecar: privileged");
    assert_eq!(answer.warnings.len(), 22);
}

#[tokio::test]
async fn an_unchanged_pod_has_no_patch() {
    let (answer, outcome) = ask(review(&json!({}), &json!({})), UNCHANGED)
        .await
        .answer
        .expect("an answer");
    assert_eq!((answer, outcome), (Answer::admitted(), Outcome::Admitted));
}

#[tokio::test]
async fn a_denial_and_a_failure_are_answers_and_a_missing_chain_is_none() {
    let asked = async |rejection, runs| {
        ask(
            review(&json!({}), &json!({})),
            Err(rejected(rejection, runs)),
        )
        .await
        .answer
    };
    let denied = PodRejection::Denied("hardening: no".to_owned());
    let (answer, outcome) = asked(
        denied,
        vec![run(PluginOutcome::Denied("no".to_owned()), &[])],
    )
    .await
    .expect("an answer");
    assert_eq!(
        (answer, outcome),
        (
            Answer::forbidden("hardening: no".to_owned()),
            Outcome::Denied
        )
    );
    let broken = || PodRejection::Broken("sidecar: it trapped".to_owned());
    let (answer, outcome) = asked(
        broken(),
        vec![run(
            PluginOutcome::Failed(CallFailure::Reported("it trapped".to_owned())),
            &[],
        )],
    )
    .await
    .expect("an answer");
    assert_eq!(
        (answer, outcome),
        (
            Answer::broken("plugin sidecar: it trapped".to_owned()),
            Outcome::Broken
        )
    );
    let unavailable = asked(broken(), Vec::new())
        .await
        .expect_err("no plugin ran");
    assert!(matches!(unavailable, Unavailable::NoChain(_)));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_its_turn_until_the_deadline_gets_no_answer() {
    let turns = turns();
    let _taken = turns.take(None, "team-a".to_owned()).await;
    let webhook = PodWebhook {
        mutator: Arc::new(of(UNCHANGED)),
        namespaces: Arc::new(Known),
        owners: crate::owners::of_tests(),
        trusted: Vec::new(),
        turns,
        lines: Lines::default(),
    };
    let metrics = WebhookMetrics::register(&mut Registry::default());
    let deadline = Instant::now() + Duration::from_secs(5);
    let answer = webhook
        .answer(review(&json!({}), &json!({})), deadline, &metrics)
        .await;
    assert!(matches!(answer, Err(Unavailable::Busy)));
}

#[tokio::test]
async fn a_mirror_pod_of_anybody_but_a_kubelet_passes_the_chain() {
    let mirror = json!({ "annotations": { "kubernetes.io/config.mirror": "abc" } });
    let asked = ask(review(&json!({}), &mirror), UNCHANGED).await.asked;
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_pod_whose_namespace_cannot_be_read_gets_no_answer_if_a_plugin_needs_it() {
    let review = review(&json!({ "namespace": "unread" }), &json!({}));
    let failed = PluginOutcome::Failed(CallFailure::Reported("it needs labels".to_owned()));
    let unread = PodRejection::Unread("sidecar: it needs labels".to_owned());
    let rejected = rejected(unread, vec![run(failed, &[])]);
    let Asked { answer, asked, .. } = ask(review.clone(), Err(rejected)).await;
    let expected = "unread: sidecar: it needs labels";
    assert!(matches!(answer, Err(Unavailable::Namespace(why)) if why == expected));
    assert!(asked[0].1.is_namespace_unread);
    let Asked { answer, .. } = ask(review, UNCHANGED).await;
    assert_eq!(answer.expect("no plugin needs it").1, Outcome::Admitted);
}

#[tokio::test]
async fn notes_of_a_denied_pod_are_shown_too() {
    let denied = PodRejection::Denied("hardening: no".to_owned());
    let runs = vec![
        run(
            PluginOutcome::Mutated,
            &["the user's container proxy stays"],
        ),
        run(PluginOutcome::Denied("no".to_owned()), &[]),
    ];
    let review = review(&json!({}), &json!({}));
    let (answer, _) = ask(review, Err(rejected(denied, runs)))
        .await
        .answer
        .expect("an answer");
    assert_eq!(
        answer.warnings,
        ["sidecar: the user's container proxy stays"]
    );
}

/// Seen: 86 KB with 3,000 containers, for which a plugin took most of a second.
#[tokio::test]
async fn a_pod_with_more_containers_than_any_node_runs_passes_no_plugin() {
    let with = |count: usize| {
        let lists = [count / 2, count - count / 2].map(|count| vec![json!({ "name": "a" }); count]);
        let spec = json!({ "containers": lists[0], "initContainers": lists[1] });
        review(
            &json!({ "object": { "metadata": {}, "spec": spec } }),
            &json!({}),
        )
    };
    let Asked { answer, asked, .. } = ask(with(CONTAINERS + 1), UNCHANGED).await;
    let (answer, outcome) = answer.expect("an answer");
    let denial = answer.denial.expect("a denial");
    assert_eq!((denial.code, outcome), (422, Outcome::Denied));
    assert_eq!(
        denial.message,
        "the pod has 1001 containers; at most 1000 pass the plugin chain"
    );
    assert!(asked.is_empty());
    assert_eq!(ask(with(CONTAINERS), UNCHANGED).await.asked.len(), 1);
}
