use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use podloom_api::InfrastructureProviderObject;
use podloom_engine::pass::Next;
use podloom_engine::testing::{alone, context};
use podloom_scripted::{Requests, scripted, status};
use serde_json::{Value, json};

use super::Providers;
use crate::fixtures::{
    Asked, IN_USE, OURS, caches, cloud, cluster, known, live, manager, metas, provider, resources,
    secret,
};
use crate::im::{Answer, Call, FailureKind, Target};
use crate::probed::{InNamespaces, Parts, ProbedKind, Probes};
use crate::said::Sayings;
use crate::secrets::Secrets;

const TEAM: Option<&str> = Some("team");
const URL: &str = "https://im.example.com";

/// The provider of these tests, and what is around it.
struct Scene {
    provider: Value,
    /// Clusters in the cache and in the API server.
    cached: Vec<Value>,
    stored: Vec<Value>,
    has_secret: bool,
}

impl Default for Scene {
    fn default() -> Self {
        let mut provider = provider(TEAM, URL);
        provider["metadata"]["finalizers"] = json!([]);
        Self {
            provider,
            cached: Vec::new(),
            stored: Vec::new(),
            has_secret: true,
        }
    }
}

/// What came of passes over a provider.
struct Passed {
    /// The provider as it is stored now.
    provider: Value,
    requests: Requests,
    asked: Asked,
    next: Next,
}

impl Passed {
    /// Status and reason of a condition.
    fn condition(&self, type_: &str) -> (&str, &str) {
        let conditions = self.provider["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|it| it["type"] == type_).unwrap();
        (
            found["status"].as_str().unwrap(),
            found["reason"].as_str().unwrap(),
        )
    }
}

type Answered = Result<Answer, FailureKind>;

fn works(_: &Target, call: &Call) -> Answered {
    match call {
        Call::Version => Ok(Answer::Version("2.0.0".to_owned())),
        _ => Ok(Answer::List(Vec::new())),
    }
}

/// Makes passes over the provider until nothing is left to do.
async fn pass(
    scene: Scene,
    passes: usize,
    answer: impl Fn(&Target, &Call) -> Answered + Send + Sync + 'static,
) -> Passed {
    let clouds = vec![cloud(TEAM, "InfrastructureProvider")];
    let caches = caches(&clouds, std::slice::from_ref(&scene.provider));
    let stored = Arc::new(Mutex::new(scene.provider.clone()));
    let (api, clusters) = (Arc::clone(&stored), scene.stored.clone());
    let (client, requests) = scripted(move |request, body| {
        let list = |items: &[Value]| (200, json!({ "metadata": {}, "items": items }));
        let last = request.rsplit('/').next().unwrap_or_default();
        match (request.split(' ').next(), last) {
            (Some("GET"), "clusters") => list(&clusters),
            (Some("GET"), "clouds") => list(&clouds),
            (Some("GET"), "account") if scene.has_secret => {
                (200, secret("team", "account", &[("password", "hunter2")]))
            }
            (Some("GET"), "account") => (404, status(404, "NotFound", "there is none")),
            (Some("PATCH"), "im" | "status") => {
                let mut provider = api.lock().unwrap();
                json_patch::merge(&mut provider, &body);
                (200, provider.clone())
            }
            _ => unreachable!("{request}"),
        }
    });
    let (im, asked) = manager(answer);
    let known = known(&scene.cached, caches.clone());
    let kind = ProbedKind::<Providers, InNamespaces> {
        parts: Parts {
            resource: resources().providers.namespaced,
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
    let mut next = Next::Change;
    for _ in 0..passes {
        let provider = stored.lock().unwrap().clone();
        let provider: InfrastructureProviderObject = serde_json::from_value(provider).unwrap();
        next = engine.reconcile(&provider).await.unwrap();
    }
    let provider = stored.lock().unwrap().clone();
    Passed {
        provider,
        requests,
        asked,
        next,
    }
}

#[tokio::test]
async fn a_provider_that_answers_is_ready_and_probed_once_an_interval() {
    let passed = pass(Scene::default(), 3, works).await;
    assert_eq!(passed.asked.all(), ["version", "list"]);
    assert_eq!(passed.provider["status"]["version"], "2.0.0");
    assert_eq!(passed.provider["status"]["clusters"], 0);
    assert_eq!(passed.condition("Ready"), ("True", "Ready"));
    let writes = passed.requests.made();
    let writes = writes.iter().filter(|it| it.starts_with("PATCH"));
    assert_eq!(writes.count(), 1);
    let Next::Within(wait) = passed.next else {
        unreachable!("{:?}", passed.next)
    };
    assert!((50..=66).contains(&wait.as_secs()), "{wait:?}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_asked_for_no_list() {
    let passed = pass(Scene::default(), 1, |_, _| Err(FailureKind::Unreachable)).await;
    assert_eq!(passed.asked.all(), ["version"]);
    assert_eq!(passed.condition("Reachable"), ("False", "Unreachable"));
    assert_eq!(passed.condition("Authenticated").0, "Unknown");
    assert_eq!(passed.condition("Ready"), ("False", "Unreachable"));
}

#[tokio::test]
async fn a_rejected_account_is_reachable_and_not_ready() {
    let passed = pass(Scene::default(), 1, |target, call| match call {
        Call::List => Err(FailureKind::CredentialsRejected),
        _ => works(target, call),
    });
    let passed = passed.await;
    assert_eq!(passed.condition("Reachable").0, "True");
    assert_eq!(
        passed.condition("Authenticated"),
        ("False", "CredentialsRejected")
    );
    assert_eq!(passed.condition("Ready"), ("False", "CredentialsRejected"));
}

#[tokio::test]
async fn a_missing_secret_is_the_reason() {
    let scene = Scene {
        has_secret: false,
        ..Scene::default()
    };
    let passed = pass(scene, 1, works).await;
    assert!(passed.asked.all().is_empty());
    assert_eq!(
        passed.condition("Authenticated"),
        ("False", "SecretNotFound")
    );
    assert_eq!(passed.condition("Ready"), ("False", "SecretNotFound"));
}

#[tokio::test]
async fn a_provider_of_a_clusters_cloud_is_kept_and_counts_it() {
    let scene = Scene {
        cached: vec![cluster(&json!({}))],
        ..Scene::default()
    };
    let passed = pass(scene, 1, works).await;
    assert_eq!(passed.provider["metadata"]["finalizers"], json!([IN_USE]));
    assert_eq!(passed.provider["status"]["clusters"], 1);
}

/// A provider that is being deleted, with our finalizer.
fn going() -> Value {
    let mut provider = provider(TEAM, URL);
    provider["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    provider
}

#[tokio::test]
async fn the_last_user_lets_a_deleted_provider_go() {
    let scene = Scene {
        provider: going(),
        ..Scene::default()
    };
    let passed = pass(scene, 1, works).await;
    assert_eq!(passed.provider["metadata"]["finalizers"], json!([]));
    assert!(passed.asked.all().is_empty());
}

#[tokio::test]
async fn a_cluster_that_only_the_api_server_knows_keeps_a_deleted_provider() {
    let scene = Scene {
        provider: going(),
        stored: vec![cluster(&json!({ "metadata": { "finalizers": [OURS] } }))],
        ..Scene::default()
    };
    let passed = pass(scene, 1, works).await;
    assert_eq!(passed.provider["metadata"]["finalizers"], json!([IN_USE]));
}

/// The one that is removed is not the one that Clusters saw.
#[tokio::test]
async fn a_provider_without_users_is_let_go_in_two_steps() {
    let scene = Scene {
        provider: provider(TEAM, URL),
        ..Scene::default()
    };
    let passed = pass(scene, 1, works).await;
    assert_eq!(passed.provider["metadata"]["finalizers"], json!([]));
    let made = passed.requests.made();
    let is_write = |it: &&String| it.ends_with("/im") && it.starts_with("PATCH");
    let is_list = |it: &&String| it.ends_with("/clouds");
    assert_eq!(made.iter().filter(is_write).count(), 2, "{made:?}");
    assert_eq!(made.iter().filter(is_list).count(), 2, "{made:?}");
}
