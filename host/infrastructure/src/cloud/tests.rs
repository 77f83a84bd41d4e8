use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use podloom_api::CloudObject;
use podloom_engine::testing::{alone, context};
use podloom_scripted::{scripted, status};
use serde_json::{Value, json};

use super::Clouds;
use crate::fixtures::{
    Asked, IN_USE, caches, cloud, cluster, known, live, manager, metas, provider, resources, secret,
};
use crate::im::{Answer, Call, FailureKind, Target};
use crate::probed::{InNamespaces, Parts, ProbedKind, Probes};
use crate::said::Sayings;
use crate::secrets::Secrets;

const TEAM: Option<&str> = Some("team");

/// A provider whose status says whether it is ready.
fn provider_that_is(ready: &str) -> Value {
    let mut provider = provider(TEAM, "https://im.example.com");
    provider["status"] = json!({ "conditions": [{
        "type": "Ready", "status": ready, "reason": "Unreachable", "message": "no answer",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    provider
}

/// What came of a pass over a Cloud.
struct Passed {
    cloud: Value,
    asked: Asked,
}

impl Passed {
    fn condition(&self, type_: &str) -> (&str, &str) {
        let conditions = self.cloud["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|it| it["type"] == type_).unwrap();
        (
            found["status"].as_str().unwrap(),
            found["reason"].as_str().unwrap(),
        )
    }
}

async fn pass(
    providers: &[Value],
    secrets: &'static [&'static str],
    answer: impl Fn(&Target, &Call) -> Result<Answer, FailureKind> + Send + Sync + 'static,
) -> Passed {
    let mut cloud = cloud(TEAM, "InfrastructureProvider");
    cloud["metadata"]["finalizers"] = json!([]);
    let caches = caches(&[cloud.clone()], providers);
    let stored = Arc::new(Mutex::new(cloud));
    let api = Arc::clone(&stored);
    let (client, _) = scripted(move |request, body| {
        let last = request.rsplit('/').next().unwrap_or_default();
        match (request.split(' ').next(), last) {
            (Some("GET"), name) if secrets.contains(&name) => (
                200,
                secret("team", name, &[("password", "p"), ("value", "v")]),
            ),
            (Some("GET"), _) => (404, status(404, "NotFound", "there is none")),
            _ => {
                let mut cloud = api.lock().unwrap();
                json_patch::merge(&mut cloud, &body);
                (200, cloud.clone())
            }
        }
    });
    let (im, asked) = manager(answer);
    let known = known(&[cluster(&json!({}))], caches.clone());
    let kind = ProbedKind::<Clouds, InNamespaces> {
        parts: Parts {
            resource: resources().clouds.namespaced,
            caches,
            live: live(&client, &known),
            known,
            metas: metas(&[]),
            secrets: Secrets::new(client.clone()),
            im,
            probes: Probes::default(),
            said: Sayings::default(),
        },
        level: PhantomData,
    };
    let resource = Arc::clone(&kind.parts.resource);
    let engine = alone(Arc::new(kind), &resource, context(client));
    let cloud = stored.lock().unwrap().clone();
    let cloud: CloudObject = serde_json::from_value(cloud).unwrap();
    engine.reconcile(&cloud).await.unwrap();
    let cloud = stored.lock().unwrap().clone();
    Passed { cloud, asked }
}

const BOTH: &[&str] = &["account", "cloud"];

fn has_quotas(_: &Target, call: &Call) -> Result<Answer, FailureKind> {
    assert!(matches!(call, Call::Quotas { cloud } if cloud == "cloud-dummy"));
    Ok(Answer::Quotas)
}

#[tokio::test]
async fn a_cloud_with_everything_is_online_and_kept_for_its_cluster() {
    let passed = pass(&[provider_that_is("True")], BOTH, has_quotas).await;
    assert_eq!(passed.asked.all(), ["quotas"]);
    assert_eq!(passed.cloud["status"]["state"], "ONLINE");
    assert_eq!(passed.cloud["status"]["clusters"], 1);
    assert_eq!(passed.cloud["metadata"]["finalizers"], json!([IN_USE]));
    for type_ in ["Resolved", "Reachable", "Ready"] {
        assert_eq!(passed.condition(type_).0, "True", "{type_}");
    }
}

#[tokio::test]
async fn a_cloud_whose_provider_is_not_ready_is_offline_and_not_asked() {
    let passed = pass(&[provider_that_is("False")], BOTH, has_quotas).await;
    assert!(passed.asked.all().is_empty());
    assert_eq!(passed.cloud["status"]["state"], "OFFLINE");
    assert_eq!(passed.condition("Resolved").0, "True");
    assert_eq!(passed.condition("Ready"), ("False", "ProviderNotReady"));
}

#[tokio::test]
async fn what_is_missing_is_the_reason() {
    let passed = pass(&[], BOTH, has_quotas).await;
    assert_eq!(passed.condition("Resolved"), ("False", "ProviderNotFound"));
    let passed = pass(&[provider_that_is("True")], &["account"], has_quotas).await;
    assert_eq!(passed.condition("Resolved"), ("False", "SecretNotFound"));
    assert_eq!(passed.condition("Ready"), ("False", "SecretNotFound"));
    assert_eq!(passed.cloud["status"]["state"], "OFFLINE");
}

#[tokio::test]
async fn a_cloud_that_refuses_is_offline_and_still_ready() {
    let passed = pass(&[provider_that_is("True")], BOTH, |_, _| {
        Err(FailureKind::Refused)
    })
    .await;
    assert_eq!(passed.condition("Reachable").0, "False");
    assert_eq!(passed.condition("Ready").0, "True");
    assert_eq!(passed.cloud["status"]["state"], "OFFLINE");
}

#[tokio::test]
async fn an_answer_about_the_server_says_nothing_about_the_cloud() {
    let passed = pass(&[provider_that_is("True")], BOTH, |_, _| {
        Err(FailureKind::Limited)
    })
    .await;
    assert_eq!(passed.condition("Reachable").0, "Unknown");
    assert_eq!(passed.cloud["status"]["state"], "ONLINE");
}
