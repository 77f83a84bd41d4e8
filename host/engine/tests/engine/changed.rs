//! What becomes of an object that changes, or whose child somebody else changes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use serde_json::json;

use crate::kind::{Lamps, Streets, Variety};
use crate::scene::{Scene, engine, until};

#[test]
fn a_child_follows_its_owner_and_keeps_what_others_wrote() {
    engine("changed", check::<Lamps>);
}

/// The next resync is ten minutes away, so nothing but the watch of the child can wake the owner.
#[test]
fn a_child_follows_its_owner_that_has_no_namespace() {
    engine("changed-in-cluster", check::<Streets>);
}

async fn check<V: Variety>(scene: Scene) {
    let lights = json!({ "front": "red", "back": "green" });
    let name = scene.lit::<V>("l", lights).await;
    let children = scene.children();
    let has = |expected: &[(&str, &str)]| {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let expected: BTreeMap<_, _> = expected.iter().map(own).collect();
        move |child: &ConfigMap| child.data.as_ref() == Some(&expected)
    };
    let by_somebody = json!({
        "metadata": { "labels": { "team": "a" } }, "data": { "left": "lamp-post" },
    });
    scene.merge_child(&name, by_somebody).await;

    let change = json!({ "spec": { "lights": { "front": "blue", "back": null } } });
    scene.merge::<V>(&name, change).await;
    let changed = [("front", "Blue"), ("left", "lamp-post")];
    let child = until(&children, &name, "follows the spec", has(&changed)).await;
    assert_eq!(child.metadata.labels.unwrap()["team"], "a");

    let other_color = json!({ "data": { "front": "Ultraviolet" } });
    scene.merge_child(&name, other_color).await;
    until(&children, &name, "is put right", has(&changed)).await;

    let deleted = children.delete(&name, &DeleteParams::default()).await;
    let uid = deleted
        .unwrap()
        .left()
        .map_or(child.metadata.uid, |object| object.metadata.uid);
    let anew = has(&[("front", "Blue")]);
    let back = until(&children, &name, "comes back", |child| {
        child.metadata.uid != uid && anew(child)
    })
    .await;
    let lamps = scene.lamps::<V>();
    until(&lamps, &name, "knows its new child", |lamp| {
        lamp.data["status"]["child"] == json!(back.metadata.uid)
    })
    .await;
}
