//! Pods of owners other than Deployments are proved, too.

use kube::ResourceExt;
use kube::api::ListParams;
use podloom_tests::webhook::{Route, Webhook};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

use super::{chain_without, get, pod, said, serve};

const INJECT: &str = "sidecar.podloom.dev/inject";

/// What makes pods of the template of these tests. Its pods stay as they are if the template changes.
fn owner(scene: &Scene, kind: &str) -> Value {
    let name = kind.to_lowercase();
    let mut template = pod();
    template["metadata"]["labels"]["app"] = json!(name);
    let mut spec = json!({ "template": template });
    let mut version = "apps/v1";
    if kind == "Job" {
        version = "batch/v1";
        spec["template"]["spec"]["restartPolicy"] = "Never".into();
        spec["template"]["metadata"]["labels"]["kubelet.test/behaviour"] = "running".into();
    } else {
        spec["selector"] = json!({ "matchLabels": { "app": name } });
        spec["updateStrategy"] = json!({ "type": "OnDelete" });
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
    }
    let metadata = json!({ "name": name, "namespace": scene.namespace });
    json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec })
}

/// The name of the first pod of an owner.
async fn made(scene: &Scene, owner: &Value) -> String {
    let labels = format!("app={}", owner["metadata"]["name"].as_str().unwrap());
    eventually("the owner has made a pod", async || {
        let listed = ListParams::default().labels(&labels);
        let pods = scene.pods().list(&listed).await.unwrap().items;
        let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
        names.into_iter().next().ok_or_else(|| labels.clone())
    })
    .await
}

#[test]
fn pods_of_each_owner_are_proved_with_the_template_that_they_were_made_of() {
    blackbox_on(Cluster::without_operator, "blame-owners", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let chain = chain_without(&[]);
        let _operator = serve(&scene, &webhook, &chain).await;
        for kind in ["StatefulSet", "DaemonSet", "Job"] {
            let mut owner = owner(&scene, kind);
            scene.cluster.apply_text(&owner.to_string());
            let name = made(&scene, &owner).await;
            if kind != "Job" {
                // With this one, the chain adds no sidecar.
                let labels = &mut owner["spec"]["template"]["metadata"]["labels"];
                labels.as_object_mut().unwrap().remove(INJECT);
                scene.cluster.apply_text(&owner.to_string());
            }
            check(&scene, kind, &name, chain.path().to_str().unwrap());
        }
    });
}

/// Checks that each line of a plugin is proved.
#[track_caller]
fn check(scene: &Scene, kind: &str, name: &str, plugins: &str) {
    let pod = get(scene, name);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], kind);
    let said = said(scene, name, &["--plugins", plugins]);
    let proof = &said["proof"];
    let lower = kind.to_lowercase();
    let title = format!("{kind} {}/{lower}", scene.namespace);
    assert_eq!(proof["template"], title, "{said}");
    assert_eq!(proof["notProvable"], json!([]), "{said}");
    let mut proved = std::collections::BTreeSet::new();
    for (path, who) in said["paths"].as_object().unwrap() {
        if let Some(plugin) = who["plugin"].as_str() {
            assert_eq!(who["proved"], true, "{kind}: {path}: {said}");
            proved.insert(plugin);
        }
    }
    let all = ["hardening", "labels", "sidecar", "tier"];
    assert_eq!(proved.into_iter().collect::<Vec<_>>(), all, "{said}");
}
