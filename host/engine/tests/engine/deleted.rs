//! How an object goes.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::core::ApiResource;
use podloom_engine::answer::{Deleted, Stored};
use podloom_engine::error::Attempt;
use podloom_engine::write::{Deletion, Target};
use serde_json::{Value, json};

use crate::kind::{Lamps, Streets, Variety};
use crate::scene::{Scene, engine, until, until_gone};

/// A finalizer that is not ours.
const OTHERS: &str = "example.com/other";

#[test]
fn an_object_goes_after_its_child_and_others_finalizers_stay() {
    engine("deleted", check::<Lamps>);
}

#[test]
fn an_object_without_a_namespace_goes_after_its_child() {
    engine("deleted-in-cluster", check::<Streets>);
}

async fn check<V: Variety>(scene: Scene) {
    let name = scene.lit::<V>("l", json!({ "front": "red" })).await;
    let (lamps, children) = (scene.lamps::<V>(), scene.children());
    let ours = V::TRAITS.finalizer.unwrap();
    let finalizers = |names: &[&str]| json!({ "metadata": { "finalizers": names } });
    scene.merge::<V>(&name, finalizers(&[OTHERS, ours])).await;
    scene.merge_child(&name, finalizers(&[OTHERS])).await;
    lamps.delete(&name, &DeleteParams::default()).await.unwrap();
    until(&children, &name, "is asked to go", |child| {
        child.metadata.deletion_timestamp.is_some()
    })
    .await;
    let lamp = lamps.get(&name).await.unwrap();
    assert_eq!(lamp.metadata.finalizers.unwrap(), [OTHERS, ours]);

    // It goes, and somebody takes its name.
    scene.merge_child(&name, finalizers(&[])).await;
    let others = children
        .create(&PostParams::default(), &config_map(&name))
        .await;
    let others = others.unwrap().metadata;
    let lamp = until(&lamps, &name, "is released", |lamp| {
        !lamp
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|name| name == ours)
    })
    .await;
    assert_eq!(lamp.metadata.finalizers.as_ref().unwrap(), &[OTHERS]);
    let reasons: Vec<_> = scene
        .events(&lamp, 3)
        .await
        .into_iter()
        .map(|event| event.reason)
        .collect();
    assert_eq!(reasons.last().unwrap().as_deref(), Some("Dark"));
    scene.merge::<V>(&name, finalizers(&[])).await;
    until_gone(&lamps, &name).await;
    let there = children.get(&name).await.unwrap().metadata;
    assert_eq!(
        (there.uid, there.resource_version),
        (others.uid, others.resource_version)
    );
}

#[test]
fn an_object_of_another_uid_is_not_deleted() {
    engine("deleted-uid", async |scene| {
        let children = scene.children();
        let created = children
            .create(&PostParams::default(), &config_map("c"))
            .await;
        let before = created.unwrap().metadata.uid.unwrap();
        children
            .delete("c", &DeleteParams::default())
            .await
            .unwrap();
        let created = children
            .create(&PostParams::default(), &config_map("c"))
            .await;
        let now = created.unwrap().metadata.uid.unwrap();
        let target = Target {
            client: &scene.client,
            resource: &ApiResource::erase::<ConfigMap>(&()),
            namespace: Some(&scene.namespace),
            name: "c",
            field_manager: "lamplighter",
        };
        const DELETE: Attempt = Attempt::new("DeleteChild", "delete configmap");
        let gone = target
            .delete(&before, Deletion::Force, DELETE)
            .await
            .unwrap();
        assert_eq!(gone, Deleted::Gone);
        let there = children.get("c").await.unwrap();
        assert_eq!(there.metadata.uid.as_ref(), Some(&now));

        let asked = target.delete(&now, Deletion::Force, DELETE).await.unwrap();
        assert_eq!(asked, Deleted::Asked);
        until_gone(&children, "c").await;
        let read = target.read::<Value>(Attempt::READ).await.unwrap();
        assert!(read.is_none(), "{read:?}");
        let again = target.delete(&now, Deletion::Force, DELETE).await.unwrap();
        assert_eq!(again, Deleted::Gone);
    });
}

/// Server-side apply creates what is missing, and a UID says that it must not.
#[test]
fn a_child_that_became_anothers_is_not_applied_over() {
    engine("applied-uid", async |scene| {
        let children = scene.children();
        let created = children
            .create(&PostParams::default(), &config_map("c"))
            .await;
        let now = created.unwrap().metadata;
        let target = Target {
            client: &scene.client,
            resource: &ApiResource::erase::<ConfigMap>(&()),
            namespace: Some(&scene.namespace),
            name: "c",
            field_manager: "lamplighter",
        };
        const APPLY: Attempt = Attempt::new("ApplyChild", "apply configmap");
        let old = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "front": "Red" },
            "metadata": { "name": "c", "uid": "00000000-0000-0000-0000-000000000000" },
        });
        let applied = target.apply::<Value>(&old, APPLY).await.unwrap();
        assert!(matches!(applied, Stored::Exists), "{applied:?}");
        let there = children.get("c").await.unwrap().metadata;
        assert_eq!(there.resource_version, now.resource_version);

        children
            .delete("c", &DeleteParams::default())
            .await
            .unwrap();
        let error = target.apply::<Value>(&old, APPLY).await.unwrap_err();
        assert_eq!(error.reason(), "ApplyChild");
        assert!(children.get_opt("c").await.unwrap().is_none());
    });
}

/// Somebody's.
fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "whose": "mine" } }))
        .unwrap()
}
