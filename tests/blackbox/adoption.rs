//! Taking over Browsers from alcounit/browser-controller: they have the same finalizer and labels, and a status without our fields.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_api::{Browser, Phase};
use podloom_tests::{Cluster, Scene, Watched, blackbox_on};
use serde_json::{Value, json};

/// The labels of a Browser and its pod.
fn labels_of(name: &str) -> Value {
    json!({
        "selenosis.io/browser": name,
        "selenosis.io/browser.name": "chrome",
        "selenosis.io/browser.version": behaviour(name),
    })
}

/// Creates a Browser and its pod as the other controller does; the pod gets these labels.
async fn left_behind(scene: &Scene, name: &str, labels: Value) {
    let behaviour = behaviour(name);
    let browser = scene
        .browser_with(
            name,
            behaviour,
            json!({
                "finalizers": ["browserpod.selenosis.io/finalizer"],
                "labels": labels_of(name),
            }),
        )
        .await;
    let mut labels = labels;
    labels["kubelet.test/behaviour"] = behaviour.into();
    let pod = json!({
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": name, "uid": browser.metadata.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "hostname": name,
            "restartPolicy": "Never",
            "containers": [
                { "name": "browser", "image": "example.com/chrome:1" },
                { "name": "seleniferous", "image": "example.com/seleniferous:1" },
            ],
        },
    });
    scene.create(scene.pods(), pod).await;
}

async fn publish(scene: &Scene, name: &str, status: Value) {
    let status = Patch::Merge(json!({ "status": status }));
    let browsers = scene.browsers();
    browsers
        .patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
}

fn is_ours(browser: &Browser) -> bool {
    browser.status.as_ref().is_some_and(|status| {
        status.conditions.is_some()
            && status.phase == Some(Phase::Running)
            && status.pod_uid.is_some()
    })
}

/// The Browsers that the other controller may leave behind, by their names.
const LEFT: [&str; 7] = [
    "running",
    // Its pod lacks the label that our watch selects.
    "unlabelled",
    // It has a pod, but no status yet.
    "starting",
    "failed",
    "leaked",
    "deleted",
    // Its pod was deleted while no controller was running.
    "lost",
];

fn behaviour(name: &str) -> &'static str {
    match name {
        "failed" => "image-pull-backoff",
        "leaked" => "oom-killed",
        _ => "running",
    }
}

async fn leave_all(scene: &Scene, pods: &Watched<Pod>) {
    for name in LEFT {
        let labels = match name {
            "unlabelled" => json!({}),
            name => labels_of(name),
        };
        left_behind(scene, name, labels).await;
    }
    for name in LEFT.into_iter().filter(|name| behaviour(name) == "running") {
        let pod = pods.until_is(name, "runs", |pod| {
            let status = pod.status.as_ref();
            status.is_some_and(|status| status.pod_ip.is_some())
        });
        let status = pod.await.status.unwrap();
        if name != "starting" {
            let running = json!({
                "phase": "Running", "podIP": status.pod_ip, "startTime": status.start_time,
                "containerStatuses": [{ "name": "browser", "image": "example.com/chrome:1", "restartCount": 0 }],
            });
            publish(scene, name, running).await;
        }
    }
    let message = "pod container browser failed: ImagePullBackOff - ";
    let failed = json!({ "phase": "Failed", "reason": "ImagePullBackOff", "message": message });
    publish(scene, "failed", failed).await;
    let leaked = json!({ "phase": "Failed", "message": "pod container browser terminated" });
    publish(scene, "leaked", leaked).await;
    scene.delete_browser("deleted").await;
    delete_pod(scene, "lost").await;
    pods.until_away("lost").await;
}

async fn delete_pod(scene: &Scene, name: &str) {
    let pods = scene.pods();
    pods.delete(name, &DeleteParams::default()).await.unwrap();
}

#[test]
fn sessions_of_another_controller_go_on() {
    blackbox_on(Cluster::without_operator, "adoption", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        leave_all(&scene, &pods).await;
        let _operator = scene.operator(&[]).await;
        for name in ["running", "unlabelled", "starting"] {
            let browser = seen.until_is(name, "is ours", is_ours).await;
            let pod = scene.pods().get(name).await.unwrap();
            assert_eq!(browser.status.unwrap().pod_uid, pod.metadata.uid, "{name}");
        }
        for name in ["failed", "leaked", "deleted"] {
            seen.until_gone(name).await;
        }
        let lost = "Failed PodLost: the pod is gone, and a session never gets a second one";
        assert_eq!(seen.until_gone("lost").await, ["Running", lost, "gone"]);
        // The operator also notices that a pod is gone if its watch never showed it.
        delete_pod(&scene, "unlabelled").await;
        seen.until_gone("unlabelled").await;
        for name in ["running", "starting"] {
            scene.delete_browser(name).await;
            seen.until_gone(name).await;
        }
        scene.nothing_is_left().await;
        for name in LEFT {
            assert_eq!(pods.uids(name).len(), 1, "{name}");
        }
    });
}
