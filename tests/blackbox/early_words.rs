//! `kubectl apply` of a workload shows at once what the chain will deny to its pods.

use podloom_tests::webhook::{Policy, Route, Webhook, address};
use podloom_tests::{Bundle, Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

const POLICY: &str = r#"
for c in pod.containers(["/image"]) {
    if c.image.ends_with(":forbidden") { deny(`${c.name}: this image is forbidden`) }
}
"#;

/// A workload with this image.
fn workload(api: &str, kind: &str, image: &str) -> Value {
    let template = json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "web", "image": image }], "restartPolicy": "Never" },
    });
    let mut object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": "a" } });
    if kind == "CronJob" {
        object["spec"] = json!({ "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": { "spec": { "template": template } } });
    } else {
        object["spec"] = json!({ "template": template });
    }
    if api == "apps/v1" {
        object["spec"]["selector"] = json!({ "matchLabels": { "app": "a" } });
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
        if kind != "DaemonSet" {
            object["spec"]["replicas"] = json!(0);
        }
    }
    if kind == "Job" {
        object["spec"]["suspend"] = json!(true);
    }
    object
}

/// Applies it, and returns whether that worked, and what kubectl printed about it.
fn apply(scene: &Scene, object: &Value) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    let mut kubectl = scene.cluster.plane.kubectl();
    let kubectl = kubectl
        .args(["apply", "-n", &scene.namespace, "-f"])
        .arg(file.path());
    let output = kubectl.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), said)
}

#[test]
fn kubectl_prints_what_the_chain_will_deny() {
    blackbox_on(Cluster::without_operator, "early", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let bundle = Bundle::of(&json!([{ "name": "policy", "file": "script.wasm.gz", "config": { "program": POLICY } }]).to_string());
        let warning = webhook.operator(bundle.path(), &[]).await;
        webhook.configure_workloads(address(&warning).await);
        let bad = "nginx:forbidden";
        eventually("it is asked", async || {
            let (_, said) = apply(&scene, &workload("apps/v1", "Deployment", bad));
            let wanted = "Warning: spec.template: pods of this Deployment will be denied: ";
            let is_said = said.contains(wanted) && said.contains("web: this image is forbidden");
            // Nothing is said of what did not change.
            let deleted = ["delete", "deployment", "a", "-n", &scene.namespace];
            scene.cluster.kubectl(&deleted);
            is_said.then_some(()).ok_or(said)
        })
        .await;
        for (api, kind, field) in [
            ("apps/v1", "StatefulSet", "spec.template"),
            ("apps/v1", "DaemonSet", "spec.template"),
            ("apps/v1", "ReplicaSet", "spec.template"),
            ("batch/v1", "Job", "spec.template"),
            ("batch/v1", "CronJob", "spec.jobTemplate.spec.template"),
        ] {
            let (is_done, said) = apply(&scene, &workload(api, kind, bad));
            let wanted = format!("{field}: pods of this {kind} will be denied");
            assert!(is_done && said.contains(&wanted), "{said}");
        }
        // Only a change of the template is reviewed.
        let mut scaled = workload("apps/v1", "StatefulSet", bad);
        scaled["metadata"]["labels"] = json!({ "a": "b" });
        assert_eq!(apply(&scene, &scaled), (true, String::new()));
        let good = workload("apps/v1", "StatefulSet", "nginx:1");
        assert_eq!(apply(&scene, &good), (true, String::new()));
        drop(warning);

        // Nobody answers: nothing fails.
        assert_eq!(apply(&scene, &scaled), (true, String::new()));

        let denying = webhook.spawn(bundle.path(), &["--webhook-workloads", "deny"]);
        webhook.configure(address(&denying).await, Policy::Fail);
        webhook.configure_workloads(address(&denying).await);
        denying.ready().await;
        eventually("it is denied", async || {
            let (is_done, said) = apply(&scene, &workload("apps/v1", "Deployment", bad));
            (!is_done && said.contains("web: this image is forbidden"))
                .then_some(())
                .ok_or(said)
        })
        .await;
    });
}
