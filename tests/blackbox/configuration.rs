//! BrowserConfigs: how Browsers find them, and what their status says.

use podloom_api::{BrowserConfig, Phase};
use podloom_tests::{Cluster, Scene, Watched, blackbox, blackbox_on, eventually};
use serde_json::{Value, json};

fn runs(browser: &podloom_api::Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

#[test]
fn a_browser_without_a_configuration_fails() {
    blackbox("configuration-none", async |scene| {
        scene.config("it", ONE).await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        scene.browser("none", "2").await;
        let story = seen.until_gone("none").await;
        // Clients read the start of the message; the rest is for people.
        let failed =
            "Failed BrowserPodSpec: Browser configuration not found: chrome has no version \"2\"";
        assert!(story[1].starts_with(failed), "{story:?}");
        assert_eq!((story[0].as_str(), story[2].as_str()), ("Pending", "gone"));
        assert!(pods.of("none").is_empty(), "no pod was ever created");
        let events = [
            "Warning ConfigNotFound: BrowserPodSpec: Browser configuration not found",
            "Normal Deleted: ",
        ];
        scene.events_are("none", &events).await;
    });
}

#[test]
fn a_browser_waits_for_its_configuration() {
    blackbox_on(
        Cluster::without_operator,
        "configuration-late",
        async |scene| {
            // A busy machine may take longer than five seconds to apply two files.
            let _operator = scene.operator(&["--config-grace", "60s"]).await;
            let seen = scene.watch_browsers().await;
            scene.browser("early", "running").await;
            let waiting = seen
                .until_is("early", "waits", |browser| browser.status.is_some())
                .await;
            let status = serde_json::to_value(waiting.status).unwrap();
            assert_eq!(status["phase"], "Pending");
            assert_eq!(condition(&status, "ConfigResolved")["status"], "False");
            scene.behaviours().await;
            let running = seen.until_is("early", "runs", runs).await;
            let status = serde_json::to_value(running.status).unwrap();
            assert_eq!(condition(&status, "ConfigResolved")["status"], "True");
        },
    );
}

#[test]
fn one_file_holds_browsers_and_their_configuration_in_any_order() {
    blackbox_on(
        Cluster::without_operator,
        "configuration-file",
        async |scene| {
            let _operator = scene.operator(&["--config-grace", "60s"]).await;
            let seen = scene.watch_browsers().await;
            for (order, name) in [
                (["config", "browser"], "after"),
                (["browser", "config"], "before"),
            ] {
                let version = format!("for-{name}");
                let documents = order.map(|kind| match kind {
                "config" => format!(
                    "apiVersion: selenosis.io/v1\nkind: BrowserConfig\nmetadata: {{ name: {name}, namespace: {ns} }}\n\
                     spec: {{ browsers: {{ chrome: {{ {version}: {{ image: 'example.com/chrome:1' }} }} }} }}\n",
                    ns = scene.namespace
                ),
                _ => format!(
                    "apiVersion: selenosis.io/v1\nkind: Browser\nmetadata: {{ name: {name}, namespace: {ns} }}\n\
                     spec: {{ browserName: chrome, browserVersion: {version} }}\n",
                    ns = scene.namespace
                ),
            });
                scene.cluster.apply_text(&documents.join("---\n"));
                seen.until_is(name, "runs", runs).await;
            }
        },
    );
}

#[test]
fn a_browser_that_asks_for_more_than_is_allowed_fails() {
    blackbox("configuration-session-options", async |scene| {
        let spec = "{ browsers: { chrome: { '1': { image: 'example.com/chrome:1' } } }, \
                    sessionOptions: { labels: [team], env: { browser: [LANG, APP_*] } } }";
        scene.config("limited", spec).await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let asking = |name: &str, value: &str| {
            let options = json!({ "containers": { "browser": { "env": { name: value } } } });
            json!({ "annotations": { "selenosis.io/options": options.to_string() } })
        };
        scene
            .browser_with("modest", "1", asking("APP_MODE", "test"))
            .await;
        scene
            .browser_with("greedy", "1", asking("LD_PRELOAD", "/tmp/secret.so"))
            .await;
        seen.until_is("modest", "runs", runs).await;
        assert_eq!(
            seen.until_gone("greedy").await,
            [
                "Failed InvalidSelenosisOptions: annotation selenosis.io/options: containers.browser.env asks for LD_PRELOAD, but sessionOptions of BrowserConfig limited allow only LANG, APP_* there",
                "gone"
            ]
        );
        assert!(pods.of("greedy").is_empty(), "no pod was ever created");
    });
}

#[test]
fn a_browser_adds_labels_and_environment_by_its_options() {
    blackbox("configuration-options", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let options = json!({
            "labels": { "team": "search" },
            "containers": { "browser": { "env": { "LANG": "de_DE" } }, "nobody": { "env": { "A": "B" } } },
        });
        let annotated =
            |text: &str| json!({ "annotations": { "selenosis.io/options": text, "kept": "yes" } });
        scene
            .browser_with("good", "running", annotated(&options.to_string()))
            .await;
        scene
            .browser_with("bad", "running", annotated("{\"containers\": 7}"))
            .await;
        seen.until_is("good", "runs", runs).await;
        let pod = serde_json::to_value(scene.pods().get("good").await.unwrap()).unwrap();
        assert_eq!(pod["metadata"]["labels"]["team"], "search");
        assert_eq!(pod["metadata"]["annotations"]["kept"], "yes");
        assert_eq!(
            pod["metadata"]["annotations"]["selenosis.io/options"],
            Value::Null
        );
        let environment = pod["spec"]["containers"][0]["env"].to_string();
        assert_eq!(environment, r#"[{"name":"LANG","value":"de_DE"}]"#);
        assert_eq!(
            seen.until_gone("bad").await,
            [
                "Failed InvalidSelenosisOptions: annotation selenosis.io/options: containers is a number, use an object",
                "gone"
            ]
        );
    });
}

#[test]
fn names_that_are_not_valid_label_values_work() {
    blackbox("configuration-names", async |scene| {
        let version = "139.0 (beta) ".repeat(8);
        let config = json!({
            "metadata": { "name": "odd" },
            "spec": { "browsers": { "Chrome": { &version: { "image": "example.com/chrome:1" } } } },
        });
        scene.create(scene.configs(), config).await;
        let seen = scene.watch_browsers().await;
        scene.browser("odd", &version).await;
        let browser = seen.until_is("odd", "runs", runs).await;
        let labels = browser.metadata.labels.unwrap();
        assert_eq!(
            labels["selenosis.io/browser.version"],
            podloom_api::names::label_value(&version)
        );
    });
}

async fn accepted(seen: &Watched<BrowserConfig>, name: &str, reason: &str) -> Value {
    let what = format!("is {reason}");
    let is_reported = |config: &BrowserConfig| {
        let status = serde_json::to_value(&config.status).unwrap();
        condition(&status, "Accepted")["reason"] == reason
            && status["observedGeneration"] == json!(config.metadata.generation)
    };
    serde_json::to_value(seen.until_is(name, &what, is_reported).await).unwrap()
}

fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == type_);
    found.cloned().unwrap_or_default()
}

const ONE: &str = "browsers: { chrome: { '1': { image: 'example.com/chrome:1' } } }";

#[test]
fn the_status_of_a_config_says_whether_it_serves() {
    blackbox("configuration-status", async |scene| {
        let seen = Watched::new(scene.configs()).await;
        scene.config("valid", ONE).await;
        let valid = accepted(&seen, "valid", "Valid").await;
        assert_eq!(condition(&valid["status"], "Accepted")["status"], "True");
        assert_eq!(valid["status"]["version"].as_str().unwrap().len(), 16);

        let twins =
            "browsers: { firefox: { '1': { image: 'a:1' } }, Firefox: { '1': { image: 'b:1' } } }";
        scene.config("twins", twins).await;
        let twins = accepted(&seen, "twins", "InvalidTemplate").await;
        assert_eq!(condition(&twins["status"], "Accepted")["status"], "False");

        // Creation times are in whole seconds; of two equally old BrowserConfigs, the name decides.
        scene.config("younger", ONE).await;
        let younger = accepted(&seen, "younger", "DuplicateBrowser").await;
        let message = condition(&younger["status"], "Accepted")["message"].to_string();
        assert!(
            message.contains("is served by the older BrowserConfig valid"),
            "{message}"
        );

        // When the older one is deleted, the younger one takes over.
        scene
            .configs()
            .delete("valid", &Default::default())
            .await
            .unwrap();
        accepted(&seen, "younger", "Valid").await;
    });
}

#[test]
fn the_status_of_a_config_says_when_it_changed() {
    blackbox("configuration-changes", async |scene| {
        let seen = Watched::new(scene.configs()).await;
        scene.config("it", ONE).await;
        let before = accepted(&seen, "it", "Valid").await;
        // Times are in whole seconds, so wait for the next one.
        eventually("the next second starts", async || {
            let now = now();
            let last = before["status"]["lastUpdated"].as_str().unwrap();
            (now.as_str() > last).then_some(()).ok_or(now)
        })
        .await;
        let pairs = [
            // A change without effect keeps the version.
            (
                json!({ "template": { "imagePullPolicy": "Always" }, "browsers": { "chrome": { "1": { "imagePullPolicy": "IfNotPresent" } } } }),
                json!({ "template": { "imagePullPolicy": null }, "browsers": { "chrome": { "1": { "imagePullPolicy": "IfNotPresent" } } } }),
            ),
        ];
        let mut last = before["status"].clone();
        for (first, same) in pairs {
            let changed = edit(&scene, &seen, &first).await;
            assert_ne!(changed["version"], last["version"]);
            assert!(changed["lastUpdated"].as_str() > last["lastUpdated"].as_str());
            let unchanged = edit(&scene, &seen, &same).await;
            assert_eq!(unchanged["version"], changed["version"]);
            assert_eq!(unchanged["lastUpdated"], changed["lastUpdated"]);
            last = unchanged;
        }
    });
}

/// Edits the spec, and returns the status once it is about that spec.
async fn edit(scene: &Scene, seen: &Watched<BrowserConfig>, spec: &Value) -> Value {
    let patch = kube::api::Patch::Merge(json!({ "spec": spec }));
    let configs = scene.configs();
    let edited = configs
        .patch("it", &Default::default(), &patch)
        .await
        .unwrap();
    let config = seen.until_is("it", "reports the new generation", |config| {
        let observed = config
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        observed == edited.metadata.generation
    });
    serde_json::to_value(config.await.status).unwrap()
}

/// The current time in the format of Kubernetes.
fn now() -> String {
    let output = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_config_with_the_finalizer_of_older_versions_is_deleted() {
    blackbox("configuration-old", async |scene| {
        let seen = Watched::new(scene.configs()).await;
        let config = json!({
            "metadata": { "name": "old", "finalizers": ["browserconfig.selenosis.io/finalizer"] },
            "spec": { "browsers": { "chrome": { "1": { "image": "example.com/chrome:1" } } } },
        });
        scene.create(scene.configs(), config).await;
        accepted(&seen, "old", "Valid").await;
        scene.config("new", &ONE.replace('1', "2")).await;
        let new = accepted(&seen, "new", "Valid").await;
        assert_eq!(
            new["metadata"]["finalizers"],
            Value::Null,
            "new BrowserConfigs get no finalizer"
        );
        scene
            .configs()
            .delete("old", &Default::default())
            .await
            .unwrap();
        seen.until_away("old").await;
    });
}

#[test]
fn a_config_that_is_edited_while_browsers_start_harms_none() {
    blackbox("configuration-edited", async |scene| {
        scene
            .config("it", &ONE.replace("chrome:1", "chrome:0"))
            .await;
        let seen = scene.watch_browsers().await;
        let images: Vec<String> = (0..10)
            .map(|number| format!("example.com/chrome:{number}"))
            .collect();
        for (number, image) in images.iter().enumerate() {
            for browser in 0..4 {
                scene.browser(&format!("b{number}-{browser}"), "1").await;
            }
            let patch =
                json!({ "spec": { "browsers": { "chrome": { "1": { "image": image } } } } });
            let patch = kube::api::Patch::Merge(patch);
            scene
                .configs()
                .patch("it", &Default::default(), &patch)
                .await
                .unwrap();
        }
        // An operator that knows version 2 knows the last image of version 1, too.
        let last = json!({ "spec": { "browsers": { "chrome": {
            "1": { "image": "example.com/chrome:last" }, "2": { "image": "example.com/chrome:last" },
        } } } });
        let last = kube::api::Patch::Merge(last);
        scene
            .configs()
            .patch("it", &Default::default(), &last)
            .await
            .unwrap();
        scene.browser("last", "2").await;
        seen.until_is("last", "runs", runs).await;
        scene.browser("latest", "1").await;
        seen.until_is("latest", "runs", runs).await;
        let image = async |name: &str| {
            let pod = scene.pods().get(name).await.unwrap();
            pod.spec.unwrap().containers[0].image.clone().unwrap()
        };
        assert_eq!(image("latest").await, "example.com/chrome:last");
        for number in 0..10 {
            for browser in 0..4 {
                let name = format!("b{number}-{browser}");
                seen.until_is(&name, "runs", runs).await;
                let image = image(&name).await;
                assert!(
                    images.contains(&image) || image.ends_with(":last"),
                    "{name}: {image}"
                );
            }
        }
    });
}
