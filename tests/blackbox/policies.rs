//! The policies that `podloom chain export` prints do on the real API server what the plugin does.

use std::collections::BTreeMap;
use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use podloom_tests::webhook::{Route, Webhook, dry_run, plain_pod};
use podloom_tests::{Bundle, Cluster, Scene, binary, blackbox_on, eventually};
use serde_json::{Value, json};

const CHAIN: &str = "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels, /metadata/annotations], \
    match: { selector: { matchExpressions: [{ key: alone, operator: DoesNotExist }] } }, \
    config: { inheritLabels: [owner, none], labels: [\
      { key: example.com/kind, value: $(request/kind) }, \
      { key: team, value: a-$(namespace/labels/team), default: nobody }, \
      { key: long, value: $(namespace/labels/long)-$(namespace/name) }, \
      { key: tier, value: batch, mode: overwrite }, { key: debug, mode: remove }], \
    annotations: [{ key: says, value: \"it's \\\\ $(namespace/name)\" }, { key: old, mode: remove }] } }]";

/// The policy and its binding, for the namespace of the test alone.
fn exported(scene: &Scene, bundle: &Bundle) -> Vec<Value> {
    let mut command = Command::new(binary().unwrap());
    let export = command.args(["chain", "export", "--map", "--unselected", "tier"]);
    let export = export.args(["--unselected", "debug"]).arg(bundle.path());
    let output = export.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in &mut objects {
        object["metadata"]["name"] = json!(scene.namespace);
    }
    let own = json!({ "matchLabels": { "kubernetes.io/metadata.name": scene.namespace } });
    objects[1]["spec"]["policyName"] = json!(scene.namespace);
    objects[1]["spec"]["matchResources"]["namespaceSelector"] = own;
    objects
}

/// Pods that differ in what the rules look at.
fn pods() -> Vec<Pod> {
    let long = "x".repeat(63);
    let labels: [&[(&str, &str)]; 8] = [
        &[],
        &[("debug", "")],
        &[("debug", "1"), ("app", "web")],
        &[("team", "own"), ("tier", "web")],
        &[("tier", "batch"), ("owner", "me")],
        &[("example.com/kind", &long), ("long", &long)],
        &[("alone", "")],
        &[("alone", "1"), ("debug", "1")],
    ];
    let pod = |labels: &[(&str, &str)]| {
        let mut pod = plain_pod("a");
        for (key, value) in labels {
            pod.labels_mut()
                .insert((*key).to_owned(), (*value).to_owned());
        }
        pod
    };
    let mut pods: Vec<Pod> = labels.into_iter().map(pod).collect();
    let annotated = [("old", "gone"), ("says", "hello")];
    for (key, value) in annotated {
        pods[2]
            .annotations_mut()
            .insert(key.to_owned(), value.to_owned());
    }
    pods
}

type Made = (BTreeMap<String, String>, BTreeMap<String, String>);

/// The labels and annotations of a pod that would be created now, stamps aside.
async fn made(scene: &Scene, pod: &Pod) -> Made {
    let made = scene.pods().create(&dry_run(), pod).await.unwrap();
    let mut annotations = made.annotations().clone();
    annotations.retain(|key, _| !key.starts_with("podloom.dev/"));
    (made.labels().clone(), annotations)
}

/// Waits until pods get the label that each policy and plugin writes, or do not.
async fn labelled(scene: &Scene, expected: bool) {
    eventually("the policy counts, or does not any more", async || {
        let (labels, _) = made(scene, &plain_pod("a")).await;
        let is_labelled = labels.contains_key("tier");
        (is_labelled == expected)
            .then_some(())
            .ok_or_else(|| format!("{labels:?}"))
    })
    .await;
}

async fn all_made(scene: &Scene) -> Vec<Made> {
    let mut all = Vec::new();
    for pod in pods() {
        all.push(made(scene, &pod).await);
    }
    all
}

#[test]
fn a_policy_makes_the_pods_that_the_plugin_makes() {
    blackbox_on(Cluster::without_operator, "policies", async |scene| {
        let bundle = Bundle::of(CHAIN);
        let label = |labels: &[&str]| {
            let namespace = ["label", "--overwrite", "namespace", &scene.namespace];
            scene.cluster.kubectl(&[&namespace[..], labels].concat());
        };
        let objects = exported(&scene, &bundle);
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        scene.cluster.apply_text(&list.to_string());
        labelled(&scene, true).await;
        let without = all_made(&scene).await;
        let long = format!("long={}", "y".repeat(60));
        label(&["team=web", "owner=", &long]);
        eventually(
            "the API server's cache knows the namespace's labels",
            async || {
                let (labels, _) = made(&scene, &plain_pod("a")).await;
                let is_known = labels.get("team").is_some_and(|team| team == "a-web");
                is_known.then_some(()).ok_or_else(|| format!("{labels:?}"))
            },
        )
        .await;
        let with = all_made(&scene).await;
        assert_ne!(with, without);

        for kind in ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"] {
            scene.cluster.kubectl(&["delete", kind, &scene.namespace]);
        }
        labelled(&scene, false).await;
        let webhook = Webhook::new(&scene, Route::Url);
        let _operator = webhook.operator(bundle.path(), &[]).await;
        assert_eq!(all_made(&scene).await, with);
        label(&["team-", "owner-", "long-"]);
        eventually("the operator knows that the labels are gone", async || {
            let made = all_made(&scene).await;
            (made == without)
                .then_some(())
                .ok_or_else(|| format!("{made:?}\n{without:?}"))
        })
        .await;
    });
}
