//! The life cycle of a Browser for every behaviour of its pod: what a watching client sees, and that nothing is left.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams};
use podloom_api::{Browser, ContainerState};
use podloom_tests::blackbox;

/// For each behaviour of the pod, what a client sees of the Browser until it is gone.
const ENDINGS: [(&str, &[&str]); 17] = [
    (
        "browser-completes",
        &[
            "Pending",
            "Running",
            "Succeeded Completed: container browser terminated: Completed (exit code 0)",
            "gone",
        ],
    ),
    (
        "browser-exits",
        &[
            "Pending",
            "Running",
            "Failed Error: container browser terminated: Error (exit code 1)",
            "gone",
        ],
    ),
    (
        "crash-loop",
        &[
            "Pending",
            "Failed CrashLoopBackOff: pod container browser failed: CrashLoopBackOff - back-off restarting failed container",
            "gone",
        ],
    ),
    (
        "create-container-config-error",
        &[
            "Pending",
            "Failed CreateContainerConfigError: pod container browser failed: CreateContainerConfigError - secret \"missing\" not found",
            "gone",
        ],
    ),
    (
        "err-image-pull",
        &[
            "Pending",
            "Failed ErrImagePull: pod container browser failed: ErrImagePull - failed to pull and unpack image \"example.com/chrome:1\": not found",
            "gone",
        ],
    ),
    (
        "evicted",
        &[
            "Pending",
            "Failed Evicted: pod has failed with reason: Evicted - The node was low on resource: memory.",
            "gone",
        ],
    ),
    (
        "failed",
        &[
            "Pending",
            "Failed Error: pod has failed with reason: Error - container browser exited with code 1",
            "gone",
        ],
    ),
    (
        "failed-oom",
        &[
            "Pending",
            "Failed OOMKilled: pod has failed with reason: OOMKilled - container exceeded memory limit",
            "gone",
        ],
    ),
    (
        "image-pull-backoff",
        &[
            "Pending",
            "Failed ImagePullBackOff: pod container browser failed: ImagePullBackOff - Back-off pulling image \"example.com/chrome:1\"",
            "gone",
        ],
    ),
    (
        "init-failed",
        &[
            "Pending",
            "Failed Error: pod container prepare terminated: Error (exit code 1)",
            "gone",
        ],
    ),
    (
        "init-image-pull-backoff",
        &[
            "Pending",
            "Failed ImagePullBackOff: pod container prepare failed: ImagePullBackOff - Back-off pulling image \"example.com/prepare:1\"",
            "gone",
        ],
    ),
    (
        "oom-killed",
        &[
            "Pending",
            "Failed OOMKilled: pod container browser terminated: OOMKilled (exit code 137)",
            "gone",
        ],
    ),
    (
        "seleniferous-completes",
        &[
            "Pending",
            "Running",
            "Succeeded Completed: container seleniferous terminated: Completed (exit code 0)",
            "gone",
        ],
    ),
    (
        "seleniferous-exits",
        &[
            "Pending",
            "Running",
            "Failed Error: container seleniferous terminated: Error (exit code 1)",
            "gone",
        ],
    ),
    (
        "sidecar-image-pull-backoff",
        &[
            "Pending",
            "Failed ImagePullBackOff: pod container seleniferous failed: ImagePullBackOff - Back-off pulling image \"example.com/seleniferous:1\"",
            "gone",
        ],
    ),
    (
        "succeeded",
        &[
            "Pending",
            "Succeeded Completed: all containers completed",
            "gone",
        ],
    ),
    (
        "succeeds-later",
        &[
            "Pending",
            "Running",
            "Succeeded Completed: all containers completed",
            "gone",
        ],
    ),
];

/// Behaviours with which a session does not end, and what a client sees.
const LIVES: [(&str, &[&str]); 4] = [
    ("running", &["Pending", "Running"]),
    ("sidecar-exits", &["Pending", "Running"]),
    ("native-sidecar", &["Pending", "Running"]),
    ("pending", &["Pending"]),
];

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

#[test]
fn a_session_ends_as_its_pod_does() {
    blackbox("life-cycle-ends", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        for (behaviour, _) in ENDINGS {
            scene.browser(behaviour, behaviour).await;
        }
        let mut stories = Vec::new();
        for (behaviour, _) in ENDINGS {
            let story = seen.until_gone(behaviour).await;
            pods.until_away(behaviour).await;
            assert_eq!(pods.uids(behaviour).len(), 1, "{behaviour}");
            stories.push((behaviour, story));
        }
        let expected = ENDINGS.map(|(behaviour, story)| (behaviour, owned(story)));
        assert_eq!(stories, expected);
        scene.nothing_is_left().await;
    });
}

#[test]
fn a_session_runs_until_it_is_deleted() {
    blackbox("life-cycle-lives", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        for (behaviour, _) in LIVES {
            scene.browser(behaviour, behaviour).await;
        }
        for (behaviour, story) in LIVES {
            let last = story.last().copied();
            seen.until_is(behaviour, "has reached its phase", |browser| {
                phase(browser) == last
            })
            .await;
        }
        // This session ends a second after it runs. The others started earlier, so they have had enough time to end.
        scene.browser("last", "browser-exits").await;
        seen.until_gone("last").await;
        let exited = |pod: &Pod| {
            let statuses = pod
                .status
                .as_ref()
                .and_then(|status| status.container_statuses.as_ref());
            let proxy = statuses
                .into_iter()
                .flatten()
                .find(|status| status.name == "proxy");
            proxy.is_some_and(|proxy| {
                proxy
                    .state
                    .as_ref()
                    .is_some_and(|state| state.terminated.is_some())
            })
        };
        pods.until_is("sidecar-exits", "has lost a sidecar", exited)
            .await;
        seen.until_is("sidecar-exits", "reports it", |browser| {
            let statuses = browser
                .status
                .as_ref()
                .and_then(|status| status.container_statuses.as_ref());
            let proxy = statuses
                .into_iter()
                .flatten()
                .find(|status| status.name == "proxy");
            proxy.is_some_and(|proxy| {
                proxy
                    .state
                    .as_ref()
                    .is_some_and(|state| matches!(state, ContainerState::Terminated(_)))
            })
        })
        .await;
        for (behaviour, _) in LIVES {
            scene.delete_browser(behaviour).await;
        }
        for (behaviour, story) in LIVES {
            let expected = [owned(story), owned(&["gone"])].concat();
            assert_eq!(seen.until_gone(behaviour).await, expected, "{behaviour}");
            assert_eq!(pods.uids(behaviour).len(), 1, "{behaviour}");
        }
        scene.nothing_is_left().await;
    });
}

fn phase(browser: &Browser) -> Option<&'static str> {
    Some(browser.status.as_ref()?.phase?.as_str())
}

#[test]
fn a_deleted_pod_takes_its_session_with_it() {
    blackbox("life-cycle-pod-deleted", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let names: Vec<String> = (0..10).map(|number| format!("b{number}")).collect();
        for name in &names {
            scene.browser(name, "running").await;
        }
        for (number, name) in names.iter().enumerate() {
            seen.until_is(name, "runs", |browser| phase(browser) == Some("Running"))
                .await;
            // Some as `kubectl delete pod` does it, some as `kubectl delete pod --force`.
            let how = match number % 2 {
                0 => DeleteParams::default(),
                _ => DeleteParams::default().grace_period(0),
            };
            scene.pods().delete(name, &how).await.unwrap();
        }
        for name in &names {
            let story = seen.until_gone(name).await;
            // The operator may see the pod only after it is gone, or while it is being deleted.
            let pod_was_deleted = ["Pending", "Running", "gone"];
            let pod_was_lost = [
                "Pending",
                "Running",
                "Failed PodLost: the pod is gone, and a session never gets a second one",
                "gone",
            ];
            assert!(
                story == pod_was_deleted || story == pod_was_lost,
                "{name}: {story:?}"
            );
        }
        scene.nothing_is_left().await;
        for name in &names {
            assert_eq!(pods.uids(name).len(), 1, "{name}");
        }
    });
}

#[test]
fn an_evicted_session_reports_the_reason() {
    blackbox("life-cycle-evicted", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        for behaviour in ["running", "stuck-terminating"] {
            scene.browser(behaviour, behaviour).await;
            seen.until_is(behaviour, "runs", |browser| {
                phase(browser) == Some("Running")
            })
            .await;
            let evicted = scene.pods().evict(behaviour, &EvictParams::default()).await;
            evicted.unwrap();
            let failed = seen
                .until_is(behaviour, "has failed", |browser| {
                    phase(browser) == Some("Failed")
                })
                .await;
            let status = failed.status.unwrap();
            assert_eq!(status.reason.as_deref(), Some("EvictionByEvictionAPI"));
            let message = status.message.unwrap();
            let start = "pod disrupted: EvictionByEvictionAPI - ";
            assert!(message.starts_with(start), "{message}");
        }
        seen.until_gone("running").await;
        let events = [
            "Normal PodCreated: ",
            "Warning PodDisrupted: EvictionByEvictionAPI: pod disrupted: EvictionByEvictionAPI - ",
            "Normal Deleted: ",
        ];
        scene.events_are("running", &events).await;
        // Without a kubelet, its pod would stay until --pod-deletion-timeout.
        let at_once = DeleteParams::default().grace_period(0);
        scene
            .pods()
            .delete("stuck-terminating", &at_once)
            .await
            .unwrap();
        seen.until_gone("stuck-terminating").await;
        assert_eq!(pods.uids("running").len(), 1);
        scene.nothing_is_left().await;
    });
}

#[test]
fn a_session_that_is_deleted_at_once_leaves_nothing() {
    blackbox("life-cycle-short", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let pods = scene.watch_pods().await;
        let names: Vec<String> = (0..20).map(|number| format!("b{number}")).collect();
        for name in &names {
            scene.browser(name, "running").await;
            scene.delete_browser(name).await;
        }
        for name in &names {
            seen.until_gone(name).await;
            assert!(pods.uids(name).len() <= 1, "{name}");
        }
        scene.nothing_is_left().await;
    });
}

#[test]
fn a_new_browser_with_an_old_name_gets_a_new_pod() {
    blackbox("life-cycle-again", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        for round in 1..=5 {
            scene.browser("again", "running").await;
            let browser = seen
                .until_is("again", "runs", |browser| phase(browser) == Some("Running"))
                .await;
            assert_eq!(pods.uids("again").len(), round);
            let pod = scene.pods().get("again").await.unwrap();
            let owner = &pod.metadata.owner_references.unwrap()[0];
            assert_eq!(Some(&owner.uid), browser.metadata.uid.as_ref());
            scene.delete_browser("again").await;
            seen.until_gone("again").await;
        }
    });
}
