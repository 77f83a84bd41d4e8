//! What goes wrong at each write, and that a later pass puts it right.

use serde_json::Value;

use super::cluster::Cluster;
use super::server::{DEPLOYMENT, Fault};

const FAULTS: [Fault; 6] = [
    Fault::Lost,
    Fault::Answer(409, "Conflict"),
    Fault::Answer(404, "NotFound"),
    Fault::Answer(403, "Forbidden"),
    Fault::Answer(422, "Invalid"),
    Fault::Answer(500, "InternalError"),
];

/// What matters of the objects in the end.
fn essence(cluster: &Cluster) -> Vec<Value> {
    let state = cluster.state().clone();
    let deployment = state.deployment.unwrap_or_default();
    let status = &state.expose["status"];
    vec![
        state.expose["metadata"]["finalizers"].clone(),
        deployment["metadata"]["generation"].clone(),
        deployment["metadata"]["ownerReferences"].clone(),
        status["phase"].clone(),
        status["applied"]["generation"].clone(),
        state
            .secret
            .map(|secret| secret["metadata"]["labels"].clone())
            .unwrap_or_default(),
    ]
}

/// Lets each write of the work go wrong, in each way, and compares what comes of it in the end.
async fn check(work: impl AsyncFn(&Cluster)) {
    let smooth = Cluster::new();
    work(&smooth).await;
    smooth.settle().await;
    let expected = essence(&smooth);
    for fault in FAULTS {
        for write in 0.. {
            let cluster = Cluster::new();
            cluster.fail(write, fault);
            work(&cluster).await;
            cluster.settle().await;
            if !cluster.has_failed() {
                break;
            }
            assert_eq!(essence(&cluster), expected, "{fault:?} at write {write}");
        }
    }
}

#[tokio::test]
async fn a_new_tunnel_comes_up_whatever_goes_wrong() {
    check(async |_| {}).await;
}

/// The key is that of the Secret that was created, though its answer was lost.
#[tokio::test]
async fn a_key_whose_answer_was_lost_is_kept() {
    let cluster = Cluster::new();
    cluster.fail(1, Fault::Lost);
    // The pass is repeated; the status does not say that the Secret was rejected.
    let error = cluster.pass().await.unwrap_err();
    assert_eq!(error.reason(), "Unanswered");
    let created = cluster.state().secret.clone();
    assert!(created.is_some());
    cluster.settle().await;
    assert_eq!(cluster.state().secret, created);
}

#[tokio::test]
async fn a_rejected_deployment_says_why_in_the_words_of_the_api_server() {
    let cluster = Cluster::new();
    cluster.fail(2, Fault::Answer(422, "Invalid"));
    cluster.pass().await.unwrap();
    assert_eq!(
        cluster.condition("TunnelDeploymentReady").1,
        "DeploymentRejected"
    );
    assert_eq!(cluster.status()["phase"], "Failed");
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Pending");
}

/// It may run by now, so its status does not call it rejected.
#[tokio::test]
async fn a_deployment_whose_answer_was_lost_is_not_called_rejected() {
    let cluster = Cluster::new();
    cluster.fail(2, Fault::Lost);
    let error = cluster.pass().await.unwrap_err();
    assert_eq!(error.reason(), "Unanswered");
    assert!(cluster.state().deployment.is_some());
    assert!(cluster.status()["phase"].is_null());
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Pending");
}

#[tokio::test]
async fn a_rejected_finalizer_creates_nothing() {
    let cluster = Cluster::new();
    cluster.fail(0, Fault::Answer(403, "Forbidden"));
    let error = cluster.pass().await.unwrap_err();
    assert_eq!(error.reason(), "MetadataRefused");
    assert_eq!(cluster.state().secret, None);
    assert_eq!(cluster.state().deployment, None);
    assert_eq!(
        cluster.condition("TunnelDeploymentReady").1,
        "MetadataRefused"
    );
}

/// The status would have said that the Deployment is as it was applied.
#[tokio::test]
async fn a_status_that_is_not_written_costs_no_second_apply() {
    let cluster = Cluster::new();
    cluster.fail(3, Fault::Answer(409, "Conflict"));
    cluster.pass().await.unwrap_err();
    assert!(cluster.state().deployment.is_some() && cluster.status().is_null());
    cluster.settle().await;
    let made = cluster.requests.made();
    let applies = made
        .iter()
        .filter(|it| **it == format!("PATCH {DEPLOYMENT}"));
    assert_eq!(applies.count(), 1, "{made:#?}");
    assert_eq!(cluster.status()["applied"]["generation"], 1);
}
