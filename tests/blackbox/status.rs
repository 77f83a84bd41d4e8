//! What the status of a Browser says, the Events about it, and that nothing is written without need.

use podloom_api::{Browser, Phase};
use podloom_tests::{Cluster, blackbox, blackbox_on, eventually};
use serde_json::{Value, json};

fn runs(browser: &Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

#[test]
fn a_status_tells_what_its_pod_does() {
    blackbox("status-fields", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("b", "running").await;
        let browser = seen.until_is("b", "runs", runs).await;
        let pod = scene.pods().get("b").await.unwrap();
        let pod_status = serde_json::to_value(pod.status.as_ref().unwrap()).unwrap();
        let status = serde_json::to_value(browser.status.as_ref().unwrap()).unwrap();

        assert_eq!(status["podIP"], pod_status["podIP"]);
        assert_eq!(status["podUID"], json!(pod.metadata.uid));
        assert_eq!(status["startTime"], pod_status["startTime"]);
        assert_eq!(
            status["observedGeneration"],
            json!(browser.metadata.generation)
        );
        let containers = status["containerStatuses"].as_array().unwrap();
        let names: Vec<&Value> = containers
            .iter()
            .map(|container| &container["name"])
            .collect();
        assert_eq!(names, ["browser", "seleniferous"]);
        for (container, of_pod) in containers
            .iter()
            .zip(pod_status["containerStatuses"].as_array().unwrap())
        {
            for field in ["name", "state", "image", "restartCount"] {
                assert_eq!(container[field], of_pod[field], "{field}");
            }
        }
        assert_eq!(
            containers[1]["ports"],
            json!([{ "name": "session", "containerPort": 4445, "protocol": "TCP" }])
        );
        let conditions = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|condition| {
                format!(
                    "{}={} {}",
                    text(&condition["type"]),
                    text(&condition["status"]),
                    text(&condition["reason"])
                )
            });
        assert_eq!(
            conditions.collect::<Vec<_>>(),
            [
                "ConfigResolved=True Resolved",
                "PodCreated=True PodCreated",
                "Ready=True Running"
            ]
        );

        // The chain's own account of what it did.
        let annotations = pod.metadata.annotations.unwrap();
        let mutations = &status["mutations"];
        assert_eq!(mutations["chain"], json!(annotations["podloom.dev/chain"]));
        let plugins: Value = serde_json::from_str(&annotations["podloom.dev/mutations"]).unwrap();
        assert_eq!(mutations["plugins"], plugins);
        let names: Vec<&Value> = plugins
            .as_array()
            .unwrap()
            .iter()
            .map(|plugin| &plugin["name"])
            .collect();
        assert_eq!(names, ["labels", "sidecar", "hardening"]);

        // What clients find it by.
        let labels = browser.metadata.labels.unwrap();
        let of_pod = pod.metadata.labels.unwrap();
        for (key, value) in [
            ("selenosis.io/browser", "b"),
            ("selenosis.io/browser.name", "chrome"),
            ("selenosis.io/browser.version", "running"),
        ] {
            assert_eq!(labels[key], value);
            assert_eq!(of_pod[key], value);
        }
        assert_eq!(
            browser.metadata.finalizers.unwrap(),
            ["browserpod.selenosis.io/finalizer"]
        );
    });
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn events_tell_a_session_from_its_beginning_to_its_end() {
    blackbox("status-events", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("well", "running").await;
        scene.browser("badly", "browser-exits").await;
        let browser = seen.until_is("well", "runs", runs).await;
        let address = browser.status.unwrap().pod_ip.unwrap();
        scene.delete_browser("well").await;
        let running = format!("Normal Running: the pod runs at {address}");
        let well = [
            "Normal PodCreated: created pod well",
            &running,
            "Normal Deleted: the session is over",
        ];
        scene.events_are("well", &well).await;
        let badly = [
            "Normal PodCreated: created pod badly",
            "Normal Running: ",
            "Warning PodFailed: container browser terminated: Error (exit code 1)",
            "Normal Deleted: ",
        ];
        scene.events_are("badly", &badly).await;
    });
}

#[test]
fn what_is_as_it_should_be_is_not_written() {
    blackbox_on(Cluster::without_operator, "status-stable", async |scene| {
        let operator = scene.operator(&["--resync", "500ms"]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let names: Vec<String> = (0..5).map(|number| format!("b{number}")).collect();
        for name in &names {
            scene.browser(name, "running").await;
        }
        scene.browser("waiting", "pending").await;
        for name in &names {
            seen.until_is(name, "runs", runs).await;
        }
        seen.until_is("waiting", "waits", |browser| {
            browser
                .status
                .as_ref()
                .is_some_and(|status| status.container_statuses.is_some())
        })
        .await;
        let versions = async || {
            let browsers = scene
                .browsers()
                .list_metadata(&Default::default())
                .await
                .unwrap()
                .items;
            let configs = scene
                .configs()
                .list_metadata(&Default::default())
                .await
                .unwrap()
                .items;
            let pods = scene
                .pods()
                .list_metadata(&Default::default())
                .await
                .unwrap()
                .items;
            let metadata = browsers
                .into_iter()
                .map(|object| object.metadata)
                .chain(configs.into_iter().map(|object| object.metadata))
                .chain(pods.into_iter().map(|object| object.metadata));
            metadata
                .map(|metadata| (metadata.name, metadata.resource_version))
                .collect::<Vec<_>>()
        };
        let passes = |controller: &str| {
            operator.metric(&format!(
                "podloom_reconcile_total{{controller=\"{controller}\""
            ))
        };
        let before = versions().await;
        let begun = (passes("browser"), passes("browser-config"));
        eventually("everything was looked at again and again", async || {
            let now = (passes("browser"), passes("browser-config"));
            let enough = now.0 >= begun.0 + 30.0 && now.1 >= begun.1 + 5.0;
            enough
                .then_some(())
                .ok_or(format!("{now:?} after {begun:?}"))
        })
        .await;
        assert_eq!(versions().await, before);
    });
}
