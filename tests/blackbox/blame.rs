//! `podloom blame`: what it says of pods that passed the real webhook, and that the API server has given its defaults.

mod authors;
mod owners;
mod values;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, address, dry_run, plain_pod};
use podloom_tests::{Bundle, Cluster, Operator, Scene, binary, blackbox_on, eventually, standard};
use serde_json::{Value, json};

use self::authors::{EDITED, EDITS, MADE, check, check_all};
use self::values::values;

const PLUGINS: [&str; 4] = ["labels", "sidecar", "hardening", "tier"];

/// A plugin that depends on another one: it copies the label that the plugin labels writes.
const TIER: &str = r#"{
    "name": "tier", "file": "labels.wasm.gz", "allow": ["/metadata/labels/tier"],
    "config": { "labels": [{ "key": "tier", "value": "$(pod/metadata/labels/team)", "default": "none" }] }
}"#;

/// Has something of most that the API server gives defaults to.
const POD: &str = r#"
metadata:
  labels: { app: web, sidecar.podloom.dev/inject: "true" }
  annotations: { example.com/note: "a/b~c" }
spec:
  containers:
  - name: a
    image: registry.k8s.io/pause:3.10
    args: [--one, --two]
    env:
    - { name: TZ, value: UTC }
    - { name: POD, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
    ports: [{ containerPort: 80 }, { containerPort: 80, protocol: UDP }, { containerPort: 81 }]
    readinessProbe: { httpGet: { port: 80 } }
    resources: { limits: { cpu: 1, memory: 64Mi } }
    volumeMounts: [{ name: scratch, mountPath: /scratch }, { name: settings, mountPath: /etc/settings }]
  - { name: b, image: "registry.k8s.io/pause:3.10", securityContext: { runAsUser: 7 } }
  volumes:
  - { name: scratch, emptyDir: {} }
  - { name: settings, configMap: { name: settings, optional: true } }
"#;

fn pod() -> Value {
    serde_saphyr::from_str(POD).unwrap()
}

fn deployment() -> Value {
    let selector = json!({ "matchLabels": { "app": "web" } });
    json!({ "metadata": { "name": "web" }, "spec": { "selector": selector, "template": pod() } })
}

/// The standard chain and the plugin above, without some plugins.
fn chain_without(left_out: &[&str]) -> Bundle {
    let text = std::fs::read_to_string(standard().join("chain.yaml")).unwrap();
    let chain: Value = serde_saphyr::from_str(&text).unwrap();
    let mut plugins = chain["plugins"].as_array().unwrap().clone();
    plugins.push(serde_json::from_str(TIER).unwrap());
    plugins.retain(|plugin| !left_out.contains(&plugin["name"].as_str().unwrap()));
    Bundle::of(&Value::Array(plugins).to_string())
}

/// Sends the pods of the namespace through a chain from now on.
async fn serve(scene: &Scene, webhook: &Webhook, bundle: &Bundle) -> Operator {
    let operator = webhook.spawn(bundle.path(), &[]);
    webhook.configure(address(&operator).await, Policy::Fail);
    operator.ready().await;
    let plugins: Value = serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap();
    let probe = plain_pod("probe");
    eventually("pods pass this chain", async || {
        let created = scene.pods().create(&dry_run(), &probe).await;
        let created = created.map_err(|error| error.to_string())?;
        let stamp = json!(created.annotations().get(STAMP));
        (stamp == plugins["chain"])
            .then_some(())
            .ok_or_else(|| stamp.to_string())
    })
    .await;
    operator
}

fn blame(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary().unwrap());
    command.arg("blame").args(arguments);
    command.env("KUBECONFIG", kubeconfig).output().unwrap()
}

/// What is said of a pod of the cluster.
#[track_caller]
fn said(scene: &Scene, name: &str, more: &[&str]) -> Value {
    let pod = format!("pod/{name}");
    let arguments = [&pod, "-n", scene.namespace.as_str(), "-o", "json"];
    let admin = scene.cluster.plane.kubeconfig();
    let output = blame(&admin, &[&arguments[..], more].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A pod as the API server has it, fields that are newer than the tests' types included.
fn get(scene: &Scene, name: &str) -> Value {
    let get = [
        "get",
        "pod",
        name,
        "--namespace",
        &scene.namespace,
        "--output=json",
        "--show-managed-fields",
    ];
    serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap()
}

/// Makes the Deployment again, and returns its only pod once it runs.
async fn deployed(scene: &Scene) -> Value {
    let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), &scene.namespace);
    // Its pods go with it, at once.
    let gone = DeleteParams::foreground().grace_period(0);
    eventually("the Deployment is gone", async || {
        let deleted = deployments.delete("web", &gone).await;
        let pods = scene
            .pods()
            .list(&ListParams::default().labels("app=web"))
            .await
            .unwrap();
        for pod in &pods.items {
            let _gone = scene.pods().delete(&pod.name_any(), &gone).await;
        }
        match deleted {
            Err(kube::Error::Api(status)) if status.is_not_found() && pods.items.is_empty() => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    scene.create(deployments, deployment()).await;
    eventually("the pod of the Deployment runs", async || {
        let ours = ListParams::default().labels("app=web");
        let pods = scene.pods().list(&ours).await.unwrap();
        // One of the Deployment before may be going.
        let runs = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        let running = pods.items.iter().find(runs);
        let running = running.map(|pod| get(scene, &pod.name_any()));
        running.ok_or_else(|| format!("{:?}", pods.items))
    })
    .await
}

/// The plugins without which a line is said to be gone or different.
fn needs(who: &Value) -> BTreeSet<&str> {
    let others = who["dependsOn"].as_array().into_iter().flatten();
    others
        .chain([&who["plugin"]])
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn leaving_a_plugin_out_reverts_what_blame_gives_to_it() {
    blackbox_on(Cluster::without_operator, "blame-proof", async |scene| {
        let label = ["label", "namespace", &scene.namespace, "team=web"];
        scene.cluster.kubectl(&label);
        let webhook = Webhook::new(&scene, Route::Url);
        let chain = chain_without(&[]);
        let _whole = serve(&scene, &webhook, &chain).await;
        let pod = deployed(&scene).await;
        let plugins = chain.path().to_str().unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap();
        let said = said(&scene, name, &["--plugins", plugins]);
        let proof = &said["proof"];
        assert_eq!(proof["provable"], true, "{said}");
        assert!(
            proof["template"]
                .as_str()
                .unwrap()
                .starts_with("ReplicaSet "),
            "{said}"
        );
        let paths = said["paths"].as_object().unwrap();
        let is_the_chains = |path: &&String| !values::is_of_one_pod(path);
        let whole = values(&pod);
        let all: BTreeSet<&String> = whole.keys().filter(is_the_chains).collect();
        let blamed: BTreeSet<&String> = paths.keys().filter(is_the_chains).collect();
        assert_eq!(blamed, all, "{said}");
        for plugin in PLUGINS {
            let chain = chain_without(&[plugin]);
            let _operator = serve(&scene, &webhook, &chain).await;
            let without = values(&deployed(&scene).await);
            let is_different = |path: &&String| whole.get(*path) != without.get(*path);
            let different = all.iter().copied().filter(is_different);
            let different: BTreeSet<&String> = different.collect();
            let expected = paths.iter().filter(|(_, who)| needs(who).contains(plugin));
            let expected: BTreeSet<&String> = expected.map(|(path, _)| path).collect();
            assert_eq!(different, expected, "without {plugin}: {said}");
            assert!(!different.is_empty(), "{plugin}");
        }
        let expected = json!({ "plugin": "tier", "proved": true, "dependsOn": ["labels"] });
        check(&said, &[("/metadata/labels/tier", expected)]);
        // Each line of a plugin is proved.
        let unproved = |(_, who): &(&String, &Value)| who["proved"] == false;
        assert_eq!(paths.iter().find(unproved), None);
    });
}

#[test]
fn later_edits_are_those_of_their_managers() {
    blackbox_on(Cluster::without_operator, "blame-managers", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let chain = chain_without(&[]);
        let _operator = serve(&scene, &webhook, &chain).await;
        let mut bare = pod();
        bare["metadata"]["name"] = "bare".into();
        scene.create(scene.pods(), bare).await;
        check_all(&said(&scene, "bare", &[]), &MADE);
        // In the very second in which the pod was made, too.
        for edit in EDITS {
            let namespace = ["--namespace", &scene.namespace];
            scene.cluster.kubectl(&[edit, &namespace].concat());
        }
        let edited = said(&scene, "bare", &[]);
        check_all(&edited, &EDITED);
        let makers = edited["submittedBy"].as_array().unwrap();
        assert_eq!(makers.len(), 1, "{edited}");
        status_is_the_kubelets(&scene).await;
        a_bare_pod_needs_its_manifest(&scene).await;
        the_owner_may_be_out_of_sight(&scene).await;
    });
}

/// KWOK is the kubelet here.
async fn status_is_the_kubelets(scene: &Scene) {
    let status = eventually("the pod runs", async || {
        let pod = get(scene, "bare");
        let entries = pod["metadata"]["managedFields"].as_array().unwrap().clone();
        let mut entries = entries.into_iter();
        let status = entries.find(|it| it["fieldsV1"]["f:status"]["f:phase"].is_object());
        let is_running = pod["status"]["phase"] == "Running";
        status.filter(|_| is_running).ok_or_else(|| pod.to_string())
    });
    let manager = json!({ "manager": status.await["manager"] });
    check(&said(scene, "bare", &[]), &[("/status/phase", manager)]);
}

/// Nothing owns it, so what it was made of is not in the cluster.
async fn a_bare_pod_needs_its_manifest(scene: &Scene) {
    let chain = chain_without(&[]);
    let plugins = ["--plugins", chain.path().to_str().unwrap()];
    let found = said(scene, "bare", &plugins);
    assert_eq!(found["proof"]["provable"], false, "{found}");
    let mut manifest = pod();
    manifest["apiVersion"] = "v1".into();
    manifest["kind"] = "Pod".into();
    manifest["metadata"]["name"] = "bare".into();
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    serde_json::to_writer(&file, &manifest).unwrap();
    let template = ["--template", file.path().to_str().unwrap()];
    let found = said(scene, "bare", &[&plugins[..], &template].concat());
    assert_eq!(found["proof"]["provable"], true, "{found}");
    let expected = json!({ "plugin": "tier", "proved": true, "dependsOn": ["labels"] });
    check(&found, &[("/metadata/labels/tier", expected)]);
}

/// With the right to read pods alone.
async fn the_owner_may_be_out_of_sight(scene: &Scene) {
    let namespace = scene.namespace.as_str();
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let kubeconfig = scene.account("pods", &rules);
    let pod = deployed(scene).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    let chain = chain_without(&[]);
    let plugins = ["--plugins", chain.path().to_str().unwrap()];
    let of = [name, "-n", namespace, "-o", "json"];
    let output = blame(&kubeconfig, &[&of[..], &plugins].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = found["proof"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("you may not read ReplicaSet "),
        "{found}"
    );
    let missing = blame(&kubeconfig, &["missing", "-n", namespace]);
    let error = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(1), "{error}");
    assert_eq!(
        error,
        format!("error: there is no pod {namespace}/missing\n")
    );
}
