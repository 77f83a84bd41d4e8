use std::sync::atomic::Ordering;

use podloom_engine::pass::Next;
use podloom_mutation::PodRejection;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::server::{DEPLOYMENT, EXPOSE, EXPOSES, SECRET, SECRETS};
use crate::render::Rendered;
use crate::world::{Action, ActionOutcome, Apply, Try, Why};

/// The Deployment's controller has made all pods, and they are ready.
fn all_ready(deployment: &mut Value) {
    deployment["status"] = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "conditions": [{ "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" }],
    });
}

/// A cluster whose tunnel is ready.
async fn ready() -> Cluster {
    let cluster = Cluster::new();
    cluster.settle().await;
    all_ready(cluster.state().deployment.as_mut().unwrap());
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
    cluster
}

#[tokio::test]
async fn one_pass_brings_a_new_tunnel_to_its_first_status() {
    let cluster = Cluster::new();
    cluster.pass().await.unwrap();
    assert_eq!(
        cluster.requests.made(),
        [
            format!("PATCH {EXPOSE}"),
            format!("GET {SECRET}"),
            format!("GET {DEPLOYMENT}"),
            format!("POST {SECRETS}"),
            // Somebody may have created one while the plugins ran.
            format!("GET {DEPLOYMENT}"),
            format!("PATCH {DEPLOYMENT}"),
            format!("PATCH {EXPOSE}/status"),
        ]
    );
    assert_eq!(cluster.status()["phase"], "Pending");
    assert_eq!(cluster.status()["applied"]["generation"], 1);
    assert_eq!(cluster.status()["applied"]["chainDigest"], "chain-1");
    let (_, reason) = cluster.condition("Progressing");
    assert_eq!(reason, "DeploymentCreated");
}

#[tokio::test]
async fn a_pass_over_a_tunnel_that_is_as_it_should_be_asks_nothing() {
    let cluster = Cluster::new();
    cluster.pass().await.unwrap();
    cluster.sync();
    let before = cluster.requests.made().len();
    let next = cluster.pass().await.unwrap();
    assert!(matches!(next, Next::Within(_)));
    assert_eq!(cluster.since(before), [""; 0]);
}

/// Until its watch shows the Deployment, nothing is written again.
#[tokio::test]
async fn a_cache_that_is_behind_causes_reads_and_no_writes() {
    let cluster = Cluster::new();
    cluster.pass().await.unwrap();
    let before = cluster.requests.made().len();
    cluster.pass().await.unwrap();
    let expected = [format!("GET {SECRET}"), format!("GET {DEPLOYMENT}")];
    assert_eq!(cluster.since(before), expected);
}

/// Somebody removed its finalizer by hand, garbage collection its children, and their watches are faster than its own.
#[tokio::test]
async fn nothing_is_made_for_one_that_is_gone() {
    let cluster = ready().await;
    {
        let mut state = cluster.state();
        state.is_expose_gone = true;
        (state.secret, state.deployment) = (None, None);
    }
    cluster.sync();
    let before = cluster.requests.made().len();
    cluster.pass().await.unwrap();
    let expected = [SECRET, DEPLOYMENT, EXPOSES].map(|path| format!("GET {path}"));
    assert_eq!(cluster.since(before), expected);
}

#[tokio::test]
async fn a_tunnel_becomes_ready_and_stays_so_without_plugins() {
    let cluster = ready().await;
    let calls = cluster.chain.calls.load(Ordering::Relaxed);
    for _ in 0..100 {
        cluster.pass().await.unwrap();
    }
    assert_eq!(cluster.chain.calls.load(Ordering::Relaxed), calls);
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_stamp_of_the_chain_is_on_the_deployment_and_not_on_its_pods() {
    let cluster = ready().await;
    let deployment = cluster.state().deployment.clone().unwrap();
    assert_eq!(
        deployment["metadata"]["annotations"]["podloom.dev/chain"],
        "chain-1"
    );
    let template = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert!(template["podloom.dev/chain"].is_null(), "{template}");
    assert!(template["portal.gosuda.org/identity-checksum"].is_string());
}

#[tokio::test]
async fn a_new_chain_that_changes_nothing_rolls_nothing() {
    let cluster = ready().await;
    *cluster.chain.digest.lock().unwrap() = Some("chain-2".to_owned());
    cluster.settle().await;
    let deployment = cluster.state().deployment.clone().unwrap();
    assert_eq!(deployment["metadata"]["generation"], 1);
    assert_eq!(
        deployment["metadata"]["annotations"]["podloom.dev/chain"],
        "chain-2"
    );
    assert_eq!(cluster.status()["applied"]["chainDigest"], "chain-2");
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn a_new_chain_that_changes_the_template_rolls_it() {
    let cluster = ready().await;
    *cluster.chain.digest.lock().unwrap() = Some("chain-2".to_owned());
    *cluster.chain.marks.lock().unwrap() = true;
    cluster.settle().await;
    let deployment = cluster.state().deployment.clone().unwrap();
    assert_eq!(deployment["metadata"]["generation"], 2);
    assert_eq!(cluster.status()["applied"]["generation"], 2);
    assert_eq!(cluster.status()["phase"], "Degraded");
}

/// Another Deployment has the only turn.
#[tokio::test]
async fn a_tunnel_without_a_turn_waits_and_calls_no_plugin() {
    let cluster = ready().await;
    let mut other = cluster.state().deployment.clone().unwrap();
    other["metadata"]["uid"] = json!("another");
    let other: k8s_openapi::api::apps::v1::Deployment = serde_json::from_value(other).unwrap();
    assert!(cluster.kind.tunnels.rolls.take(&other.metadata));
    *cluster.chain.digest.lock().unwrap() = Some("chain-2".to_owned());
    *cluster.chain.marks.lock().unwrap() = true;
    cluster.pass().await.unwrap();
    let (status, reason) = cluster.condition("Progressing");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "RolloutQueued")
    );
    assert_eq!(cluster.condition("MutatorsApplied").1, "ChainOutdated");
    let calls = cluster.chain.calls.load(Ordering::Relaxed);
    for _ in 0..10 {
        cluster.pass().await.unwrap();
    }
    assert_eq!(cluster.chain.calls.load(Ordering::Relaxed), calls);
    cluster.kind.tunnels.rolls.give_back(&other.metadata);
    cluster.settle().await;
    assert_eq!(
        cluster.state().deployment.clone().unwrap()["metadata"]["generation"],
        2
    );
}

/// The chain goes back to the one that runs, after the tunnel got its turn.
#[tokio::test]
async fn a_turn_that_is_not_needed_any_more_is_given_back() {
    let cluster = ready().await;
    let before = cluster.state().deployment.clone();
    let mut other = before.clone().unwrap();
    other["metadata"]["uid"] = json!("another");
    let other: k8s_openapi::api::apps::v1::Deployment = serde_json::from_value(other).unwrap();
    let rolls = &cluster.kind.tunnels.rolls;
    assert!(rolls.take(&other.metadata));
    *cluster.chain.digest.lock().unwrap() = Some("chain-2".to_owned());
    *cluster.chain.marks.lock().unwrap() = true;
    cluster.pass().await.unwrap();
    assert_eq!(cluster.condition("Progressing").1, "RolloutQueued");
    rolls.give_back(&other.metadata);
    *cluster.chain.next.lock().unwrap() = Some("chain-1".to_owned());
    cluster.pass().await.unwrap();
    assert_eq!(*cluster.chain.next.lock().unwrap(), None, "it had its turn");
    assert_eq!(cluster.state().deployment, before);
    assert!(rolls.take(&other.metadata), "its turn is lost");
}

/// Plugins can read the labels of namespaces.
#[tokio::test]
async fn a_denied_tunnel_is_tried_again_when_its_namespace_changes() {
    let cluster = Cluster::new();
    cluster.changes_namespace("1");
    *cluster.chain.rejects.lock().unwrap() = Some(PodRejection::Denied("no".to_owned()));
    cluster.pass().await.unwrap();
    assert_eq!(cluster.condition("MutatorsApplied").1, "MutatorDenied");
    *cluster.chain.rejects.lock().unwrap() = None;
    cluster.pass().await.unwrap();
    assert_eq!(cluster.state().deployment, None);
    cluster.changes_namespace("2");
    cluster.pass().await.unwrap();
    assert!(cluster.state().deployment.is_some());
    assert_eq!(cluster.condition("MutatorsApplied").1, "ChainApplied");
}

#[tokio::test]
async fn a_new_chain_that_denies_leaves_the_running_tunnel_alone() {
    let cluster = ready().await;
    let before = cluster.state().deployment.clone();
    *cluster.chain.digest.lock().unwrap() = Some("chain-2".to_owned());
    *cluster.chain.rejects.lock().unwrap() = Some(PodRejection::Denied("no".to_owned()));
    cluster.pass().await.unwrap();
    assert_eq!(cluster.state().deployment, before);
    assert_eq!(cluster.condition("MutatorsApplied").1, "MutatorDenied");
    let calls = cluster.chain.calls.load(Ordering::Relaxed);
    cluster.pass().await.unwrap();
    assert_eq!(cluster.chain.calls.load(Ordering::Relaxed), calls);
    // The next chain is tried at once.
    *cluster.chain.digest.lock().unwrap() = Some("chain-3".to_owned());
    *cluster.chain.rejects.lock().unwrap() = None;
    cluster.settle().await;
    assert_eq!(cluster.condition("MutatorsApplied").1, "ChainApplied");
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn nothing_is_rendered_before_the_chain_is_loaded() {
    let cluster = Cluster::new();
    *cluster.chain.digest.lock().unwrap() = None;
    let broken = PodRejection::Broken("no plugin chain is loaded".to_owned());
    *cluster.chain.rejects.lock().unwrap() = Some(broken);
    cluster.pass().await.unwrap();
    assert_eq!(cluster.state().deployment, None);
    assert_eq!(cluster.condition("MutatorsApplied").1, "MutatorFailed");
    *cluster.chain.digest.lock().unwrap() = Some("chain-1".to_owned());
    *cluster.chain.rejects.lock().unwrap() = None;
    cluster.pass().await.unwrap();
    assert!(cluster.state().deployment.is_some());
}

#[tokio::test]
async fn what_somebody_changed_is_restored() {
    let cluster = ready().await;
    {
        let mut state = cluster.state();
        let deployment = state.deployment.as_mut().unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["evil"]);
        deployment["metadata"]["generation"] = json!(2);
        deployment["metadata"]["resourceVersion"] = json!("99999");
    }
    cluster.settle().await;
    let deployment = cluster.state().deployment.clone().unwrap();
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args[0], "expose");
    assert_eq!(deployment["metadata"]["generation"], 3);
}

#[tokio::test]
async fn a_missing_service_fails_it_and_leaves_the_deployment() {
    let cluster = ready().await;
    let before = cluster.state().deployment.clone();
    cluster.loses_service();
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Failed");
    assert_eq!(cluster.condition("Available").1, "ServiceNotFound");
    assert_eq!(cluster.state().deployment, before);
}

#[tokio::test]
async fn a_deployment_of_somebody_else_is_never_written() {
    let cluster = Cluster::new();
    let foreign = json!({
        "metadata": {
            "name": "shop-tunnel", "namespace": "team", "uid": "f-1", "resourceVersion": "5",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Other", "name": "o", "uid": "o", "controller": true }],
        },
        "spec": { "replicas": 1, "selector": {}, "template": {} },
        "status": { "readyReplicas": 1 },
    });
    cluster.state().deployment = Some(foreign.clone());
    cluster.pass().await.unwrap();
    assert_eq!(cluster.state().deployment, Some(foreign));
    assert_eq!(
        cluster.condition("TunnelDeploymentReady").1,
        "DeploymentNotOwned"
    );
    assert_eq!(cluster.status()["phase"], "Failed");
    assert_eq!(cluster.status()["tunnelPods"]["ready"], 0);
}

#[tokio::test]
async fn a_deployment_of_the_operator_before_us_is_converted_then_applied() {
    let cluster = Cluster::new();
    let mut first = cluster.state().expose.clone();
    first["metadata"]["finalizers"] = json!(["portal.gosuda.org/cleanup-tunnel-deployment"]);
    cluster.state().expose = first;
    let labels = json!({
        "app.kubernetes.io/name": "portal-tunnel",
        "app.kubernetes.io/component": "tunnel",
        "app.kubernetes.io/managed-by": "portal-expose-controller",
        "portal.gosuda.org/portalexpose": "shop",
    });
    cluster.state().deployment = Some(json!({
        "metadata": {
            "name": "shop-tunnel", "namespace": "team", "uid": "d-9", "resourceVersion": "5", "generation": 4,
            "labels": labels,
            "ownerReferences": [{ "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose", "name": "shop", "uid": "e-1", "controller": true }],
            "managedFields": [{
                "manager": "manager", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:ownerReferences": { "k:{\"uid\":\"e-1\"}": {} } } },
            }],
        },
        "spec": { "replicas": 1, "selector": {}, "template": {} },
    }));
    cluster.sync();
    cluster.pass().await.unwrap();
    let made = cluster.requests.made();
    let writes: Vec<_> = made.iter().filter(|it| it.ends_with(DEPLOYMENT)).collect();
    let expected = ["GET", "PATCH", "PATCH"].map(|method| format!("{method} {DEPLOYMENT}"));
    assert_eq!(writes, expected.iter().collect::<Vec<_>>());
    assert_eq!(
        cluster.state().deployment.clone().unwrap()["metadata"]["uid"],
        "d-9"
    );
    assert_eq!(cluster.status()["applied"]["generation"], 5);
}

/// The other is in another watch scope.
#[tokio::test]
async fn of_two_with_one_hostname_the_older_one_gets_it_in_all_scopes() {
    let cluster = Cluster::new();
    cluster.has_older("other-team");
    cluster.pass().await.unwrap();
    assert_eq!(cluster.condition("HostnameUnique").1, "HostnameConflict");
    assert_eq!(cluster.status()["phase"], "Failed");
    let status = cluster.status().to_string();
    assert!(
        !status.contains("other-team") && !status.contains("their-shop"),
        "{status}"
    );
    assert!(cluster.state().secret.is_none() && cluster.state().deployment.is_none());
}

#[tokio::test]
async fn a_new_tunnel_without_a_service_writes_its_status_alone() {
    let cluster = Cluster::new();
    cluster.loses_service();
    cluster.pass().await.unwrap();
    let expected = [
        format!("PATCH {EXPOSE}"),
        format!("GET {SECRET}"),
        format!("GET {DEPLOYMENT}"),
        format!("PATCH {EXPOSE}/status"),
    ];
    assert_eq!(cluster.requests.made(), expected);
    assert_eq!(cluster.status()["phase"], "Failed");
    let relay = &cluster.status()["relay"]["connected"][0];
    assert_eq!(relay["status"], "Disconnected");
    assert!(
        relay["lastError"]
            .as_str()
            .unwrap()
            .starts_with("NoReadyPod: ")
    );
}

/// Whoever mends the Service learns at once that more is wrong.
#[tokio::test]
async fn what_is_wrong_with_the_secret_shows_beside_a_missing_service() {
    let cluster = Cluster::new();
    cluster.loses_service();
    let foreign = json!({ "metadata": { "name": "shop-tunnel-identity", "uid": "f", "resourceVersion": "5" } });
    cluster.state().secret = Some(foreign);
    cluster.pass().await.unwrap();
    assert_eq!(cluster.condition("ServiceExists").1, "ServiceNotFound");
    assert_eq!(
        cluster.condition("TunnelDeploymentReady").1,
        "IdentityNotOwned"
    );
}

/// An apply by name would take it over.
#[tokio::test]
async fn a_deployment_that_somebody_created_meanwhile_is_left_alone() {
    let cluster = Cluster::new();
    let theirs = json!({
        "metadata": { "name": "shop-tunnel", "namespace": "team", "uid": "x", "resourceVersion": "9" },
    });
    cluster.state().deployment = Some(theirs.clone());
    let apply = Apply {
        why: Why::Missing,
        uid: None,
        rendered: Rendered {
            input: String::new(),
            object: json!({ "kind": "Deployment", "metadata": { "name": "shop-tunnel" } }),
            template_hash: String::new(),
            chain: None,
            notes: Vec::new(),
        },
        tried: Try::Identity { generation: None },
    };
    let outcome = cluster.act(&Action::Apply(Box::new(apply))).await;
    assert!(matches!(outcome, ActionOutcome::Deployment(Some(_))));
    assert_eq!(cluster.state().deployment, Some(theirs));
}
