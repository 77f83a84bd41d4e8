//! An installation from before there was a component for each controller: it is used, upgraded and uninstalled.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::ListParams;
use podloom_api::{Phase, SelenosisApi, crds};
use podloom_tests::{Cluster, Operator, Scene, Signal, blackbox_on, eventually};
use serde_json::Value;
use tempfile::TempDir;

const BEFORE: &str = include_str!("fixtures/deploy-before-controllers.yaml");

/// The flags for the Lease that all replicas share.
const LEASE: [&str; 4] = [
    "--lease-namespace",
    "podloom-system",
    "--lease-name",
    "podloom",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A cluster on which Podloom was never installed.
fn untouched() -> Arc<Cluster> {
    Arc::new(Cluster::bare())
}

/// Applies files or directories as a user does: client-side, with a copy of each object in an annotation.
fn apply(scene: &Scene, what: &[&str]) {
    scene.cluster.kubectl(&[&["apply"], what].concat());
}

fn apply_text(scene: &Scene, text: &str) {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    fs::write(file.path(), text).unwrap();
    apply(scene, &["--filename", file.path().to_str().unwrap()]);
}

/// The CustomResourceDefinitions as they were: without annotations for Argo CD and Flux.
fn definitions_before() -> String {
    let definitions = crds(SelenosisApi::Seed).into_iter().map(|mut definition| {
        definition.metadata.annotations = None;
        serde_json::to_value(definition).unwrap().to_string()
    });
    definitions.collect::<Vec<_>>().join("\n---\n")
}

/// The objects of manifests, as `kubectl get` names them.
fn names(scene: &Scene, manifests: &[&str]) -> BTreeMap<String, Value> {
    let arguments = [
        &["get", "--output", "json", "--ignore-not-found"],
        manifests,
    ]
    .concat();
    let printed = scene.cluster.kubectl(&arguments);
    if printed.trim().is_empty() {
        return BTreeMap::new();
    }
    let list: Value = serde_json::from_str(&printed).unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let named = items.into_iter().map(|item| {
        let (kind, metadata) = (item["kind"].as_str().unwrap(), &item["metadata"]);
        let name = metadata["name"].as_str().unwrap();
        (format!("{kind} {name}"), item)
    });
    named.collect()
}

/// The first shell block below a heading of the guide.
fn block(heading: &str) -> String {
    let guide = fs::read_to_string(root().join("deploy/README.md")).unwrap();
    let (_, section) = guide.split_once(&format!("\n{heading}\n")).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.to_owned()
}

/// Runs a block of the guide in a checkout, and returns its output.
fn run(scene: &Scene, script: &str) -> String {
    let programs = TempDir::new().unwrap();
    let kubectl = scene.cluster.plane.kubectl();
    symlink(kubectl.get_program(), programs.path().join("kubectl")).unwrap();
    let others = std::env::var_os("PATH").unwrap();
    let others = std::env::split_paths(&others);
    let path = [programs.path().to_owned()].into_iter().chain(others);
    let kubernetes = kubectl.get_envs();
    let ran = Command::new("sh")
        .args(["-euc", script])
        .envs(kubernetes.filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", std::env::join_paths(path).unwrap())
        .current_dir(root())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Runs the guide's check of the live CustomResourceDefinitions: whether GitOps would keep them.
fn gitops_keeps_the_crds(scene: &Scene) -> bool {
    let printed = run(scene, &block("## Upgrading"));
    let definitions: Vec<&str> = printed.lines().skip(1).collect();
    assert_eq!(definitions.len(), 2, "{printed}");
    definitions.iter().all(|line| {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        words == ["Prune=false,Delete=false", "disabled"]
    })
}

async fn leads(operator: &Operator) {
    eventually("it leads", async || {
        let (status, body) = operator.get("/readyz/browser")?;
        (status == 200 && body.contains("this replica is the leader"))
            .then_some(())
            .ok_or(body)
    })
    .await;
}

#[test]
fn an_older_installation_is_upgraded_in_use_and_leaves_nothing_behind() {
    blackbox_on(untouched, "upgrades", async |scene| {
        apply_text(&scene, &definitions_before());
        apply_text(&scene, BEFORE);
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        scene.cluster.kubectl(&established);
        let home = TempDir::new().unwrap();
        let before = home.path().join("before.yaml");
        fs::write(&before, BEFORE).unwrap();
        let before = ["--filename", before.to_str().unwrap()];
        let old = names(&scene, &before);
        assert!(old.len() > 10, "{:#?}", old.keys());

        let kubeconfig = scene.cluster.operator_kubeconfig();
        let mut first = Operator::spawn(&scene.cluster, kubeconfig, &LEASE);
        leads(&first).await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        scene.browser("b", "running").await;
        seen.until_runs("b").await;

        assert!(
            !gitops_keeps_the_crds(&scene),
            "the old CRDs have no annotations for GitOps"
        );
        apply(
            &scene,
            &["--kustomize", root().join("deploy").to_str().unwrap()],
        );
        assert!(gitops_keeps_the_crds(&scene));
        is_upgraded(&scene, &old, &before).await;
        let second = Operator::spawn(&scene.cluster, kubeconfig, &LEASE);
        second.ready().await;
        let (_, body) = second.get("/readyz/browser").unwrap();
        assert!(body.contains("standing by for "), "{body}");
        first.signal(Signal::Terminate);
        assert!(first.ended().await.success());
        leads(&second).await;
        scene.browser("after", "running").await;
        seen.until_runs("after").await;
        assert_eq!(pods.uids("b").len(), 1, "the session must keep its pod");
        let session = scene.browsers().get("b").await.unwrap();
        let phase = session.status.and_then(|status| status.phase);
        assert_eq!(phase, Some(Phase::Running));

        // Watches would fail when their kind is deleted.
        drop((seen, pods));
        run(&scene, &block("### Uninstalling the operator"));
        nothing_is_left(&scene, &before).await;
    });
}

/// No object was recreated, none is left over, and the new ones exist.
async fn is_upgraded(scene: &Scene, old: &BTreeMap<String, Value>, before: &[&str]) {
    let now = names(scene, before);
    for (name, object) in old {
        let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
        assert_eq!(now.get(name).and_then(uid), uid(object), "{name}");
    }
    let selector = |objects: &BTreeMap<String, Value>| {
        objects["Deployment podloom"]["spec"]["selector"].clone()
    };
    assert_eq!(selector(&now), selector(old));
    let deployment = &now["Deployment podloom"];
    let labels = &deployment["metadata"]["labels"];
    assert_eq!(labels["podloom.dev/chain"], "needed");
    let directory = root().join("deploy");
    let all = names(scene, &["--kustomize", directory.to_str().unwrap()]);
    let gone: Vec<_> = old.keys().filter(|name| !all.contains_key(*name)).collect();
    assert!(gone.is_empty(), "no manifest has {gone:?} any more");
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    for definition in definitions.list(&ListParams::default()).await.unwrap() {
        let annotations = definition.metadata.annotations.unwrap_or_default();
        let annotation = |name: &str| annotations.get(name).map(String::as_str);
        assert_eq!(
            annotation("argocd.argoproj.io/sync-options"),
            Some("Prune=false,Delete=false")
        );
        assert_eq!(
            annotation("kustomize.toolkit.fluxcd.io/prune"),
            Some("disabled")
        );
    }
}

/// Neither our objects nor their namespaces are left.
async fn nothing_is_left(scene: &Scene, before: &[&str]) {
    scene
        .cluster
        .kubectl(&["delete", "namespace", &scene.namespace]);
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    eventually("both namespaces are gone", async || {
        for name in ["podloom-system", &scene.namespace] {
            if let Some(there) = namespaces.get_opt(name).await.unwrap() {
                return Err(format!("{name}: {:?}", there.status));
            }
        }
        Ok(())
    })
    .await;
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let definitions = definitions.list(&ListParams::default()).await.unwrap();
    assert!(definitions.items.is_empty(), "{:?}", definitions.items);
    let operator = root().join("deploy/operator");
    for manifests in [before, &["--kustomize", operator.to_str().unwrap()]] {
        let left = names(scene, manifests);
        assert!(left.is_empty(), "{:#?}", left.keys());
    }
}
