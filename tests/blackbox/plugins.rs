//! Plugins that reject a pod, and plugins that fail on it.

use podloom_api::{Browser, Phase};
use podloom_tests::{Bundle, Cluster, blackbox, blackbox_on};
use serde_json::{Value, json};

fn runs(browser: &Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

fn breaks(policy: &str) -> Bundle {
    Bundle::of(&format!(
        "\n- {{ name: breaks, file: breaks.wasm, allow: [/metadata/labels], failurePolicy: {policy} }}"
    ))
}

fn broken() -> Value {
    json!({ "labels": { "break": "please" } })
}

#[test]
fn a_rejected_pod_is_never_created() {
    blackbox("plugins-deny", async |scene| {
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        scene.browser("b", "privileged").await;
        let story = seen.until_gone("b").await;
        assert_eq!(story.len(), 2, "{story:?}");
        assert!(
            story[0].starts_with("Failed MutationDenied: hardening: the pod does not meet the Pod Security Standard restricted: \
             /spec/containers/[name=browser]/securityContext/privileged: "),
            "{story:?}"
        );
        assert!(pods.of("b").is_empty());
        let events = [
            "Warning MutationDenied: MutationDenied: hardening: ",
            "Normal Deleted: ",
        ];
        scene.events_are("b", &events).await;
    });
}

#[test]
fn a_plugin_that_fails_prevents_the_pod() {
    blackbox_on(Cluster::without_operator, "plugins-fail", async |scene| {
        let bundle = breaks("Fail");
        let plugins = bundle.path().to_str().unwrap();
        let operator = scene
            .operator(&["--plugins", plugins, "--pod-creation-timeout", "6s"])
            .await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        scene.browser_with("broken", "running", broken()).await;
        scene.browser("whole", "running").await;
        let pending = seen
            .until_is("broken", "reports why it waits", |browser| {
                let status = serde_json::to_value(&browser.status).unwrap();
                let conditions = status["conditions"].as_array();
                conditions.into_iter().flatten().any(|condition| {
                    condition["type"] == "PodCreated"
                        && condition["status"] == "False"
                        && condition["reason"] == "MutationFailed"
                })
            })
            .await;
        assert_eq!(pending.status.unwrap().phase, Some(Phase::Pending));
        seen.until_is("whole", "runs", runs).await;
        let story = seen.until_gone("broken").await;
        assert_eq!(story.len(), 3, "{story:?}");
        assert!(
            story[1].starts_with("Failed MutationFailed: breaks: "),
            "{story:?}"
        );
        assert!(
            pods.of("broken").is_empty(),
            "no pod is created without the plugin"
        );
        // A repeated warning is counted in the first Event.
        let events = [
            "Warning MutationFailed: MutationFailed: breaks: ",
            "Normal Deleted: ",
        ];
        scene.events_are("broken", &events).await;
        let trapped = operator.metric("podloom_plugin_traps_total{plugin=\"breaks\"");
        assert!(trapped >= 2.0, "the plugin was called only {trapped} times");
    });
}

#[test]
fn a_plugin_whose_failure_is_ignored_leaves_no_trace() {
    blackbox_on(Cluster::without_operator, "plugins-ignore", async |scene| {
        let bundle = breaks("Ignore");
        let plugins = bundle.path().to_str().unwrap();
        let _operator = scene.operator(&["--plugins", plugins]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser_with("broken", "running", broken()).await;
        let browser = seen.until_is("broken", "runs", runs).await;
        let mutations = browser.status.unwrap().mutations.unwrap();
        assert_eq!(mutations.plugins, []);
    });
}

/// A plugin's text gets into logs and Events, which people and programs read line by line.
#[test]
fn a_plugin_cannot_forge_a_log_line() {
    blackbox_on(Cluster::without_operator, "plugins-forge", async |scene| {
        let bundle =
            Bundle::of("\n- { name: forges, file: forges.wasm, allow: [/metadata/labels] }");
        let plugins = bundle.path().to_str().unwrap();
        let operator = scene.operator(&["--plugins", plugins]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let forge = json!({ "labels": { "forge": "please" } });
        scene.browser_with("denied", "running", forge).await;
        scene.browser("noted", "running").await;
        seen.until_is("noted", "runs", runs).await;
        let story = seen.until_gone("denied").await;

        let line = r#"fine {"level":"FORGED","fields":{"message":"all is lost"}}  \u{202e}enif"#;
        let denied = format!("Failed MutationDenied: forges: {line}");
        assert_eq!(story.first(), Some(&denied), "{story:?}");
        let event = format!("Warning MutationDenied: MutationDenied: forges: {line}");
        scene
            .events_are("denied", &[&event, "Normal Deleted: "])
            .await;
        let noted = format!("Normal PodCreated: created pod noted; forges: {line}");
        scene.events_are("noted", &[&noted]).await;
        let lines = operator.log();
        assert!(lines.iter().all(|line| line["level"] != "FORGED"));
        assert!(!operator.logged(&["FORGED"]).is_empty());
    });
}

#[test]
fn without_a_valid_chain_no_pod_is_created() {
    blackbox_on(Cluster::without_operator, "plugins-none", async |scene| {
        let bundle = Bundle::of("[{ name: missing, file: missing.wasm, allow: [] }]");
        let plugins = bundle.path().to_str().unwrap();
        let operator = scene.spawn_operator(&["--plugins", plugins]);
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        scene.browser("b", "running").await;
        let why = podloom_tests::eventually("/readyz reports why it is not ready", async || {
            let (status, body) = operator.get("/readyz")?;
            let is_reported =
                status == 503 && body.contains("[-]chain failed") && body.contains("missing.wasm");
            is_reported.then_some(body.clone()).ok_or(body)
        })
        .await;
        assert!(why.contains("chain.yaml"), "{why}");
        assert!(pods.of("b").is_empty());
        drop(seen);
    });
}
