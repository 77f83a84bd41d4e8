//! Sessions with small requests, so that many run on two cores.

use std::fs;

use serde_json::{Value, json};

use crate::cluster::Cluster;

/// The namespace of the tests' sessions.
pub(crate) const NAMESPACE: &str = "sessions";

/// The image of their browser.
pub(crate) const IMAGE: &str = "example.com/browsers/small:1";

/// A browser that runs until it is stopped.
pub(crate) const CALM: &str = "1";

/// A browser that takes more memory than its container may.
pub(crate) const GREEDY: &str = "2";

fn configuration() -> Value {
    let resources = json!({ "requests": { "cpu": "10m" }, "limits": { "memory": "32Mi" } });
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": NAMESPACE,
                    "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
                },
            },
            {
                "apiVersion": "selenosis.io/v1",
                "kind": "BrowserConfig",
                "metadata": { "name": "small", "namespace": NAMESPACE },
                "spec": {
                    "template": {
                        "securityContext": { "runAsUser": 1000, "runAsGroup": 1000 },
                        "resources": resources,
                    },
                    "browsers": { "small": {
                        CALM: { "image": IMAGE },
                        GREEDY: { "image": IMAGE, "args": ["eat"] },
                    } },
                },
            },
        ],
    })
}

impl Cluster {
    /// Applies an object.
    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), object.to_string()).unwrap();
        self.kubectl(&["apply", "--filename", file.path().to_str().unwrap()]);
    }

    /// The namespace and the BrowserConfig of the tests' sessions.
    #[track_caller]
    pub(crate) fn configure_sessions(&self) {
        self.apply(&configuration());
    }

    #[track_caller]
    pub(crate) fn browse(&self, name: &str, version: &str) {
        self.apply(&json!({
            "apiVersion": "selenosis.io/v1",
            "kind": "Browser",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "browserName": "small", "browserVersion": version },
        }));
    }

    /// Waits until a Browser runs, and returns its pod.
    #[track_caller]
    pub(crate) fn until_running(&self, namespace: &str, name: &str) -> Value {
        self.eventually(&format!("Browser {name} runs"), || {
            let template = "--output=jsonpath={.status.phase} {.status.message}";
            let get = ["get", "browser", name, "--namespace", namespace, template];
            match self.try_kubectl(&get)? {
                phase if phase.starts_with("Running") => Ok(()),
                other => Err(other),
            }
        });
        let pod = "--output=jsonpath={.status.podName}";
        let taken = self.kubectl(&["get", "browser", name, "--namespace", namespace, pod]);
        let pod = if taken.is_empty() { name } else { &taken };
        self.get(&["pod", pod, "--namespace", namespace])
    }

    /// Starts a session, and returns its pod when it runs.
    #[track_caller]
    pub(crate) fn session(&self, name: &str) -> Value {
        self.browse(name, CALM);
        self.until_running(NAMESPACE, name)
    }

    /// The pod of a session that must still be the same, running and untouched.
    #[track_caller]
    pub(crate) fn assert_untouched(&self, before: &Value) {
        let name = before["metadata"]["name"].as_str().unwrap();
        let now = self.get(&["pod", name, "--namespace", NAMESPACE]);
        assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(now["metadata"]["labels"], before["metadata"]["labels"]);
        assert_eq!(now["spec"], before["spec"]);
        assert_eq!(now["status"]["phase"], "Running");
        assert_eq!(now["status"]["containerStatuses"][0]["restartCount"], 0);
    }

    /// Waits until a Browser is gone, and returns the Events about it: each reason with its note.
    #[track_caller]
    pub(crate) fn until_ended(&self, name: &str) -> Vec<String> {
        self.eventually(&format!("Browser {name} is gone"), || {
            let get = [
                "get",
                "browser",
                name,
                "--namespace",
                NAMESPACE,
                "--ignore-not-found",
            ];
            let left = self.try_kubectl(&get)?;
            left.is_empty().then_some(()).ok_or(left)
        });
        let object = format!("--field-selector=regarding.name={name},regarding.kind=Browser");
        let events = self.get(&["events.events.k8s.io", "--namespace", NAMESPACE, &object]);
        let events = events["items"].as_array().unwrap().iter();
        let text =
            |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        events
            .map(|event| format!("{}: {}", text(event, "reason"), text(event, "note")))
            .collect()
    }
}
