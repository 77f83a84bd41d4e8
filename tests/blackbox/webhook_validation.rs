//! Browsers and BrowserConfigs that are checked before they are stored.

use podloom_tests::webhook::{Policy, Route, Webhook, address};
use podloom_tests::{Cluster, Said, Scene, blackbox_on, eventually, standard};
use serde_json::{Value, json};

fn config(name: &str, versions: &Value) -> Value {
    json!({
        "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig", "metadata": { "name": name },
        "spec": { "browsers": { "chrome": versions } },
    })
}

fn browser(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "selenosis.io/v1", "kind": "Browser", "metadata": { "name": name },
        "spec": { "browserName": "chrome", "browserVersion": version },
    })
}

fn kubectl(scene: &Scene, verb: &str, object: &Value) -> Said {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    serde_json::to_writer(&file, object).unwrap();
    let path = file.path().to_str().unwrap();
    let namespace = scene.namespace.as_str();
    let arguments = [verb, "--namespace", namespace, "--filename", path];
    scene.cluster.ask_kubectl(&arguments)
}

fn fine() -> Value {
    json!({ "image": "example.com/chrome:1" })
}

fn privileged() -> Value {
    json!({ "image": "example.com/chrome:1", "privileged": true })
}

/// A label that no pod can have.
fn invalid() -> Value {
    json!({ "image": "example.com/chrome:1", "labels": { "a b": "c" } })
}

/// Waits until the API server calls the webhooks.
async fn are_checked(scene: &Scene) {
    let denied = config("denied", &json!({ "1": privileged() }));
    eventually("BrowserConfigs are checked", async || {
        let said = kubectl(scene, "create", &denied);
        if said.is_done {
            kubectl(scene, "delete", &denied);
        }
        let is_checked = said.error.contains("plugin hardening denies its pod");
        is_checked.then_some(()).ok_or(said.error)
    })
    .await;
}

#[test]
fn objects_that_can_never_serve_are_refused_and_sessions_go_on() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-validation",
        async |scene| {
            let stored = config(
                "stored",
                &json!({ "bad": invalid(), "denied": privileged(), "good": fine() }),
            );
            let said = kubectl(&scene, "create", &stored);
            assert!(said.is_done, "{}", said.error);
            let bundle = standard();
            let sessions = scene
                .operator(&["--plugins", bundle.to_str().unwrap()])
                .await;
            let webhook = Webhook::new(&scene, Route::Service);
            let operator = webhook.spawn(&bundle, &[]);
            let listens = address(&operator).await;
            webhook.configure(listens, Policy::Fail);
            webhook.configure_validation(listens);
            operator.ready().await;
            webhook.serves().await;
            are_checked(&scene).await;

            mistakes_are_refused(&scene);
            what_is_stored_can_be_changed(&scene);
            an_unknown_version_is_warned_of(&scene).await;

            // Nothing of that is in the way of a session: its pods are checked twice, and its status is written.
            let seen = scene.watch_browsers().await;
            scene.browser("b", "good").await;
            seen.until_runs("b").await;
            scene.delete_browser("b").await;
            seen.until_gone("b").await;
            assert!(
                operator.metric("podloom_webhook_requests_total{endpoint=\"validate/browsers\"")
                    >= 1.0
            );
            drop(sessions);
        },
    );
}

/// Refused with the field, and the plugin.
fn mistakes_are_refused(scene: &Scene) {
    let said = kubectl(
        scene,
        "create",
        &config("denied", &json!({ "1": privileged(), "2": fine() })),
    );
    let expected = r#"admission webhook "browserconfigs.podloom.dev" denied the request: spec.browsers.chrome.1: plugin hardening denies its pod: "#;
    assert!(
        !said.is_done && said.error.contains(expected),
        "{}",
        said.error
    );
    let said = kubectl(
        scene,
        "create",
        &config("invalid", &json!({ "1": invalid() })),
    );
    let expected = r#"denied the request: spec.browsers.chrome.1: "a b" is not a valid label key"#;
    assert!(
        !said.is_done && said.error.contains(expected),
        "{}",
        said.error
    );
}

/// What is stored with mistakes can still be changed, but gets no new ones.
fn what_is_stored_can_be_changed(scene: &Scene) {
    let repaired = config(
        "stored",
        &json!({ "bad": invalid(), "denied": privileged(), "good": fine(), "new": fine() }),
    );
    let said = kubectl(scene, "replace", &repaired);
    assert!(said.is_done, "{}", said.error);
    for warning in [
        "Warning: spec.browsers.chrome.bad: ",
        "Warning: spec.browsers.chrome.denied: plugin hardening",
    ] {
        assert!(said.error.contains(warning), "{}", said.error);
    }
    let worse = config(
        "stored",
        &json!({ "bad": invalid(), "denied": privileged(), "good": privileged() }),
    );
    let said = kubectl(scene, "replace", &worse);
    let expected =
        "denied the request: spec.browsers.chrome.good: plugin hardening denies its pod: ";
    assert!(
        !said.is_done && said.error.contains(expected),
        "{}",
        said.error
    );
}

/// A Browser that nothing serves yet is admitted with a warning.
async fn an_unknown_version_is_warned_of(scene: &Scene) {
    let mut unknown = browser("unknown", "9");
    unknown["metadata"]["annotations"] = json!({ "selenosis.io/options": "[]" });
    let said = kubectl(scene, "create", &unknown);
    let expected = r#"denied the request: metadata.annotations["selenosis.io/options"]: "#;
    assert!(
        !said.is_done && said.error.contains(expected),
        "{}",
        said.error
    );
    let mut attempt = 0;
    eventually("the warning lists what there is", async || {
        attempt += 1;
        let name = format!("unknown-{attempt}");
        let said = kubectl(scene, "create", &browser(&name, "9"));
        let expected = r#"chrome has no version "9", available: "#;
        let line = said.error.lines().find(|line| line.contains(expected));
        let is_listed = said.is_done
            && line.is_some_and(|line| {
                line.starts_with("Warning: spec.browserVersion: ") && line.ends_with("good, new")
            });
        is_listed.then_some(()).ok_or(said.error)
    })
    .await;
}
