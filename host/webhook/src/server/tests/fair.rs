//! Heavy reviews of some leave others nearly as fast as when they are alone. A clock that stands still decides how long a pod takes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_mutation::{MutatedPod, PodMutator, PodRequest, RejectedPod};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{endpoints_with, from, send};

/// A chain that takes a millisecond for each container.
struct ByContainers;

impl PodMutator for ByContainers {
    fn mutate(&self, pod: Value, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
        let milliseconds = u64::try_from(containers).expect("few");
        async move {
            sleep(Duration::from_millis(milliseconds)).await;
            Ok(MutatedPod::untouched(pod))
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

const HEAVY: usize = 500;
const LIGHT: usize = 10;
const API_SERVER: [u8; 4] = [10, 0, 0, 1];
const STRANGER: [u8; 4] = [10, 0, 0, 66];

/// Sends a pod, and returns how long its answer took.
async fn review(router: &Router, peer: [u8; 4], namespace: &str, containers: usize) -> Duration {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7", "operation": "CREATE", "kind": { "version": "v1", "kind": "Pod" },
            "namespace": namespace,
            "object": { "metadata": {}, "spec": { "containers": vec![json!({}); containers] } },
        },
    });
    let begun = Instant::now();
    let (status, text) = send(router, from(peer, review.to_string().into())).await;
    let took = begun.elapsed();
    let is_light = containers == LIGHT;
    assert!(
        !is_light || status == StatusCode::OK,
        "after {took:?}: {text}"
    );
    took
}

/// How long a light pod of `team` takes, in the middle of fifty, while forty others send heavy ones without end.
async fn light_beside(heavy: impl Fn(usize) -> ([u8; 4], String)) -> Duration {
    let (router, _) = endpoints_with(Arc::new(ByContainers));
    let mut heavies = JoinSet::new();
    for number in 0..40 {
        let ((peer, namespace), router) = (heavy(number), router.clone());
        heavies.spawn(async move {
            loop {
                review(&router, peer, &namespace, HEAVY).await;
            }
        });
    }
    sleep(Duration::from_secs(5)).await;
    let mut took = Vec::new();
    for _ in 0..50 {
        took.push(review(&router, API_SERVER, "team", LIGHT).await);
        sleep(Duration::from_millis(7)).await;
    }
    took.sort();
    took[took.len() / 2]
}

/// Seen: 3.8 s instead of 14 ms.
#[tokio::test(start_paused = true)]
async fn heavy_pods_of_one_tenant_leave_others_at_most_three_times_as_slow() {
    let beside = light_beside(|_| (API_SERVER, "heavy".to_owned())).await;
    assert!(beside <= Duration::from_millis(30), "{beside:?}");
}

/// Seen: "busy" for every pod of the cluster.
#[tokio::test(start_paused = true)]
async fn a_stranger_leaves_others_at_most_three_times_as_slow_whatever_namespaces_it_invents() {
    let beside = light_beside(|number| (STRANGER, format!("invented-{number}"))).await;
    assert!(beside <= Duration::from_millis(30), "{beside:?}");
}

/// There are too many to leave a turn free, but one who is short of time is next.
#[tokio::test(start_paused = true)]
async fn heavy_pods_of_many_tenants_leave_others_their_turns() {
    let beside = light_beside(|number| (API_SERVER, format!("heavy-{number}"))).await;
    assert!(
        beside <= Duration::from_millis(HEAVY as u64 + 30),
        "{beside:?}"
    );
}
