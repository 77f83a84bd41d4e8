//! Timeouts: pods that never start, pods that never go, and how long failed Browsers are kept.

use std::time::{Duration, Instant};

use podloom_tests::{Cluster, blackbox_on};

#[test]
fn a_session_whose_pod_does_not_start_in_time_fails() {
    blackbox_on(
        Cluster::without_operator,
        "timeouts-creation",
        async |scene| {
            let _operator = scene.operator(&["--pod-creation-timeout", "8s"]).await;
            scene.behaviours().await;
            scene.config("unheard-of", UNHEARD_OF).await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            let cases = [
                ("pending", "container browser: ContainerCreating"),
                // The kubelet has reported nothing about it.
                ("unheard-of", ""),
                (
                    "unschedulable",
                    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
                ),
            ];
            for (version, _) in cases {
                scene.browser(version, version).await;
            }
            for (version, why) in cases {
                let story = seen.until_gone(version).await;
                let start = "Failed CreationTimeout: pod creation timeout exceeded after 8s";
                assert_eq!(story.len(), 3, "{story:?}");
                assert_eq!(story[0], "Pending");
                match why {
                    "" => assert_eq!(story[1], start),
                    why => assert!(
                        story[1].starts_with(&format!("{start}, {why}")),
                        "{story:?}"
                    ),
                }
                assert_eq!(pods.uids(version).len(), 1, "{version}");
                let events = [
                    "Normal PodCreated: ",
                    "Warning CreationTimeout: CreationTimeout: ",
                    "Normal Deleted: ",
                ];
                scene.events_are(version, &events).await;
            }
            scene.nothing_is_left().await;
        },
    );
}

/// A behaviour without a file: the status of the pod never changes.
const UNHEARD_OF: &str = "
browsers:
  chrome:
    unheard-of: { image: 'example.com/chrome:1', labels: { kubelet.test/behaviour: unheard-of } }
";

#[test]
fn a_pod_that_does_not_terminate_in_time_is_deleted_by_force() {
    blackbox_on(
        Cluster::without_operator,
        "timeouts-deletion",
        async |scene| {
            let _operator = scene.operator(&["--pod-deletion-timeout", "3s"]).await;
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            for name in ["browser-deleted", "pod-deleted"] {
                scene.browser(name, "stuck-terminating").await;
                seen.until_is(name, "runs", |browser| {
                    browser
                        .status
                        .as_ref()
                        .is_some_and(|status| status.pod_ip.is_some())
                })
                .await;
            }
            let begun = Instant::now();
            scene.delete_browser("browser-deleted").await;
            scene
                .pods()
                .delete("pod-deleted", &kube::api::DeleteParams::default())
                .await
                .unwrap();
            for name in ["browser-deleted", "pod-deleted"] {
                assert_eq!(seen.until_gone(name).await, ["Pending", "Running", "gone"]);
                pods.until_away(name).await;
            }
            // Times of objects are in whole seconds.
            assert!(
                begun.elapsed() > Duration::from_secs(2),
                "{:?}",
                begun.elapsed()
            );
            scene.nothing_is_left().await;
        },
    );
}

#[test]
fn failed_browsers_are_kept_as_long_as_configured() {
    blackbox_on(
        Cluster::without_operator,
        "timeouts-retention",
        async |scene| {
            let _operator = scene.operator(&["--failed-retention", "4s"]).await;
            scene.behaviours().await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            scene.browser("kept", "oom-killed").await;
            scene.browser("ended-well", "succeeded").await;
            seen.until_is("kept", "has failed", |browser| {
                browser
                    .status
                    .as_ref()
                    .is_some_and(|status| status.reason.is_some())
            })
            .await;
            let failed = Instant::now();
            pods.until_away("kept").await;
            assert!(
                seen.story("kept").iter().all(|line| line != "gone"),
                "the pod is deleted at once, the Browser is kept"
            );
            seen.until_gone("ended-well").await;
            let story = seen.until_gone("kept").await;
            assert!(
                failed.elapsed() > Duration::from_secs(2),
                "{:?}",
                failed.elapsed()
            );
            assert_eq!(
                story,
                [
                    "Pending",
                    "Failed OOMKilled: pod container browser terminated: OOMKilled (exit code 137)",
                    "gone"
                ]
            );
        },
    );
}
