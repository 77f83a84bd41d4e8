//! Other clients that write to the same objects.

use futures::{StreamExt, stream};
use kube::api::{Patch, PatchParams};
use podloom_api::{Browser, Phase};
use podloom_tests::{Change, Cluster, Scene, blackbox_on};
use serde_json::{Value, json};

fn is_correct(browser: &Browser) -> bool {
    let metadata = &browser.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let labels = metadata.labels.as_ref();
    let is_labelled = labels.is_some_and(|labels| {
        labels.get("selenosis.io/browser").map(String::as_str) == Some(name)
            && labels.contains_key("selenosis.io/browser.name")
            && labels.contains_key("selenosis.io/browser.version")
    });
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let is_held = finalizers
        .iter()
        .any(|name| name == "browserpod.selenosis.io/finalizer");
    let status = browser.status.as_ref();
    let is_reported = status.is_some_and(|status| {
        status.phase == Some(Phase::Running)
            && status
                .pod_ip
                .as_deref()
                .is_some_and(|ip| ip.starts_with("10.1."))
            && status.pod_uid.as_deref().is_some_and(|uid| uid != "wrong")
            && status.message.is_none()
            && status
                .container_statuses
                .as_ref()
                .is_some_and(|statuses| statuses.len() == 2)
    });
    is_labelled && is_held && is_reported
}

/// Changes by another client: to a Browser's metadata, and to its status.
fn interferences() -> Vec<(Option<Value>, Option<Value>)> {
    let labels = json!({ "labels": {
        "selenosis.io/browser": null, "selenosis.io/browser.name": "wrong", "selenosis.io/browser.version": null,
    } });
    vec![
        (Some(labels), None),
        (
            None,
            Some(json!({ "phase": "Pending", "podIP": "192.0.2.1", "message": "wrong" })),
        ),
        (Some(json!({ "finalizers": ["example.com/other"] })), None),
        (
            None,
            Some(json!({ "podUID": "wrong", "containerStatuses": [], "conditions": null })),
        ),
        (
            Some(json!({ "labels": null, "finalizers": null })),
            Some(json!({ "startTime": null, "observedGeneration": 77 })),
        ),
        (
            Some(json!({ "annotations": { "somebody": "was here" } })),
            None,
        ),
    ]
}

async fn interfere(scene: &Scene, name: &str) {
    let browsers = scene.browsers();
    for (metadata, status) in interferences() {
        if let Some(metadata) = metadata {
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            browsers
                .patch(name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
        if let Some(status) = status {
            let patch = Patch::Merge(json!({ "status": status }));
            browsers
                .patch_status(name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }
}

#[test]
fn changes_by_others_are_corrected() {
    blackbox_on(Cluster::without_operator, "interference", async |scene| {
        let _operator = scene.operator(&[]).await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let names: Vec<String> = (0..20).map(|number| format!("b{number}")).collect();
        let corrected = stream::iter(&names).map(async |name| {
            scene.browser(name, "running").await;
            // Wait for the pod: a status that names a pod which does not exist means that the session has lost its pod.
            pods.until_is(name, "is created", |_| true).await;
            // Once while it starts, and once when it runs.
            interfere(&scene, name).await;
            seen.until_is(name, "is corrected", is_correct).await;
            interfere(&scene, name).await;
            seen.until_is(name, "is corrected again", is_correct).await;
        });
        corrected.buffer_unordered(8).for_each(async |()| ()).await;
        for name in &names {
            assert_eq!(pods.uids(name).len(), 1, "{name}");
            scene.delete_browser(name).await;
        }
        for name in &names {
            seen.until_gone(name).await;
        }
        scene.nothing_is_left().await;
    });
}

#[test]
fn finalizers_of_others_are_left_alone() {
    blackbox_on(
        Cluster::without_operator,
        "interference-finalizer",
        async |scene| {
            let _operator = scene.operator(&[]).await;
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            let others = json!({ "finalizers": ["example.com/other"] });
            scene.browser_with("b", "running", others).await;
            seen.until_is("b", "runs", is_correct).await;
            scene.delete_browser("b").await;
            let freed = seen
                .until_is("b", "has lost our finalizer only", |browser| {
                    browser.metadata.finalizers.as_deref()
                        == Some(&["example.com/other".to_owned()])
                })
                .await;
            assert!(freed.metadata.deletion_timestamp.is_some());
            pods.until_away("b").await;
            scene
                .patch_browser("b", json!({ "metadata": { "finalizers": null } }))
                .await;
            seen.until_gone("b").await;
            let seen_pods = pods.changes();
            assert!(matches!(seen_pods.last(), Some(Change::Gone(_))));
            assert_eq!(pods.uids("b").len(), 1);
        },
    );
}
