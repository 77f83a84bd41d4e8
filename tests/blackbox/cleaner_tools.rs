//! What helps to write Cleaners: the webhook, the examples, and `podloom cleaner check --against cluster`.

use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use podloom_api::{Cleaner, CleanerSpec};
use podloom_tests::cleaner::{Cleaners, map_targets};
use podloom_tests::webhook::{Route, Webhook, address};
use podloom_tests::{Cluster, Scene, binary, blackbox_on, eventually, standard};
use serde_json::{Value, json};

/// Creates a Cleaner with these conditions, which see a ConfigMap; if it is refused, returns why.
async fn create(cleaners: &Api<Cleaner>, name: &str, conditions: Value) -> Result<(), String> {
    let spec: CleanerSpec = serde_json::from_value(json!({
        "ttl": "1h",
        "retry": { "period": "1h" },
        "targets": [{ "name": "conf", "includeWhenEvaluating": true,
            "reference": { "version": "v1", "kind": "ConfigMap", "name": "map" } }],
        "conditions": conditions,
    }))
    .unwrap();
    let mut cleaner = Cleaner::new(name, spec);
    cleaner.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let created = cleaners.create(&PostParams::default(), &cleaner).await;
    created.map(drop).map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

#[test]
fn the_webhook_refuses_a_condition_that_does_not_compile() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-webhook",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            let operator = webhook.spawn(&standard(), &[]);
            webhook.configure_cleaners(address(&operator).await);
            operator.ready().await;
            let cleaners = Cleaners::new(&scene).api();
            let expected = r#"denied the request: spec.conditions[1]: 1:1: unknown name "conv"; known here: conf, time"#;
            eventually("a typing error is refused", async || {
                let result = create(&cleaners, "a", json!(["true", "conv.data.a == 'b'"])).await;
                let message = result.err().ok_or("it was stored")?;
                message.contains(expected).then_some(()).ok_or(message)
            })
            .await;
            let message = create(&cleaners, "b", json!(["conf.data. ==", "conf.a("]))
                .await
                .expect_err("neither is CEL");
            assert!(message.contains("spec.conditions[0]: 1:"), "{message}");
            assert!(message.contains("; spec.conditions[1]: 1:"), "{message}");
            assert_eq!(
                create(&cleaners, "c", json!(["has(conf.data.done)"])).await,
                Ok(())
            );
            assert!(
                operator.metric("podloom_webhook_requests_total{endpoint=\"validate/cleaners\"")
                    >= 3.0
            );
        },
    );
}

#[test]
fn the_examples_and_manifests_apply() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-examples",
        async |scene| {
            let _demo = scene.beside("cleaner-demo", json!({})).await;
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            let place = |path: &str| root.join(path).to_str().unwrap().to_owned();
            let dry = ["apply", "--server-side", "--dry-run=server"];
            for (how, path) in [
                ("--filename", "deploy/examples/cleaner"),
                ("--kustomize", "deploy/cleaner"),
            ] {
                let said = scene
                    .cluster
                    .ask_kubectl(&[&dry[..], &[how, &place(path)]].concat());
                assert!(said.is_done, "{path}: {}", said.error);
                // Fields that the API server does not know are a warning.
                assert!(
                    !said.error.contains("unknown field"),
                    "{path}: {}",
                    said.error
                );
            }
        },
    );
}

/// Runs `podloom cleaner check --against cluster` on a manifest.
fn check(scene: &Scene, kubeconfig: &Path, manifest: &Value) -> (Output, Value) {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let output = Command::new(binary().unwrap())
        .args([
            "cleaner",
            "check",
            "--against",
            "cluster",
            "-o",
            "json",
            "-n",
        ])
        .args([&scene.namespace, "-f"])
        .arg(file.path())
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, printed["cleaners"][0].clone())
}

#[test]
fn a_check_against_the_cluster_says_what_would_go_and_deletes_nothing() {
    blackbox_on(Cluster::without_operator, "cleaner-check", async |scene| {
        let cleaners = Cleaners::new(&scene);
        cleaners.map("one", json!({ "fate": "gone" }), "done").await;
        cleaners.map("two", json!({ "fate": "gone" }), "done").await;
        cleaners.map("stays", json!({}), "done").await;
        let spec = json!({
            "ttl": "1h",
            "retry": { "period": "1h" },
            "targets": [map_targets("maps", &json!({ "fate": "gone" }))],
            "conditions": ["maps.items.all(map, map.data.state == 'done')"],
        });
        let manifest = json!({
            "apiVersion": "cleaner.vtex.dev/v1alpha", "kind": "Cleaner",
            "metadata": { "name": "a" }, "spec": spec,
        });
        let admin = scene.cluster.plane.kubeconfig();
        let (output, told) = check(&scene, &admin, &manifest);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(told["reason"], "ConditionsMet", "{told}");
        assert_eq!(told["conditions"][0]["result"], "True");
        let names = told["deletes"].as_array().unwrap().iter();
        let names: Vec<&Value> = names.map(|it| &it["name"]).collect();
        assert_eq!(names, ["one", "two"]);
        let note = String::from_utf8_lossy(&output.stderr);
        assert!(note.contains("has no such Cleaner yet"), "{note}");
        // One that exists has its own time, and its targets are looked at again.
        cleaners.create("a", spec).await;
        cleaners.set_state("two", "running").await;
        let (_, told) = check(&scene, &admin, &manifest);
        assert_eq!(told["reason"], "NotExpired", "{told}");
        assert_eq!(told["next"]["cause"], "Expiry");
        assert_eq!(told["conditions"][0]["result"], "False");
        // With the rights of whoever asks.
        let (output, told) = check(&scene, scene.cluster.portal_kubeconfig(), &manifest);
        assert_eq!(told["reason"], "TargetResolveError", "{told}");
        let message = told["message"].as_str().unwrap();
        assert!(
            message.starts_with("target maps: configmaps is forbidden"),
            "{message}"
        );
        let note = String::from_utf8_lossy(&output.stderr);
        assert!(note.contains("the Cleaner itself cannot be read"), "{note}");
        nothing_was_written(&scene, &cleaners.maps()).await;
    });
}

async fn nothing_was_written(scene: &Scene, maps: &Api<ConfigMap>) {
    for name in ["one", "two", "stays"] {
        let map = maps.get(name).await.unwrap();
        assert_eq!(map.metadata.deletion_timestamp, None, "{name}");
    }
    let cleaner = Cleaners::new(scene).api().get("a").await.unwrap();
    assert_eq!(cleaner.status, None);
    assert_eq!(cleaner.metadata.finalizers, None);
}
