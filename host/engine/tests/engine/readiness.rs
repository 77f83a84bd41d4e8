//! Caches are named while they fill, no pass begins before all are filled, and objects are looked at again without a cause.

use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use podloom_engine::readiness::Readiness;
use serde_json::json;

use crate::kind::{Lanterns, start};
use crate::scene::{engine, eventually, soon};

const RESYNC: Duration = Duration::from_millis(300);
/// How often an object is looked at without a cause.
const LOOKS: u32 = 5;

#[test]
fn caches_are_awaited_and_objects_are_looked_at_again() {
    engine("readiness", async |scene| {
        let namespace = Some(scene.namespace.clone());
        let (scope, send_events) = scene.cluster.scope(namespace, RESYNC).await;
        let stage = &scene.cluster.stage;
        let awaited = scope.readiness.await_cache("street plans".to_owned());
        let (fill, filled) = oneshot::channel::<()>();
        let filled = filled.map(move |_| drop(awaited)).boxed();
        let work = start::<Lanterns, _>(&scope, stage, [filled]);
        let caches = ["ConfigMaps", "lanterns"]
            .map(|cache| format!("{cache} of namespace {}", scene.namespace));
        let all = [&caches[..], &["street plans".to_owned()]].concat();
        assert_eq!(sorted(&scope.readiness), sorted_names(&all));
        let name = scene
            .create::<Lanterns>("l", json!({ "front": "red" }))
            .await;
        assert_eq!(
            sorted(&scope.readiness),
            sorted_names(&all),
            "nobody has looked yet"
        );

        let controller = tokio::spawn(work);
        let sending = tokio::spawn(send_events);
        eventually("all caches but one are filled", async || {
            let awaited = scope.readiness.awaited();
            (awaited == ["street plans"])
                .then_some(())
                .ok_or(format!("{awaited:?}"))
        })
        .await;
        assert_eq!(
            stage.looks(&name),
            0,
            "it was looked at before all caches were filled"
        );
        fill.send(()).unwrap();
        scene.until_lit::<Lanterns>(&name).await;
        assert!(scope.readiness.awaited().is_empty());

        let written = scene.lamps::<Lanterns>().get(&name).await.unwrap().metadata;
        assert_eq!(written.finalizers, None);
        let before = stage.looks(&name);
        eventually("it is looked at without a cause", async || {
            let looks = stage.looks(&name) - before;
            (looks >= LOOKS)
                .then_some(())
                .ok_or(format!("{looks} looks"))
        })
        .await;
        let seen = scene.lamps::<Lanterns>().get(&name).await.unwrap().metadata;
        assert_eq!(seen.resource_version, written.resource_version);

        scope.stop.cancel();
        soon("the controller ends", controller).await.unwrap();
        drop(scope);
        soon("the last Events are sent", sending).await.unwrap();
    });
}

fn sorted(readiness: &Readiness) -> Vec<String> {
    sorted_names(&readiness.awaited())
}

fn sorted_names(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}
