//! In a namespace that enforces the restricted Pod Security Standard, the API server itself checks the pods from `hardening`.

use podloom_api::Phase;
use podloom_tests::{Cluster, blackbox, blackbox_on};
use serde_json::json;

const ENFORCED: &str = "pod-security.kubernetes.io/enforce";

#[test]
fn pods_from_hardening_are_accepted() {
    blackbox("pod-security", async |scene| {
        let scene = scene
            .beside("pod-security-restricted", json!({ ENFORCED: "restricted" }))
            .await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        for version in ["running", "native-sidecar"] {
            scene.browser(version, version).await;
            seen.until_is(version, "runs", |browser| {
                browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
            })
            .await;
        }
    });
}

#[test]
fn without_the_chain_the_rejection_is_reported() {
    blackbox_on(
        Cluster::without_operator,
        "pod-security-bare",
        async |scene| {
            let label = format!("{ENFORCED}=restricted");
            scene
                .cluster
                .kubectl(&["label", "namespace", &scene.namespace, &label]);
            let _operator = scene.operator(&["--pod-creation-timeout", "6s"]).await;
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            scene.browser("b", "running").await;
            seen.until_is("b", "reports why it waits", |browser| {
                let status = serde_json::to_value(&browser.status).unwrap();
                let conditions = status["conditions"].as_array();
                conditions.into_iter().flatten().any(|condition| {
                    let message = condition["message"].as_str().unwrap_or_default();
                    condition["type"] == "PodCreated"
                        && condition["reason"] == "PodForbidden"
                        && message.contains("violates PodSecurity \"restricted:latest\"")
                })
            })
            .await;
            let story = seen.until_gone("b").await;
            assert!(
                story[1].starts_with("Failed CreationTimeout: "),
                "{story:?}"
            );
            assert!(story[1].contains("violates PodSecurity"), "{story:?}");
            assert!(pods.of("b").is_empty());
        },
    );
}
