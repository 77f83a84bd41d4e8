use podloom_api::CloudRef;
use podloom_scripted::{scripted, status};
use serde_json::{Value, json};

use crate::fixtures::{IN_USE, caches, cloud as a_cloud, provider, resources};
use crate::in_use::{Guard, confirm};
use crate::resolve::{Backend, resolve};

/// A Cloud of the namespace `team` with a cluster-scoped provider.
fn backend() -> Backend {
    let caches = caches(
        &[a_cloud(Some("team"), "GlobalInfrastructureProvider")],
        &[provider(None, "https://im.example.com")],
    );
    let cloud = json!({ "kind": "Cloud", "name": "dummy" });
    let cloud: CloudRef = serde_json::from_value(cloud).unwrap();
    resolve("team", &cloud, &caches).unwrap()
}

const GUARDED: &[&str] = &[IN_USE];

/// What the API server says of metadata with these finalizers.
fn there(name: &str, finalizers: &[&str]) -> (u16, Value) {
    let object = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": name, "finalizers": finalizers },
    });
    (200, object)
}

async fn asked(cloud: (u16, Value), provider: (u16, Value)) -> Guard {
    const GROUP: &str = "GET /apis/infrastructure.podloom.dev/v1alpha1";
    let (client, _) = scripted(move |request, _| match request.strip_prefix(GROUP) {
        Some("/namespaces/team/clouds/dummy") => cloud.clone(),
        Some("/globalinfrastructureproviders/im") => provider.clone(),
        _ => unreachable!("{request}"),
    });
    confirm(&client, &resources(), &backend()).await.unwrap()
}

#[tokio::test]
async fn both_must_be_guarded() {
    let (cloud, provider) = (there("dummy", GUARDED), there("im", GUARDED));
    assert_eq!(asked(cloud.clone(), provider.clone()).await, Guard::InPlace);
    assert_eq!(asked(there("dummy", &[]), provider).await, Guard::Awaited);
    assert_eq!(asked(cloud, there("im", &["theirs"])).await, Guard::Awaited);
}

#[tokio::test]
async fn what_is_being_deleted_or_gone_gets_no_infrastructures() {
    let cloud = there("dummy", GUARDED);
    let mut going = there("im", GUARDED);
    going.1["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(asked(cloud.clone(), going).await, Guard::Deleted);
    let gone = (404, status(404, "NotFound", "there is none"));
    assert_eq!(asked(cloud, gone).await, Guard::Deleted);
}
