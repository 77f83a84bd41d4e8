//! The status of a Browser, the Events about it, and that unchanged objects are not written.

use kube::api::ListParams;
use podloom_api::{Browser, Phase};
use podloom_tests::{Cluster, Scene, blackbox, blackbox_on, eventually};
use serde_json::{Value, json};

fn runs(browser: &Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

#[test]
fn a_status_shows_the_state_of_its_pod() {
    blackbox("status-fields", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("b", "running").await;
        let browser = seen.until_is("b", "runs", runs).await;
        let pod = scene.pods().get("b").await.unwrap();
        let (browser, pod) = (json!(browser), json!(pod));
        let (status, of_pod) = (&browser["status"], &pod["status"]);
        assert_eq!(status["podIP"], of_pod["podIP"]);
        assert_eq!(status["podUID"], pod["metadata"]["uid"]);
        assert_eq!(status["startTime"], of_pod["startTime"]);
        assert_eq!(
            status["observedGeneration"],
            browser["metadata"]["generation"]
        );
        check_containers(status, of_pod);
        check_conditions(status);
        check_mutations(status, &pod);
        // Clients select by these labels.
        for (key, value) in [
            ("selenosis.io/browser", "b"),
            ("selenosis.io/browser.name", "chrome"),
            ("selenosis.io/browser.version", "running"),
        ] {
            assert_eq!(browser["metadata"]["labels"][key], value);
            assert_eq!(pod["metadata"]["labels"][key], value);
        }
        let finalizers = &browser["metadata"]["finalizers"];
        assert_eq!(*finalizers, json!(["browserpod.selenosis.io/finalizer"]));
    });
}

fn check_containers(status: &Value, of_pod: &Value) {
    let containers = status["containerStatuses"].as_array().unwrap();
    let of_pod = of_pod["containerStatuses"].as_array().unwrap();
    assert_eq!((containers.len(), of_pod.len()), (2, 2));
    for (container, of_pod) in containers.iter().zip(of_pod) {
        for field in ["name", "state", "image", "restartCount"] {
            assert_eq!(container[field], of_pod[field], "{field}");
        }
    }
    let port = json!({ "name": "session", "containerPort": 4445, "protocol": "TCP" });
    assert_eq!(containers[1]["ports"], json!([port]));
}

fn check_conditions(status: &Value) {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().map(|condition| {
        let [type_, status, reason] =
            ["type", "status", "reason"].map(|field| text(&condition[field]));
        format!("{type_}={status} {reason}")
    });
    let expected = [
        "ConfigResolved=True Resolved",
        "PodCreated=True PodCreated",
        "Ready=True Running",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// The chain's report of what it did, in annotations and status.
fn check_mutations(status: &Value, pod: &Value) {
    let annotations = &pod["metadata"]["annotations"];
    let mutations = &status["mutations"];
    assert_eq!(mutations["chain"], annotations["podloom.dev/chain"]);
    let mut plugins: Value =
        serde_json::from_str(text(&annotations["podloom.dev/mutations"])).unwrap();
    for plugin in plugins.as_array_mut().unwrap() {
        // The pod tells which paths, the status how many.
        let paths = plugin.as_object_mut().unwrap().remove("paths");
        let count = paths.map_or(0, |paths| paths.as_array().unwrap().len());
        assert_eq!(Some(count as u64), plugin["writes"].as_u64());
    }
    assert_eq!(mutations["plugins"], plugins);
    let names: Vec<&Value> = plugins
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| &plugin["name"])
        .collect();
    assert_eq!(names, ["labels", "sidecar", "hardening"]);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn events_report_a_session_from_its_start_to_its_end() {
    blackbox("status-events", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("well", "running").await;
        scene.browser("badly", "browser-exits").await;
        scene.browser("ended", "browser-completes").await;
        seen.until_is("well", "runs", runs).await;
        scene.delete_browser("well").await;
        let well = [
            "Normal PodCreated: created pod well",
            "Normal Deleted: the session is over",
        ];
        scene.events_are("well", &well).await;
        seen.until_gone("ended").await;
        let ended = [
            "Normal PodCreated: created pod ended",
            "Normal Completed: Completed: container browser terminated: Completed (exit code 0)",
        ];
        scene.events_are("ended", &ended).await;
        let badly = [
            "Normal PodCreated: created pod badly",
            "Warning PodFailed: Error: container browser terminated: Error (exit code 1)",
            "Normal Deleted: ",
        ];
        scene.events_are("badly", &badly).await;
    });
}

/// The name and resource version of every object in the scene.
async fn versions(scene: &Scene) -> Vec<(Option<String>, Option<String>)> {
    let all = ListParams::default();
    let browsers = scene.browsers().list_metadata(&all).await.unwrap().items;
    let configs = scene.configs().list_metadata(&all).await.unwrap().items;
    let pods = scene.pods().list_metadata(&all).await.unwrap().items;
    let browsers = browsers.into_iter().map(|object| object.metadata);
    let configs = configs.into_iter().map(|object| object.metadata);
    let pods = pods.into_iter().map(|object| object.metadata);
    browsers
        .chain(configs)
        .chain(pods)
        .map(|metadata| (metadata.name, metadata.resource_version))
        .collect()
}

#[test]
fn unchanged_objects_are_not_written() {
    blackbox_on(Cluster::without_operator, "status-stable", async |scene| {
        let operator = scene.operator(&["--resync", "500ms"]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("waiting", "pending").await;
        seen.until_is("waiting", "waits", |browser| {
            let status = browser.status.as_ref();
            status.is_some_and(|status| status.container_statuses.is_some())
        })
        .await;
        for number in 0..5 {
            let name = format!("b{number}");
            scene.browser(&name, "running").await;
            seen.until_is(&name, "runs", runs).await;
        }
        let passes = |controller: &str| {
            operator.metric(&format!(
                "podloom_reconcile_total{{controller=\"{controller}\""
            ))
        };
        let before = versions(&scene).await;
        let begun = (passes("browser"), passes("browser-config"));
        eventually("every object was reconciled several times", async || {
            let now = (passes("browser"), passes("browser-config"));
            let enough = now.0 >= begun.0 + 30.0 && now.1 >= begun.1 + 5.0;
            enough
                .then_some(())
                .ok_or(format!("{now:?} after {begun:?}"))
        })
        .await;
        assert_eq!(versions(&scene).await, before);
    });
}
