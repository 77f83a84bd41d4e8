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

/// How many objects have a status that is put right.
const SPOILED: u32 = 20;

/// A pass goes on with the answer to its write, so the event of the write needs no pass.
#[test]
fn our_own_status_begins_no_pass() {
    engine("status-idle", idle::<Lamps>);
}

#[test]
fn our_own_status_begins_no_pass_without_a_namespace() {
    engine("status-idle-in-cluster", idle::<Streets>);
}

async fn idle<V: Variety>(scene: Scene) {
    let mut names = Vec::new();
    for number in 0..SPOILED {
        let light = json!({ "front": "red" });
        names.push(scene.lit::<V>(&format!("l{number}"), light).await);
    }
    let looks = || -> u32 {
        let stage = &scene.cluster.stage;
        names.iter().map(|name| stage.looks(name)).sum()
    };
    let lamps = scene.lamps::<V>();
    // Events come in order, so those of all others came before.
    scene.lit::<V>("then", json!({})).await;
    let before = looks();
    for name in &names {
        let child = scene.children().get(name).await.unwrap().metadata.uid;
        scene
            .merge_status::<V>(name, json!({ "child": "spoiled" }))
            .await;
        until(&lamps, name, "has its status again", |lamp| {
            lamp.data["status"]["child"] == json!(child)
        })
        .await;
    }
    scene.lit::<V>("last", json!({})).await;
    let passes = looks() - before;
    // One for each change of somebody else. If our own writes began passes, there were twice as many; a busy machine may add a few.
    let expected = SPOILED..SPOILED + SPOILED / 2;
    assert!(expected.contains(&passes), "{passes} passes");
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
