//! A pod that has a Browser's name but does not belong to it.

use podloom_tests::{Cluster, blackbox, blackbox_on};
use serde_json::json;

#[test]
fn a_pod_of_another_owner_is_left_alone() {
    blackbox("names-foreign", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let cases = [
            ("plain", json!({})),
            // The operator's watch selects pods by this label.
            (
                "labelled",
                json!({ "labels": { "selenosis.io/browser.name": "chrome" } }),
            ),
            (
                "owned",
                json!({ "labels": { "selenosis.io/browser.name": "chrome" } }),
            ),
        ];
        for (name, metadata) in &cases {
            let mut metadata = metadata.clone();
            metadata["name"] = (*name).into();
            if *name == "owned" {
                let owner = scene.create(
                    kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
                        scene.client.clone(),
                        &scene.namespace,
                    ),
                    json!({ "metadata": { "name": "owner" } }),
                );
                metadata["ownerReferences"] = json!([{
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                    "uid": owner.await.metadata.uid, "controller": true,
                }]);
            }
            let pod = json!({ "metadata": metadata, "spec": { "containers": [{ "name": "c", "image": "c:1" }] } });
            scene.create(scene.pods(), pod).await;
        }
        for (name, _) in &cases {
            pods.until_is(name, "runs", |pod| {
                pod.status
                    .as_ref()
                    .is_some_and(|status| status.pod_ip.is_some())
            })
            .await;
        }
        for (name, _) in &cases {
            scene.browser(name, "running").await;
        }
        for (name, _) in &cases {
            let story = seen.until_gone(name).await;
            assert_eq!(
                story,
                [
                    format!(
                        "Failed PodNameConflict: pod {name} exists and does not belong to this Browser: delete it, or create a Browser with another name"
                    ),
                    "gone".to_owned()
                ]
            );
            let pod = scene.pods().get(name).await.unwrap();
            assert_eq!(pods.uids(name), [pod.metadata.uid.unwrap()]);
            assert_eq!(pod.metadata.deletion_timestamp, None);
        }
    });
}

#[test]
fn a_browser_does_not_use_the_pod_of_an_earlier_one() {
    blackbox_on(Cluster::without_operator, "names-earlier", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        // Two Browsers with one name: the first is deleted while its pod is stuck and no operator runs that would force it.
        let mut operator = scene.operator(&["--pod-deletion-timeout", "1s"]).await;
        scene.browser("b", "stuck-terminating").await;
        seen.until_is("b", "runs", |browser| {
            browser
                .status
                .as_ref()
                .is_some_and(|status| status.pod_ip.is_some())
        })
        .await;
        operator.kill();
        scene.delete_browser("b").await;
        operator.restart();
        seen.until_gone("b").await;
        scene.browser("b", "running").await;
        seen.until_is("b", "runs", |browser| {
            browser
                .status
                .as_ref()
                .is_some_and(|status| status.pod_ip.is_some())
        })
        .await;
        assert_eq!(pods.uids("b").len(), 2);
    });
}
