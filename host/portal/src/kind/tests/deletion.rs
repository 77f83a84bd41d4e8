use podloom_engine::pass::Next;
use serde_json::json;

use super::cluster::Cluster;
use super::server::{DEPLOYMENT, EXPOSE};

/// A cluster whose PortalExpose is being deleted.
async fn deleted() -> Cluster {
    let cluster = Cluster::new();
    cluster.settle().await;
    cluster.state().expose["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
    cluster.sync();
    cluster
}

#[tokio::test]
async fn the_deployment_goes_first_and_then_the_finalizer() {
    let cluster = deleted().await;
    cluster.loses_service();
    *cluster.chain.digest.lock().unwrap() = None;
    let before = cluster.requests.made().len();
    let next = cluster.pass().await.unwrap();
    assert_eq!(next, Next::Change);
    assert_eq!(
        cluster.since(before),
        [
            format!("DELETE {DEPLOYMENT}"),
            format!("GET {DEPLOYMENT}"),
            format!("PATCH {EXPOSE}")
        ]
    );
    assert_eq!(cluster.state().deployment, None);
    assert_eq!(cluster.state().expose["metadata"]["finalizers"], json!([]));
    assert!(cluster.state().secret.is_some());
    assert_eq!(cluster.kind.tunnels.memory.len(), 0);
}

#[tokio::test]
async fn a_deployment_that_somebody_holds_is_waited_for() {
    let cluster = deleted().await;
    cluster.state().deployment.as_mut().unwrap()["metadata"]["finalizers"] =
        json!(["example.com/keep"]);
    let next = cluster.pass().await.unwrap();
    assert!(matches!(next, Next::Within(_)), "{next:?}");
    cluster.sync();
    let before = cluster.requests.made().len();
    cluster.pass().await.unwrap();
    assert_eq!(cluster.since(before), [""; 0]);
    cluster.state().deployment = None;
    cluster.sync();
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
}

#[tokio::test]
async fn a_deployment_of_somebody_else_stays() {
    let cluster = deleted().await;
    let owners = json!([{ "apiVersion": "apps/v1", "kind": "Other", "name": "o", "uid": "o", "controller": true }]);
    cluster.state().deployment.as_mut().unwrap()["metadata"]["ownerReferences"] = owners;
    cluster.state().deployment.as_mut().unwrap()["metadata"]["resourceVersion"] = json!("99999");
    cluster.sync();
    let before = cluster.requests.made().len();
    cluster.pass().await.unwrap();
    assert_eq!(cluster.since(before), [format!("PATCH {EXPOSE}")]);
    assert!(cluster.state().deployment.is_some());
}

/// The cache shows the Deployment of an earlier PortalExpose of this name.
#[tokio::test]
async fn a_deployment_that_is_another_by_now_is_not_deleted() {
    let cluster = deleted().await;
    let owners = json!([{ "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose", "name": "shop", "uid": "e-0", "controller": true }]);
    cluster.state().deployment.as_mut().unwrap()["metadata"]["uid"] = json!("another");
    cluster.state().deployment.as_mut().unwrap()["metadata"]["ownerReferences"] = owners;
    cluster.pass().await.unwrap();
    assert!(cluster.state().deployment.is_some());
}

/// A write of ours was on its way for so long that the cache shows the one before it.
#[tokio::test]
async fn a_deployment_that_came_late_goes_too() {
    let cluster = deleted().await;
    cluster.state().deployment.as_mut().unwrap()["metadata"]["uid"] = json!("late");
    cluster.pass().await.unwrap();
    assert_eq!(cluster.state().deployment, None);
    assert_eq!(cluster.state().expose["metadata"]["finalizers"], json!([]));
}

#[tokio::test]
async fn finalizers_of_others_stay() {
    let cluster = deleted().await;
    let finalizers = json!([
        "portal.gosuda.org/cleanup-tunnel-deployment",
        "example.com/keep"
    ]);
    cluster.state().expose["metadata"]["finalizers"] = finalizers;
    cluster.pass().await.unwrap();
    assert_eq!(
        cluster.state().expose["metadata"]["finalizers"],
        json!(["example.com/keep"])
    );
    assert_eq!(cluster.state().deployment, None);
    let before = cluster.requests.made().len();
    cluster.sync();
    cluster.pass().await.unwrap();
    assert_eq!(cluster.since(before), [""; 0]);
}

/// Somebody removed the finalizer by hand while a pass was running.
#[tokio::test]
async fn a_pass_over_one_that_is_gone_leaves_no_traces() {
    let cluster = Cluster::new();
    cluster.settle().await;
    assert!(cluster.watches_relays());
    cluster.loses_expose();
    cluster.state().deployment = None;
    cluster.pass().await.unwrap();
    assert!(
        !cluster.watches_relays(),
        "its relays would be asked for ever"
    );
    assert_eq!(cluster.kind.tunnels.memory.len(), 0);
}
