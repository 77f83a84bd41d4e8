//! How a status is written: what differs, at any depth, and nobody else's conditions are lost.

use serde_json::json;

use crate::kind::{Lamps, Streets, Variety};
use crate::scene::{Scene, condition, engine, eventually, is_lit, soon, until};

#[test]
fn what_is_no_longer_wanted_is_removed_at_any_depth() {
    engine("status-depth", depth::<Lamps>);
}

#[test]
fn what_is_no_longer_wanted_is_removed_without_a_namespace() {
    engine("status-depth-in-cluster", depth::<Streets>);
}

#[test]
fn a_condition_that_comes_meanwhile_is_kept() {
    engine("status-condition", condition_meanwhile::<Lamps>);
}

#[test]
fn a_condition_that_comes_meanwhile_is_kept_without_a_namespace() {
    engine(
        "status-condition-in-cluster",
        condition_meanwhile::<Streets>,
    );
}

async fn depth<V: Variety>(scene: Scene) {
    let lights = json!({ "front": "red", "back": "green" });
    let name = scene.lit::<V>("l", lights).await;
    // The types of the kind have no such field, so they neither know nor want it.
    let by_somebody = json!({ "lights": { "back": { "note": "flickers" } } });
    scene.merge_status::<V>(&name, by_somebody).await;
    let change = json!({ "spec": { "lights": { "front": null, "back": "blue" } } });
    scene.merge::<V>(&name, change).await;
    let lamps = scene.lamps::<V>();
    until(&lamps, &name, "has one light less", |lamp| {
        let back = json!({ "color": "blue", "watts": 5, "note": "flickers" });
        is_lit(lamp) && lamp.data["status"]["lights"] == json!({ "back": back })
    })
    .await;
    let change = json!({ "spec": { "lights": { "back": null } } });
    scene.merge::<V>(&name, change).await;
    until(&lamps, &name, "has no lights", |lamp| {
        is_lit(lamp) && lamp.data["status"].get("lights").is_none()
    })
    .await;
}

async fn condition_meanwhile<V: Variety>(scene: Scene) {
    let name = scene.lit::<V>("l", json!({ "front": "red" })).await;
    let held = scene.cluster.stage.hold(&name);
    let change = json!({ "spec": { "lights": { "front": "blue" } } });
    scene.merge::<V>(&name, change).await;
    soon("a status is about to be written", held.reached.notified()).await;

    let lamp = scene.lamps::<V>().get(&name).await.unwrap();
    let cleaned = json!({
        "type": "Cleaned", "status": "True", "reason": "Polished", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let both = json!({ "conditions": [condition(&lamp, "Ready"), cleaned] });
    scene.merge_status::<V>(&name, both).await;
    held.go.notify_one();

    let lamps = scene.lamps::<V>();
    let lamp = until(&lamps, &name, "shines in the new color", |lamp| {
        is_lit(lamp) && lamp.data["status"]["lights"]["front"]["color"] == "blue"
    })
    .await;
    assert_eq!(condition(&lamp, "Cleaned"), cleaned);
    let resource = format!("{}/status", V::PLURAL);
    let conflicts = eventually("the conflict is in the audit log", async || {
        let mut writes = scene.requests("patch", &resource, &name);
        writes.retain(|write| write.status == 409);
        (!writes.is_empty()).then_some(writes).ok_or(String::new())
    })
    .await;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
}
