use std::sync::Arc;

use kube::core::ObjectMeta;
use podloom_engine::testing::context;
use podloom_scripted::{Requests, scripted, status};
use serde_json::{Value, json};

use super::Keeper;
use crate::fixtures::{IN_USE, OURS, caches, cloud, cluster, known, live, metas, provider};
use crate::resolve::SecretKey;

const TEAM: Option<&str> = Some("team");
const URL: &str = "https://im.example.com";
const PATCH: &str = "PATCH /api/v1/namespaces/team/secrets/";

fn secret(name: &str, finalizers: &[&str]) -> Value {
    let metadata = json!({
        "name": name, "namespace": "team", "uid": name, "resourceVersion": "3", "finalizers": finalizers,
    });
    json!({ "metadata": metadata })
}

fn metadata(secret: &Value) -> ObjectMeta {
    serde_json::from_value(secret["metadata"].clone()).unwrap()
}

fn key(name: &str) -> SecretKey {
    SecretKey {
        namespace: "team".to_owned(),
        name: name.to_owned(),
    }
}

/// A keeper that knows these Clusters; its API server has those.
fn keeper(
    cached: &[Value],
    stored: &[Value],
    patched: impl Fn(&str, Value) -> (u16, Value) + Send + Sync + 'static,
) -> (Keeper, Requests) {
    let (clouds, providers) = (
        vec![cloud(TEAM, "InfrastructureProvider")],
        vec![provider(TEAM, URL)],
    );
    let caches = caches(&clouds, &providers);
    let stored = stored.to_vec();
    let (client, requests) = scripted(move |request, body| {
        let list = |items: &[Value]| (200, json!({ "metadata": {}, "items": items }));
        match request.rsplit('/').next().unwrap_or_default() {
            "clusters" => list(&stored),
            "clouds" => list(&clouds),
            "infrastructureproviders" => list(&providers),
            _ => match request.strip_prefix(PATCH) {
                Some(name) => patched(name, body),
                None => unreachable!("{request}"),
            },
        }
    });
    let known = known(cached, caches);
    let keeper = Keeper {
        ctx: Arc::new(context(client.clone())),
        metas: metas(&[secret("other", &[IN_USE]), secret("free", &[])]),
        live: live(&client, &known),
        known,
        warned: std::sync::Mutex::default(),
    };
    (keeper, requests)
}

fn accepted(_: &str, _: Value) -> (u16, Value) {
    (
        200,
        json!({ "kind": "Secret", "data": { "value": "aHVudGVyMg==" } }),
    )
}

async fn look(keeper: &Keeper, secret: &Value) {
    let metadata = metadata(secret);
    let name = metadata.name.clone().unwrap();
    keeper.look(&key(&name), &metadata).await.unwrap();
}

/// The finalizers that are written.
fn writes(expected: &'static [&'static str]) -> impl Fn(&str, Value) -> (u16, Value) + Send + Sync {
    move |name, body| {
        let expected =
            json!({ "metadata": { "uid": name, "resourceVersion": "3", "finalizers": expected } });
        assert_eq!(body, expected);
        accepted(name, body)
    }
}

#[tokio::test]
async fn secrets_of_a_cloud_and_its_provider_are_kept_for_a_cluster() {
    for name in ["cloud", "account"] {
        let clusters = [cluster(&json!({}))];
        let (keeper, requests) = keeper(&clusters, &clusters, writes(&["theirs", IN_USE]));
        look(&keeper, &secret(name, &["theirs"])).await;
        assert_eq!(requests.made(), [format!("{PATCH}{name}")]);
    }
}

#[tokio::test]
async fn a_secret_is_let_go_when_the_api_server_knows_no_user_either() {
    let (keeper, requests) = keeper(&[], &[], writes(&["theirs"]));
    look(&keeper, &secret("cloud", &[IN_USE, "theirs"])).await;
    let made = requests.made();
    assert!(made.contains(&format!("{PATCH}cloud")), "{made:?}");
}

#[tokio::test]
async fn a_secret_stays_if_only_the_cache_knows_no_user() {
    let clusters = [cluster(&json!({ "metadata": { "finalizers": [OURS] } }))];
    let (keeper, requests) = keeper(&[], &clusters, |name, _| unreachable!("{name}"));
    look(&keeper, &secret("cloud", &[IN_USE])).await;
    assert!(!requests.made().is_empty());
}

#[tokio::test]
async fn a_secret_that_nobody_names_is_left_alone() {
    let clusters = [cluster(&json!({}))];
    let (keeper, requests) = keeper(&clusters, &clusters, accepted);
    look(&keeper, &secret("free", &["theirs"])).await;
    assert!(requests.made().is_empty());
}

#[tokio::test]
async fn a_refused_finalizer_is_said_once_and_is_no_error() {
    let clusters = [cluster(&json!({}))];
    let (keeper, _) = keeper(&clusters, &clusters, |_, _| {
        (403, status(403, "Forbidden", "no right"))
    });
    let unguarded = secret("cloud", &[]);
    look(&keeper, &unguarded).await;
    look(&keeper, &unguarded).await;
    assert!(keeper.warned.lock().unwrap().contains(&key("cloud")));
    assert!(!keeper.warned.lock().unwrap().contains(&key("account")));
}

#[tokio::test]
async fn all_secrets_are_listed_that_are_named_or_have_our_finalizer() {
    let (keeper, _) = keeper(&[], &[], accepted);
    let all = keeper.all();
    let names: Vec<&str> = all.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(names, ["account", "cloud", "other"]);
}
