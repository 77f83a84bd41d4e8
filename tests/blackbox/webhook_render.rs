//! What the admission webhook makes of a pod is what `podloom render` prints for it.

use std::path::Path;
use std::process::Command;

use k8s_openapi::ByteString;
use podloom_tests::doubles::{Double, Sink};
use podloom_tests::webhook::{Route, Webhook, address};
use podloom_tests::{Bundle, Cluster, Operator, Scene, binary, blackbox_on, eventually, standard};
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
fn rendered(scene: &Scene, plugins: &Path, object: &Value) -> Value {
    let namespace = scene
        .cluster
        .kubectl(&["get", "namespace", &scene.namespace, "--output=json"]);
    let namespace = file(&serde_json::from_str(&namespace).unwrap());
    let object = file(object);
    let output = Command::new(binary().unwrap())
        .args(["render", "--output=json", "--plugins"])
        .arg(plugins)
        .arg("--filename")
        .arg(object.path())
        .arg("--context")
        .arg(namespace.path())
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
            let mut rendered = rendered(&scene, &standard(), &object);
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

/// Sends a review of a new pod as the API server does, and returns the operations of the patch.
async fn review(operator: &Operator, pod: &Value) -> Vec<Value> {
    let namespace = &pod["metadata"]["namespace"];
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": { "group": "", "version": "v1", "kind": "Pod" }, "operation": "CREATE",
            "namespace": namespace, "name": pod["metadata"]["name"], "userInfo": { "username": "test" }, "object": pod,
        },
    });
    let review = file(&review);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--insecure", "--data-binary"])
        .arg(format!("@{}", review.path().display()))
        .args(["--header", "content-type: application/json"])
        .arg(format!("https://{}/mutate/pods", address(operator).await))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let patch = &answer["response"]["patch"];
    assert!(patch.is_string(), "{answer}");
    let patch: ByteString = serde_json::from_value(patch.clone()).unwrap();
    serde_json::from_slice(&patch.0).unwrap()
}

/// API servers before Kubernetes 1.34 send fields that are null, such as `creationTimestamp`. Render removes them first.
#[test]
fn null_fields_make_no_difference() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-render-null",
        async |scene| {
            let bundle = Bundle::of(
                "[{ name: copies, file: copies.wasm, allow: [/spec/copied], read: [/spec/containers] }]",
            );
            let webhook = Webhook::new(&scene, Route::Url);
            let operator = webhook.operator(bundle.path(), &[]).await;
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "a", "namespace": scene.namespace, "creationTimestamp": null },
                "spec": { "containers": [{
                    "name": "a", "image": "example.com/a:1", "resources": null,
                    "securityContext": { "capabilities": null, "runAsUser": 1 },
                }] },
            });
            let patch = review(&operator, &pod).await;
            let written = |path: &str| {
                let operation = patch.iter().find(|operation| operation["path"] == path);
                operation.map(|operation| operation["value"].clone())
            };
            let rendered = rendered(&scene, bundle.path(), &pod);
            let expected = json!({ "name": "a", "image": "example.com/a:1", "securityContext": { "runAsUser": 1 } });
            assert_eq!(rendered["spec"]["copied"], expected);
            assert_eq!(written("/spec/copied"), Some(expected), "{patch:?}");
            for stamp in ["podloom.dev/chain", "podloom.dev/mutations"] {
                let path = format!("/metadata/annotations/{}", stamp.replace('/', "~1"));
                let rendered = &rendered["metadata"]["annotations"][stamp];
                assert_eq!(written(&path).as_ref(), Some(rendered), "{patch:?}");
            }
        },
    );
}
