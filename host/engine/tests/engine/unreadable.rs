//! Objects that our types cannot hold.

use kube::api::DeleteParams;
use serde_json::json;

use crate::kind::{Lamps, Streets, Variety};
use crate::scene::{Scene, engine, until_gone};

/// Colors are words.
const UNREADABLE: u32 = 7;

#[test]
fn an_unreadable_object_is_left_alone_and_released() {
    engine("unreadable", async |scene| {
        left_alone::<Lamps>(&scene).await;
        let name = broken::<Lamps>(&scene).await;
        let lamps = scene.lamps::<Lamps>();
        lamps.delete(&name, &DeleteParams::default()).await.unwrap();
        until_gone(&lamps, &name).await;
    });
}

#[test]
fn an_unreadable_object_whose_kind_keeps_it_waits_for_repair() {
    engine("unreadable-kept", async |scene| {
        left_alone::<Streets>(&scene).await;
        let name = broken::<Streets>(&scene).await;
        let streets = scene.lamps::<Streets>();
        streets
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        let deleted = streets.get(&name).await.unwrap().metadata;
        // What is created later is looked at later, and takes several requests.
        scene
            .lit::<Streets>("later", json!({ "front": "red" }))
            .await;
        let kept = streets.get(&name).await.unwrap().metadata;
        assert_eq!(kept.resource_version, deleted.resource_version);
        assert_eq!(
            kept.finalizers.unwrap(),
            [Streets::TRAITS.finalizer.unwrap()]
        );
        assert!(scene.children().get_opt(&name).await.unwrap().is_some());

        let repair = json!({ "spec": { "lights": { "front": "green" } } });
        scene.merge::<Streets>(&name, repair).await;
        until_gone(&streets, &name).await;
        until_gone(&scene.children(), &name).await;
    });
}

/// One that never was readable gets nothing, and the next one all.
async fn left_alone<V: Variety>(scene: &Scene) {
    let name = scene
        .create::<V>("unreadable", json!({ "front": UNREADABLE }))
        .await;
    let created = scene.lamps::<V>().get(&name).await.unwrap();
    let event = scene.events(&created, 1).await.remove(0);
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reason.as_deref(), Some("Unreadable"));
    let message = event.message.unwrap();
    let why = "the operator cannot read this object and leaves it alone: invalid type: integer";
    assert!(message.starts_with(why), "{message}");
    let created = created.metadata;
    scene.lit::<V>("next", json!({ "front": "red" })).await;
    let seen = scene.lamps::<V>().get(&name).await.unwrap().metadata;
    assert_eq!(seen.resource_version, created.resource_version);
    assert_eq!(seen.finalizers, None);
    assert!(scene.children().get_opt(&name).await.unwrap().is_none());
    let repair = json!({ "spec": { "lights": { "front": "green" } } });
    scene.merge::<V>(&name, repair).await;
    scene.until_lit::<V>(&name).await;
}

/// One that was lit, and that somebody made unreadable.
async fn broken<V: Variety>(scene: &Scene) -> String {
    let name = scene.lit::<V>("broken", json!({ "front": "red" })).await;
    let change = json!({ "spec": { "lights": { "front": UNREADABLE } } });
    scene.merge::<V>(&name, change).await;
    name
}
