//! Taking over what alcounit/browser-controller left: the same finalizer and labels, and a status without our fields.

use kube::api::{Patch, PatchParams};
use podloom_api::{Browser, Phase};
use podloom_tests::{Cluster, Scene, blackbox_on};
use serde_json::{Value, json};

/// A Browser and its pod as the other controller makes them; the pod is asked to carry these labels.
async fn left_behind(scene: &Scene, name: &str, behaviour: &str, labels: Value) {
    let browser = scene
        .browser_with(
            name,
            behaviour,
            json!({
                "finalizers": ["browserpod.selenosis.io/finalizer"],
                "labels": {
                    "selenosis.io/browser": name,
                    "selenosis.io/browser.name": "chrome",
                    "selenosis.io/browser.version": behaviour,
                },
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

#[test]
fn sessions_of_another_controller_go_on() {
    blackbox_on(Cluster::without_operator, "adoption", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let labelled = |name: &str| json!({ "selenosis.io/browser": name });
        left_behind(&scene, "running", "running", labelled("running")).await;
        // A pod that our own watch does not show.
        left_behind(&scene, "unlabelled", "running", json!({})).await;
        left_behind(&scene, "starting", "running", labelled("starting")).await;
        left_behind(&scene, "failed", "image-pull-backoff", labelled("failed")).await;
        left_behind(&scene, "leaked", "oom-killed", labelled("leaked")).await;
        left_behind(&scene, "deleted", "running", labelled("deleted")).await;
        for name in ["running", "unlabelled", "starting", "deleted"] {
            let pod = pods.until_is(name, "runs", |pod| {
                pod.status
                    .as_ref()
                    .is_some_and(|status| status.pod_ip.is_some())
            });
            let status = pod.await.status.unwrap();
            if name != "starting" {
                publish(&scene, name, json!({
                    "phase": "Running", "podIP": status.pod_ip, "startTime": status.start_time,
                    "containerStatuses": [{ "name": "browser", "image": "example.com/chrome:1", "restartCount": 0 }],
                })).await;
            }
        }
        publish(
            &scene,
            "failed",
            json!({
                "phase": "Failed", "reason": "ImagePullBackOff",
                "message": "pod container browser failed: ImagePullBackOff - ",
            }),
        )
        .await;
        publish(
            &scene,
            "leaked",
            json!({ "phase": "Failed", "message": "pod container browser terminated" }),
        )
        .await;
        scene.delete_browser("deleted").await;
        // One whose pod went while nobody was there.
        left_behind(&scene, "lost", "running", labelled("lost")).await;
        publish(
            &scene,
            "lost",
            json!({ "phase": "Running", "podIP": "10.1.2.3" }),
        )
        .await;
        scene
            .pods()
            .delete("lost", &Default::default())
            .await
            .unwrap();
        pods.until_pod_gone("lost").await;

        let _operator = scene.operator(&[]).await;
        for name in ["running", "unlabelled", "starting"] {
            let browser = seen.until_is(name, "is ours", is_ours).await;
            let pod = scene.pods().get(name).await.unwrap();
            assert_eq!(browser.status.unwrap().pod_uid, pod.metadata.uid, "{name}");
        }
        for name in ["failed", "leaked", "deleted", "lost"] {
            seen.until_gone(name).await;
        }
        let lost = seen.story("lost");
        assert_eq!(
            lost,
            [
                "Running",
                "Failed PodLost: the pod is gone, and a session has one pod only",
                "gone"
            ]
        );
        // A pod that no watch shows is noticed all the same.
        scene
            .pods()
            .delete("unlabelled", &Default::default())
            .await
            .unwrap();
        seen.until_gone("unlabelled").await;
        for name in ["running", "starting"] {
            scene.delete_browser(name).await;
            seen.until_gone(name).await;
        }
        scene.nothing_is_left().await;
        for name in [
            "running",
            "unlabelled",
            "starting",
            "failed",
            "leaked",
            "deleted",
            "lost",
        ] {
            assert_eq!(pods.uids(name).len(), 1, "{name}");
        }
    });
}
