//! Changes of pods that exist: `kubectl debug`, `kubectl set image` and a resize pass the chain too.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use podloom_tests::webhook::{Route, STAMP, Webhook, address, plain_pod};
use podloom_tests::{Bundle, Cluster, Operator, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

/// A policy for images and for resizing, on new pods and on changes.
const POLICY: &str = r#"
for c in pod.containers(["/image"]) {
    if c.image.ends_with(":forbidden") { deny(`${c.name}: this image is forbidden`) }
}
if request.operation == "resize" && request.namespace_label("resize") == "never" {
    deny("never resized: " + request.changes[0])
}
"#;

/// That policy, hardening, and labels of new pods.
fn chain() -> String {
    let both = json!({ "operations": ["CREATE", "UPDATE"] });
    let hardened = [
        "",
        "/containers/*",
        "/initContainers/*",
        "/ephemeralContainers/*",
    ];
    let hardened = hardened.map(|it| format!("/spec{it}/securityContext"));
    json!([
        { "name": "policy", "file": "script.wasm.gz", "match": both, "config": { "program": POLICY } },
        {
            "name": "hardening", "file": "hardening.wasm.gz", "match": both, "allow": hardened,
            "config": { "ephemeralContainers": "harden" },
        },
        {
            "name": "labels", "file": "labels.wasm.gz", "allow": ["/metadata/labels"],
            "config": { "labels": [{ "key": "team", "value": "core", "mode": "overwrite" }] },
        },
    ])
    .to_string()
}

async fn serve(webhook: &Webhook, plugins: &Path) -> Operator {
    let operator = webhook.spawn(plugins, &[]);
    webhook.configure_updates(address(&operator).await);
    operator.ready().await;
    webhook.serves().await;
    operator
}

/// Runs kubectl, and returns its error; empty if there is none.
fn refused(scene: &Scene, arguments: &[&str]) -> String {
    let mut kubectl = scene.cluster.plane.kubectl();
    let output = kubectl.args(["-n", &scene.namespace]).args(arguments);
    let output = output.output().unwrap();
    match output.status.success() {
        true => String::new(),
        false => String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Adds an ephemeral container, as `kubectl debug` does.
async fn debug(scene: &Scene, name: &str, context: &Value) -> Result<Pod, String> {
    let container = json!({ "name": name, "image": "busybox:1", "securityContext": context });
    let patch = json!({ "spec": { "ephemeralContainers": [container] } });
    let patched = scene
        .pods()
        .patch_subresource(
            "ephemeralcontainers",
            "web",
            &PatchParams::default(),
            &Patch::Strategic(&patch),
        )
        .await;
    patched.map_err(|error| error.to_string())
}

async fn ephemeral_containers(scene: &Scene) {
    // What kubectl debug --profile=sysadmin asks for.
    let denied = debug(scene, "admin", &json!({ "privileged": true }))
        .await
        .unwrap_err();
    assert!(
        denied.contains("/spec/ephemeralContainers/[name=admin]/securityContext/privileged"),
        "{denied}"
    );
    let image = [
        "debug",
        "web",
        "--image=busybox:forbidden",
        "--container=d",
        "--attach=false",
    ];
    let denied = refused(scene, &image);
    assert!(denied.contains("d: this image is forbidden"), "{denied}");
    let pod = debug(scene, "plain", &Value::Null).await.unwrap();
    let containers = pod.spec.unwrap().ephemeral_containers.unwrap();
    let hardened = &containers[0];
    let context = hardened.security_context.as_ref().unwrap();
    assert_eq!(context.allow_privilege_escalation, Some(false));
    // A second one is judged alone, and the first one stays as it is.
    let both = debug(scene, "second", &Value::Null).await.unwrap();
    let containers = both.spec.unwrap().ephemeral_containers.unwrap();
    assert!(containers.len() == 2 && containers.contains(hardened));
}

/// Of such a request, the API server takes only the containers. What else it says must not matter to any plugin.
async fn an_invented_pod(scene: &Scene) {
    let mut pod = scene.pods().get("web").await.unwrap();
    let spec = pod.spec.as_mut().unwrap();
    spec.os = serde_json::from_value(json!({ "name": "windows" })).unwrap();
    spec.security_context = serde_json::from_value(json!({ "runAsNonRoot": true })).unwrap();
    let admin = json!([{ "name": "admin", "image": "busybox:1", "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } } }]);
    spec.ephemeral_containers = serde_json::from_value(admin).unwrap();
    let (pods, params) = (scene.pods(), PostParams::default());
    let put = pods.replace_subresource("ephemeralcontainers", "web", &params, &pod);
    let denied = put.await.unwrap_err().to_string();
    assert!(
        denied.contains("securityContext/capabilities/add"),
        "{denied}"
    );
}

async fn images_and_resources(scene: &Scene) {
    let denied = refused(scene, &["set", "image", "pod/web", "a=a:forbidden"]);
    assert!(denied.contains("a: this image is forbidden"), "{denied}");
    assert_eq!(
        refused(
            scene,
            &["set", "image", "pod/web", "a=registry.k8s.io/pause:3.9"]
        ),
        ""
    );
    assert_eq!(refused(scene, &["label", "pod", "web", "a=b"]), "");
    let resize = json!({ "spec": { "containers": [{ "name": "a", "resources": { "requests": { "cpu": "10m" } } }] } });
    let resize = resize.to_string();
    let resize = ["patch", "pod", "web", "--subresource=resize", "-p", &resize];
    // No plugin minds; only Kubernetes does.
    let no_other_class = refused(scene, &resize);
    assert!(
        no_other_class.contains("QOS Class may not change"),
        "{no_other_class}"
    );
    let label = ["label", "namespace", &scene.namespace, "resize=never"];
    scene.cluster.kubectl(&label);
    eventually("a resize is denied", async || {
        let resize = json!({ "spec": { "containers": [{ "name": "a", "resources": { "requests": { "cpu": "20m" } } }] } });
        let denied = refused(scene, &["patch", "pod", "web", "--subresource=resize", "-p", &resize.to_string(), "--dry-run=server"]);
        denied.contains("never resized: /spec/containers/[name=a]/resources").then_some(()).ok_or(denied)
    })
    .await;
}

#[test]
fn what_is_changed_later_passes_the_chain_too() {
    blackbox_on(Cluster::without_operator, "later", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let bundle = Bundle::of(&chain());
        let operator = serve(&webhook, bundle.path()).await;
        let params = PostParams::default();
        let created = scene
            .pods()
            .create(&params, &plain_pod("web"))
            .await
            .unwrap();
        let stamp = created.metadata.annotations.unwrap()[STAMP].clone();
        eventually("it runs", async || {
            let pod = scene.pods().get("web").await.unwrap();
            let phase = pod.status.and_then(|it| it.phase);
            (phase.as_deref() == Some("Running"))
                .then_some(())
                .ok_or_else(|| format!("{phase:?}"))
        })
        .await;

        an_invented_pod(&scene).await;
        ephemeral_containers(&scene).await;
        images_and_resources(&scene).await;
        // The stamp says what the pod went through when it was new, and nobody else's labels were touched.
        let pod = scene.pods().get("web").await.unwrap();
        assert_eq!(pod.metadata.annotations.unwrap()[STAMP], stamp);
        let labels = pod.metadata.labels.unwrap();
        assert_eq!(
            (labels["team"].as_str(), labels["a"].as_str()),
            ("core", "b")
        );
        drop(operator);

        // Nobody answers, so nobody can say that it is allowed.
        let failed = refused(
            &scene,
            &["set", "image", "pod/web", "a=registry.k8s.io/pause:3.8"],
        );
        assert!(failed.contains("failed calling webhook"), "{failed}");
        assert_eq!(refused(&scene, &["label", "pod", "web", "c=d"]), "");
    });
}
