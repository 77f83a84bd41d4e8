//! What the admission webhook makes of a pod is what `podloom render` prints for it.

use std::process::Command;

use podloom_tests::doubles::{Double, Sink};
use podloom_tests::webhook::{Route, Webhook};
use podloom_tests::{Cluster, Scene, binary, blackbox_on, eventually, standard};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// Pods that each plugin of the standard chain changes in another way.
const PODS: [&str; 3] = [
    r#"{ "metadata": { "name": "plain" }, "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] } }"#,
    r#"{ "metadata": { "name": "sidecar", "labels": { "sidecar.podloom.dev/inject": "true", "team": "own" } }, "spec": {
        "initContainers": [{ "name": "first", "image": "registry.k8s.io/pause:3.10" }],
        "containers": [
            { "name": "a", "image": "registry.k8s.io/pause:latest", "env": [{ "name": "A", "value": "1" }, { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] },
            { "name": "b", "image": "registry.k8s.io/pause:3.10", "resources": { "limits": { "memory": "1Gi", "cpu": "1" } },
              "livenessProbe": { "httpGet": { "path": "/healthz", "port": 8080 } } }
        ],
        "volumes": [{ "name": "scratch", "emptyDir": {} }] } }"#,
    r#"{ "metadata": { "name": "owned", "labels": { "app": "x" }, "annotations": { "a.example.com/b.c": "d/e" } }, "spec": {
        "automountServiceAccountToken": true, "enableServiceLinks": true,
        "securityContext": { "runAsUser": 1000, "fsGroup": 2000 },
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10", "securityContext": { "capabilities": { "add": ["NET_BIND_SERVICE"] } } }] } }"#,
];

fn file(content: &Value) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    serde_json::to_writer(&file, content).unwrap();
    file
}

/// Creates a pod as a dry run, and returns what the API server would store.
fn create(scene: &Scene, pod: &Value) -> Value {
    let file = file(pod);
    let path = file.path().to_str().unwrap();
    let arguments = [
        "create",
        "--filename",
        path,
        "--dry-run=server",
        "--output=json",
    ];
    serde_json::from_str(&scene.cluster.kubectl(&arguments)).unwrap()
}

/// The object of the last review of this pod.
async fn reviewed(sink: &Sink, name: &str) -> Value {
    eventually("the review was recorded", async || {
        let received = sink.received();
        let reviews = received.requests.iter().rev();
        let mut objects = reviews.filter_map(|request| {
            let review: Value = serde_json::from_str(&request.body).ok()?;
            Some(review["request"]["object"].clone())
        });
        let found = objects.find(|object| object["metadata"]["name"] == name);
        found.ok_or_else(|| format!("{} requests", received.count))
    })
    .await
}

/// The output of `podloom render` for an object, with the manifest of its namespace.
fn rendered(scene: &Scene, object: &Value) -> Value {
    let namespace = scene
        .cluster
        .kubectl(&["get", "namespace", &scene.namespace, "--output=json"]);
    let namespace = file(&serde_json::from_str(&namespace).unwrap());
    let object = file(object);
    let output = Command::new(binary().unwrap())
        .args(["render", "--output=json", "--plugins"])
        .arg(standard())
        .arg("--filename")
        .args([namespace.path(), object.path()])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Everything but what the API server makes anew for each object.
fn content(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    json!({
        "name": metadata["name"], "labels": metadata["labels"], "annotations": metadata["annotations"],
        "spec": pod["spec"],
    })
}

#[test]
fn the_webhook_and_render_make_the_same_pod() {
    blackbox_on(Cluster::without_operator, "webhook-render", async |scene| {
        // The API server fills defaults into what the chain adds, also in a namespace without a webhook.
        let beside = scene.beside("webhook-render-beside", json!({})).await;
        let namespace = scene.namespace.as_str();
        scene
            .cluster
            .kubectl(&["label", "namespace", namespace, "team=web"]);
        let webhook = Webhook::new(&scene, Route::Url);
        let _operator = webhook.operator(&standard(), &[]).await;
        let authority = NamedTempFile::new().unwrap();
        let sink = Double::tls(authority.path(), &[]);
        webhook.listen_in(sink.address(), authority.path());
        eventually("reviews are recorded", async || {
            webhook.serves().await;
            let count = sink.received().count;
            (count > 0).then_some(()).ok_or_else(|| "none".to_owned())
        })
        .await;
        for pod in PODS {
            let mut pod: Value = serde_json::from_str(pod).unwrap();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["namespace"] = namespace.into();
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            let admitted = create(&scene, &pod);
            let object = reviewed(&sink, &name).await;
            let mut rendered = rendered(&scene, &object);
            let metadata = rendered["metadata"].as_object_mut().unwrap();
            metadata.insert("namespace".to_owned(), beside.namespace.clone().into());
            // Nobody may write them.
            metadata.remove("managedFields");
            let expected = create(&scene, &rendered);
            assert_eq!(content(&admitted), content(&expected), "{name}");
            assert_ne!(
                admitted["spec"], object["spec"],
                "{name}: the chain changed nothing"
            );
        }
    });
}
