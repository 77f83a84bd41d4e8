use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::ApiResource;
use podloom_api::{BrowserObject, SelenosisApi, SelenosisKind};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::kind::{Kind, Source};
use podloom_engine::metrics::Objects;
use podloom_engine::namespaces::{self, Namespaces};
use podloom_engine::testing::context;
use podloom_mutation::{MutatedPod, PodMutator, PodRequest, RejectedPod};
use podloom_scripted::{client, status};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{BrowserKind, Caches, Resources};
use crate::config::BrowserConfigKind;
use crate::memory::Memory;
use crate::metrics::BrowserMetrics;
use crate::pod::SeenPod;
use crate::world::Timeouts;

/// A chain without plugins.
pub(crate) struct Untouched;

impl PodMutator for Untouched {
    fn mutate(&self, pod: Value, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        future::ready(Ok(MutatedPod::untouched(pod))).boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

pub(crate) fn browser() -> BrowserObject {
    serde_json::from_value(json!({
        "metadata": { "name": "a", "namespace": "team", "uid": "new" },
        "spec": { "browserName": "chrome", "browserVersion": "1" },
    }))
    .unwrap()
}

/// The pod of the Browser of this UID.
fn pod_of(owner: &str) -> Value {
    json!({
        "metadata": {
            "name": "a", "namespace": "team", "uid": format!("pod-{owner}"),
            "ownerReferences": [
                { "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": "a", "uid": owner, "controller": true },
            ],
        },
    })
}

/// A controller whose cache shows this pod.
fn controller(cached: Value) -> BrowserKind {
    controller_of(Some(cached))
}

/// A controller whose cache shows this pod, or none.
pub(crate) fn controller_of(cached: Option<Value>) -> BrowserKind {
    let api = SelenosisApi::Seed;
    let config = Arc::new(api.resource(SelenosisKind::BrowserConfig));
    let configs = Watch::of_kind::<BrowserConfigKind>("BrowserConfigs", &config);
    let pods = cached.map(|pod| serde_json::from_value::<SeenPod>(pod).unwrap());
    BrowserKind {
        api,
        resources: Resources {
            browser: Arc::new(api.resource(SelenosisKind::Browser)),
            config,
            pod: ApiResource::erase::<Pod>(&()),
            policy: ApiResource::erase::<NetworkPolicy>(&()),
        },
        caches: Caches {
            configs: Cache::of(configs, []),
            pods: Cache::of(Watch::of("Pod", "Pods"), pods),
            namespaces: Namespaces::of(Cache::of(namespaces::metadata(), [])),
        },
        mutator: Arc::new(Untouched),
        timeouts: Timeouts::default(),
        memory: Memory::default(),
        metrics: BrowserMetrics::declared(&mut Registry::default(), &Objects::default()),
    }
}

/// The UID of the pod that is seen where the cache has one and the API server answers so, and what was asked of it.
async fn observed(cached: Value, code: u16, answer: Value) -> (Option<String>, Vec<String>) {
    let (client, requests) = client(code, answer);
    let world = controller(cached)
        .look_around(&context(client), &browser(), Source::Cache)
        .await
        .unwrap();
    let uid = world.pod.and_then(|pod| pod.metadata.uid.clone());
    (uid, requests.made())
}

const READ: &str = "GET /api/v1/namespaces/team/pods/a";

#[tokio::test]
async fn its_own_pod_is_taken_from_the_cache() {
    let (uid, asked) = observed(pod_of("new"), 500, json!({})).await;
    assert_eq!(uid.as_deref(), Some("pod-new"));
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn a_pod_of_an_earlier_browser_that_is_gone_takes_no_name() {
    let gone = status(404, "NotFound", "there is no such pod");
    let (uid, asked) = observed(pod_of("old"), 404, gone).await;
    assert_eq!(uid, None);
    assert_eq!(asked, [READ]);
}

#[tokio::test]
async fn a_pod_of_another_that_is_there_is_seen() {
    let (uid, asked) = observed(pod_of("old"), 200, pod_of("old")).await;
    assert_eq!(uid.as_deref(), Some("pod-old"));
    assert_eq!(asked, [READ]);
}

/// The cache may show the other's pod for longer than it takes us to create ours.
#[tokio::test]
async fn a_pod_that_we_created_is_known_though_the_cache_shows_an_older_one() {
    let (client, requests) = client(500, json!({}));
    let controller = controller(pod_of("old"));
    let created: SeenPod = serde_json::from_value(pod_of("new")).unwrap();
    let browser = browser();
    controller
        .memory
        .created(&browser.metadata, Arc::new(created));
    for _ in 0..2 {
        let world = controller
            .look_around(&context(client.clone()), &browser, Source::Cache)
            .await
            .unwrap();
        assert!(world.own_pod().is_some());
    }
    assert!(requests.made().is_empty(), "{:?}", requests.made());
}

mod live;

#[test]
fn each_kind_has_the_scope_of_its_definition() {
    let traits = [BrowserKind::TRAITS, BrowserConfigKind::TRAITS];
    let traits = traits.map(|traits| (traits.kind.to_owned(), traits.scope.name().to_owned()));
    let definitions = podloom_api::crds(SelenosisApi::Seed).into_iter();
    let definitions = definitions.map(|it| (it.spec.names.kind, it.spec.scope));
    assert_eq!(definitions.collect::<Vec<_>>(), traits);
}
