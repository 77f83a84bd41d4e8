use podloom_engine::cache::{Cache, Watch};
use podloom_engine::error::Error;
use podloom_scripted::{Requests, scripted, status};
use serde_json::{Value, json};

use super::Live;
use crate::fixtures::{OURS, SYSTEM, caches, cloud, cluster, known, live, provider};
use crate::in_use::{Need, Users, unless_hidden};
use crate::resolve::{Key, SecretKey};

const GROUP: &str = "GET /apis/infrastructure.podloom.dev/v1alpha1/";
const URL: &str = "https://im.example.com";

/// What the API server answers to a list of this path.
fn server(
    answer: impl Fn(&str) -> Result<Vec<Value>, u16> + Send + Sync + 'static,
) -> (Live, Requests) {
    let (client, requests) = scripted(move |request, _| {
        let path = request.strip_prefix(GROUP).unwrap();
        match answer(path) {
            Ok(items) => (200, json!({ "metadata": {}, "items": items })),
            Err(403) => (403, status(403, "Forbidden", "no right")),
            Err(404) => (404, status(404, "NotFound", "no such kind")),
            Err(code) => (code, status(code, "InternalError", "something broke")),
        }
    });
    let known = known(&[], caches(&[], &[]));
    (live(&client, &known), requests)
}

/// A Cluster of another namespace with something on the GlobalCloud.
fn elsewhere() -> Value {
    cluster(&json!({
        "metadata": { "namespace": "others", "finalizers": [OURS] },
        "spec": { "cloudRef": { "kind": "GlobalCloud" } },
    }))
}

fn global(name: &str) -> Key {
    Key {
        namespace: None,
        name: name.to_owned(),
    }
}

fn central() -> SecretKey {
    SecretKey {
        namespace: SYSTEM.to_owned(),
        name: "account".to_owned(),
    }
}

/// Another installation may have Clusters on it.
#[tokio::test]
async fn users_of_what_is_cluster_scoped_are_looked_for_in_all_namespaces() {
    let (mut live, requests) = server(|path| match path {
        "clusters" => Ok(vec![elsewhere()]),
        "clouds" => Ok(Vec::new()),
        "globalclouds" => Ok(vec![cloud(None, "GlobalInfrastructureProvider")]),
        "globalinfrastructureproviders" => Ok(vec![provider(None, URL)]),
        path if path.starts_with("namespaces/podloom-system/") => Ok(Vec::new()),
        _ => unreachable!("{path}"),
    });
    live.watched = [Some("team".to_owned())].into();
    let has = Users {
        clusters: 1,
        needs: Some(Need::Has),
    };
    assert_eq!(live.users_of_cloud(&global("dummy")).await.unwrap(), has);
    assert_eq!(live.users_of_provider(&global("im")).await.unwrap(), has);
    assert_eq!(live.users_of_secret(&central()).await.unwrap(), has);
    assert!(!requests.made().is_empty());
}

#[tokio::test]
async fn users_of_what_is_in_a_namespace_are_looked_for_there_alone() {
    let (live, requests) = server(|path| match path {
        "namespaces/team/clusters" => Ok(vec![cluster(&json!({}))]),
        "namespaces/team/clouds" => Ok(vec![cloud(Some("team"), "InfrastructureProvider")]),
        "namespaces/team/infrastructureproviders" => Ok(vec![provider(Some("team"), URL)]),
        _ => unreachable!("{path}"),
    });
    let secret = SecretKey {
        namespace: "team".to_owned(),
        name: "account".to_owned(),
    };
    let users = live.users_of_secret(&secret).await.unwrap();
    assert_eq!(users.needs, Some(Need::Wants));
    assert_eq!(requests.made().len(), 3);
}

/// Whether nobody is found that uses a Secret of the global namespace, if lists of the cluster-scoped kinds are answered like this.
async fn nobody(code: u16, was_known: bool) -> Result<bool, Error> {
    let (mut live, _) = server(move |path| match path.starts_with("global") {
        true => Err(code),
        false => Ok(Vec::new()),
    });
    if !was_known {
        // Nothing is watched there.
        let (clouds, providers) = (&live.resources.clouds, &live.resources.providers);
        let caches = &mut live.known.caches;
        caches.clouds.global = Cache::unwatched(Watch::ours("", "", &clouds.global), []);
        caches.providers.global = Cache::unwatched(Watch::ours("", "", &providers.global), []);
    }
    let users = live.users_of_secret(&central()).await?;
    Ok(users.needs.is_none())
}

/// Whoever lost the right to read the users of something cannot say that there are none.
#[tokio::test]
async fn a_lost_right_is_not_nobody_and_a_missing_kind_is() {
    assert!(nobody(404, true).await.unwrap());
    assert!(nobody(403, true).await.is_err());
    // An installation for single namespaces never has the right.
    assert!(nobody(403, false).await.unwrap());
    assert!(nobody(500, false).await.is_err());
}

#[tokio::test]
async fn what_has_hidden_users_stays_and_a_deletion_says_why() {
    let hidden = async || nobody(403, true).await.map(|_| Users::default());
    let object = |metadata: Value| serde_json::from_value(metadata).unwrap();
    let kept = unless_hidden(hidden().await, &object(json!({})), Users::default()).unwrap();
    assert_eq!(kept.needs, Some(Need::Has));
    let going = object(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    assert!(unless_hidden(hidden().await, &going, Users::default()).is_err());
}
