//! What becomes of a new object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::json;

use crate::kind::{Lamps, Streets, Variety};
use crate::plan::LIT_BY;
use crate::scene::{Scene, engine, eventually};

#[test]
fn a_new_object_gets_all_that_it_needs() {
    engine("created", check::<Lamps>);
}

#[test]
fn a_new_object_without_a_namespace_gets_all_that_it_needs() {
    engine("created-in-cluster", check::<Streets>);
}

async fn check<V: Variety>(scene: Scene) {
    let name = scene.lit::<V>("new", json!({ "front": "red" })).await;
    let lamp = scene.until_lit::<V>(&name).await;
    let traits = V::TRAITS;
    let metadata = &lamp.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    assert_eq!(finalizers, [traits.finalizer.unwrap()]);
    assert_eq!(
        metadata.labels.as_ref().unwrap()[LIT_BY],
        traits.field_manager
    );
    let written = entries(metadata.managed_fields.as_ref(), traits.field_manager);
    assert_eq!(written, [("Update", ""), ("Update", "status")]);
    for resource in [V::PLURAL.to_owned(), format!("{}/status", V::PLURAL)] {
        let patches = eventually("the request is in the audit log", async || {
            let patches = scene.requests("patch", &resource, &name);
            (!patches.is_empty())
                .then_some(patches)
                .ok_or(resource.clone())
        })
        .await;
        assert_eq!(patches.len(), 1, "{patches:?}");
    }

    let child = scene.children().get(&name).await.unwrap();
    let written = entries(child.metadata.managed_fields.as_ref(), traits.field_manager);
    assert_eq!(written, [("Apply", "")]);
    assert_eq!(
        child.data.unwrap(),
        [("front".to_owned(), "Red".to_owned())].into()
    );
    let owners = child.metadata.owner_references.unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0].kind, traits.kind);
    assert_eq!(owners[0].controller, Some(true));
    assert_eq!(Some(&owners[0].uid), metadata.uid.as_ref());
    let status = &lamp.data["status"];
    assert_eq!(status["child"], json!(child.metadata.uid));
    assert_eq!(
        status["lights"],
        json!({ "front": { "color": "red", "watts": 5 } })
    );

    let events = scene.events(&lamp, 2).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.reason.as_deref().unwrap(),
                event.message.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("Wired", "the lamp has a ConfigMap"),
            ("Lit", "the lamp shines")
        ]
    );
}

/// How a field manager wrote: the operation, and the subresource.
fn entries<'a>(managed: Option<&'a Vec<ManagedFieldsEntry>>, by: &str) -> Vec<(&'a str, &'a str)> {
    let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
    let managed = managed.into_iter().flatten();
    managed
        .filter(|entry| entry.manager.as_deref() == Some(by))
        .map(|entry| (text(&entry.operation), text(&entry.subresource)))
        .collect()
}
