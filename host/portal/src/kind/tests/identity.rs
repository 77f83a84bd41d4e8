use serde_json::{Value, json};

use super::cluster::Cluster;
use super::server::{Fault, SECRET, SECRETS};
use crate::world::SeenIdentity;
use crate::world::{Action, ActionOutcome};

/// The identity that is stored, as text and as JSON.
fn stored(cluster: &Cluster) -> (String, Value) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let secret = cluster.state().secret.clone().unwrap();
    let encoded = secret["data"]["identity.json"].as_str().unwrap().to_owned();
    let identity = serde_json::from_slice(&STANDARD.decode(&encoded).unwrap()).unwrap();
    (encoded, identity)
}

fn edit(cluster: &Cluster, patch: &Value) {
    let mut state = cluster.state();
    json_patch::merge(&mut state.expose, patch);
    let generation = state.expose["metadata"]["generation"].as_i64().unwrap();
    state.expose["metadata"]["generation"] = json!(generation + 1);
}

#[tokio::test]
async fn the_key_is_in_the_secret_and_nowhere_else() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let (_, identity) = stored(&cluster);
    let key = identity["private_key"].as_str().unwrap();
    let token = identity["token_secret"].as_str().unwrap();
    let state = cluster.state();
    let others = format!("{:?} {:?}", state.expose, state.deployment);
    assert!(!others.contains(key) && !others.contains(token));
}

#[tokio::test]
async fn the_key_stays_when_the_application_is_renamed() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let (_, before) = stored(&cluster);
    edit(&cluster, &json!({ "spec": { "app": { "name": "blog" } } }));
    cluster.settle().await;
    let (_, after) = stored(&cluster);
    assert_eq!(after["name"], "blog");
    assert_eq!(after["private_key"], before["private_key"]);
    let deployment = cluster.state().deployment.clone().unwrap();
    assert_eq!(deployment["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_deleted_secret_is_created_again_and_rolls_the_tunnel() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let (_, before) = stored(&cluster);
    cluster.state().secret = None;
    cluster.settle().await;
    let (_, after) = stored(&cluster);
    assert_ne!(after["private_key"], before["private_key"]);
    let deployment = cluster.state().deployment.clone().unwrap();
    assert_eq!(deployment["metadata"]["generation"], 2);
}

#[tokio::test]
async fn an_operator_that_starts_again_finds_the_key() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let before = cluster.state().clone();
    let restarted = Cluster::new();
    *restarted.state() = before.clone();
    restarted.settle().await;
    assert_eq!(*restarted.state(), before);
    assert_eq!(restarted.requests.made(), [format!("GET {SECRET}")]);
}

#[tokio::test]
async fn a_secret_with_something_else_in_it_is_left_alone() {
    let cluster = Cluster::new();
    cluster.settle().await;
    for data in [json!({ "identity.json": "bm90IGpzb24=" }), json!({})] {
        cluster.state().secret.as_mut().unwrap()["data"] = data.clone();
        cluster.state().secret.as_mut().unwrap()["metadata"]["resourceVersion"] = json!("88888");
        let deployment = cluster.state().deployment.clone();
        edit(&cluster, &json!({ "spec": { "app": { "name": "blog" } } }));
        cluster.settle().await;
        assert_eq!(cluster.state().secret.clone().unwrap()["data"], data);
        assert_eq!(
            cluster.condition("TunnelDeploymentReady").1,
            "IdentityInvalid"
        );
        assert_eq!(cluster.state().deployment, deployment);
    }
}

/// No cache shows it, since it lacks our labels.
#[tokio::test]
async fn a_secret_of_somebody_else_is_left_alone() {
    let cluster = Cluster::new();
    let foreign = json!({ "metadata": { "name": "shop-tunnel-identity", "uid": "f", "resourceVersion": "5" } });
    cluster.state().secret = Some(foreign.clone());
    cluster.pass().await.unwrap();
    assert_eq!(cluster.state().secret, Some(foreign));
    assert_eq!(cluster.state().deployment, None);
    assert_eq!(
        cluster.condition("TunnelDeploymentReady").1,
        "IdentityNotOwned"
    );
}

#[tokio::test]
async fn a_secret_that_no_cache_shows_is_found() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let (before, _) = stored(&cluster);
    let restarted = Cluster::new();
    *restarted.state() = cluster.state().clone();
    restarted.pass().await.unwrap();
    assert_eq!(stored(&restarted).0, before);
    let made = restarted.requests.made();
    assert!(!made.contains(&format!("POST {SECRETS}")), "{made:?}");
}

/// It came between the look and the creation.
#[tokio::test]
async fn a_secret_that_comes_meanwhile_is_not_overwritten() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let before = cluster.state().secret.clone();
    let outcome = cluster.act(&Action::CreateIdentity).await;
    assert_eq!(cluster.state().secret, before);
    let ActionOutcome::Identity {
        identity,
        is_written,
    } = outcome
    else {
        unreachable!("it is found")
    };
    assert!(!is_written && matches!(identity, SeenIdentity::Ours(_)));
}

#[tokio::test]
async fn the_owner_of_the_secret_follows_the_policy() {
    let cluster = Cluster::new();
    cluster.settle().await;
    let owners = |cluster: &Cluster| {
        let secret = cluster.state().secret.clone().unwrap();
        secret["metadata"]["ownerReferences"]
            .as_array()
            .map_or(0, Vec::len)
    };
    assert_eq!(owners(&cluster), 0);
    let (before, _) = stored(&cluster);
    edit(&cluster, &json!({ "spec": { "identityPolicy": "Delete" } }));
    cluster.settle().await;
    assert_eq!(owners(&cluster), 1);
    edit(&cluster, &json!({ "spec": { "identityPolicy": "Retain" } }));
    cluster.settle().await;
    assert_eq!(owners(&cluster), 0);
    assert_eq!(stored(&cluster).0, before);
    // The reference is metadata: no pod needs to know.
    let deployment = cluster.state().deployment.clone().unwrap();
    assert_eq!(deployment["metadata"]["generation"], 1);
}

/// The API server quotes what it rejects, and webhooks may too.
#[tokio::test]
async fn a_rejection_of_the_secret_is_shown_without_the_answer() {
    let cluster = Cluster::new();
    cluster.fail(1, Fault::Answer(403, "Forbidden"));
    cluster.pass().await.unwrap();
    assert!(cluster.has_failed());
    let (_, reason) = cluster.condition("TunnelDeploymentReady");
    assert_eq!(reason, "IdentityRejected");
    let status = cluster.status().to_string();
    assert!(status.contains("HTTP 403 Forbidden;"), "{status}");
    assert!(status.contains("audit log"), "{status}");
}
