use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_mutation::{
    MutatedPod, NamespaceMetadata, Note, PluginRun, PodMutator, PodRejection, PodRequest,
    RejectedPod,
};
use podloom_turns::Limits;
use serde_json::{Value, json};

use super::{Template, WorkloadMode, WorkloadWebhook};
use crate::PeerTurns;
use crate::metrics::Outcome;
use crate::mutate::Namespaces;
use crate::review::{Answer, Tenant, Unavailable, parse};

/// A chain that denies the image `bad` and warns of `odd`.
#[derive(Default)]
struct Chain(Mutex<Vec<PodRequest>>);

impl PodMutator for Chain {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        self.0.lock().unwrap().push(request);
        let rejected = |rejection| {
            Err(RejectedPod {
                rejection,
                runs: Vec::new(),
            })
        };
        let result = match pod["image"].as_str() {
            Some("bad") => rejected(PodRejection::Denied("policy: not this image".to_owned())),
            Some("broken") => rejected(PodRejection::Broken("policy: it broke".to_owned())),
            Some("slow") => rejected(PodRejection::Overdue("policy".to_owned())),
            image => Ok(MutatedPod {
                runs: vec![PluginRun {
                    plugin: "policy".to_owned(),
                    notes: image
                        .filter(|it| *it == "odd")
                        .map(|_| Note::warning("this is odd"))
                        .into_iter()
                        .collect(),
                    ..PluginRun::default()
                }],
                ..MutatedPod::untouched(pod)
            }),
        };
        async move { result }.boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

struct Labelled;

impl Namespaces for Labelled {
    fn of<'a>(&'a self, _: &'a Tenant, _: Instant) -> BoxFuture<'a, Option<NamespaceMetadata>> {
        async { Some(NamespaceMetadata::nothing_but("shop")) }.boxed()
    }
}

/// Reviews a workload with pods of these images, and of these before. Returns how often the chain was asked, too.
async fn review(
    mode: WorkloadMode,
    fields: &Value,
    images: &[&str],
    before: &[&str],
) -> (Result<(Answer, Outcome), Unavailable>, usize) {
    let turns = || PeerTurns::new(Limits::for_each(1, 8));
    let chain = Arc::new(Chain::default());
    let webhook = WorkloadWebhook {
        mutator: Arc::clone(&chain) as Arc<dyn PodMutator>,
        namespaces: Arc::new(Labelled),
        templates: Arc::new(|(api_version, kind, namespace), object, most| {
            assert_eq!(
                (api_version, kind, namespace),
                ("apps/v1", "Deployment", "shop")
            );
            let images = object["images"].as_array().into_iter().flatten();
            let template = |(index, image): (usize, &Value)| Template {
                field: format!("spec.templates[{index}]"),
                pod: json!({ "image": image }),
                request: PodRequest::default(),
            };
            images.take(most).enumerate().map(template).collect()
        }),
        mode,
        tries: turns(),
        turns: turns(),
    };
    let mut request = json!({
        "uid": "1", "operation": "UPDATE", "namespace": "shop",
        "kind": { "group": "apps", "version": "v1", "kind": "Deployment" },
        "object": { "images": images }, "oldObject": { "images": before },
    });
    for (field, value) in fields.as_object().unwrap() {
        request[field] = value.clone();
    }
    let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    let review = parse(&body.to_string()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    let answer = webhook.answer(review, deadline).await;
    let asked = chain.0.lock().unwrap();
    assert!(
        asked
            .iter()
            .all(|it| it.dry_run && it.namespace_labels.len() == 1)
    );
    (answer, asked.len())
}

#[tokio::test]
async fn what_the_chain_will_deny_is_a_warning_or_a_denial() {
    let denial =
        "spec.templates[1]: pods of this Deployment will be denied: policy: not this image";
    let images = ["good", "bad", "odd"];
    let (answer, _) = review(WorkloadMode::Warn, &json!({}), &images, &[]).await;
    let (answer, outcome) = answer.unwrap();
    let odd = "spec.templates[2]: pods of this Deployment: policy: this is odd";
    assert_eq!(
        (answer.denial, answer.warnings.as_slice()),
        (None, [denial, odd].map(str::to_owned).as_slice())
    );
    assert_eq!(outcome, Outcome::Admitted);
    let (answer, _) = review(WorkloadMode::Deny, &json!({}), &images, &[]).await;
    let (answer, outcome) = answer.unwrap();
    let denied = answer.denial.unwrap();
    assert_eq!((denied.code, denied.message.as_str()), (403, denial));
    assert_eq!(
        (answer.warnings, outcome),
        (vec![odd.to_owned()], Outcome::Denied)
    );
}

#[tokio::test]
async fn only_templates_that_changed_are_tried() {
    let tried = async |fields: Value, images: &[&str], before: &[&str]| {
        review(WorkloadMode::Deny, &fields, images, before).await.1
    };
    assert_eq!(tried(json!({}), &["bad", "b"], &["bad", "a"]).await, 1);
    assert_eq!(tried(json!({}), &["bad"], &["bad"]).await, 0);
    let created = json!({ "operation": "CREATE", "oldObject": null });
    assert_eq!(tried(created, &["a"], &[]).await, 1);
    assert_eq!(
        tried(json!({ "operation": "DELETE" }), &["a"], &[]).await,
        0
    );
    assert_eq!(
        tried(json!({ "subResource": "scale" }), &["a"], &[]).await,
        0
    );
    let of_deployment = json!({ "object": {
        "images": ["a"], "metadata": { "ownerReferences": [{ "controller": true }] },
    } });
    assert_eq!(
        tried(of_deployment, &[], &[]).await,
        0,
        "its Deployment was reviewed"
    );
    assert_eq!(tried(json!({}), &["a"; 20], &[]).await, 8);
}

/// Its pods are reviewed anyway.
#[tokio::test]
async fn a_chain_that_cannot_say_it_fails_no_workload() {
    let (answer, _) = review(WorkloadMode::Deny, &json!({}), &["broken"], &[]).await;
    assert_eq!(answer.unwrap(), (Answer::admitted(), Outcome::Admitted));
    let (answer, _) = review(WorkloadMode::Deny, &json!({}), &["slow"], &[]).await;
    assert!(matches!(answer, Err(Unavailable::Busy)));
}
