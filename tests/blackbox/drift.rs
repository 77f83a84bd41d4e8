//! `podloom drift`: what missed the chain or was changed after it, and that what it says to do mends it.

mod metric;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, address, dry_run, plain_pod};
use podloom_tests::{Bundle, Cluster, Operator, Scene, binary, blackbox_on, eventually};
use serde_json::{Value, json};

/// Nobody listens here.
const NOBODY: &str = "127.0.0.1:9";

/// Sets a label on pods of `web`, and on bare pods.
const LABELS: &str = "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], \
    match: { selector: { matchExpressions: [{ key: outside, operator: DoesNotExist }] } }, \
    config: { labels: [{ key: team, value: core, mode: overwrite }] } }]";
/// Another chain.
const LATER: &str = "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], \
    config: { labels: [{ key: team, value: shop, mode: overwrite }] } }]";
/// The first chain, with plugins that deny or harden ephemeral containers, and one that fails on pods with the label `break`.
const STRICT: &str = "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], \
    match: { selector: { matchExpressions: [{ key: outside, operator: DoesNotExist }] } }, \
    config: { labels: [{ key: team, value: core, mode: overwrite }] } }, \
    { name: policy, file: script.wasm.gz, match: { operations: [CREATE, UPDATE] }, config: { program: \
    'for c in pod.containers([\"/image\"]) { if c.image.ends_with(\":forbidden\") { deny(`${c.name}: this image is forbidden`) } }' } }, \
    { name: hardening, file: hardening.wasm.gz, match: { operations: [CREATE, UPDATE] }, allow: \
    [/spec/securityContext, '/spec/containers/*/securityContext', '/spec/initContainers/*/securityContext', '/spec/ephemeralContainers/*/securityContext'], \
    config: { ephemeralContainers: harden } }, \
    { name: breaks, file: breaks.wasm, allow: [/metadata/labels], match: { operations: [CREATE, UPDATE] }, failurePolicy: Ignore } ]";

struct Drift<'s> {
    scene: &'s Scene,
    webhook: String,
    plugins: PathBuf,
}

impl<'s> Drift<'s> {
    fn new(scene: &'s Scene, webhook: &Webhook, bundle: &Bundle) -> Self {
        Self {
            scene,
            webhook: webhook.name.clone(),
            plugins: bundle.path().to_owned(),
        }
    }

    fn run(&self, kubeconfig: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(binary().unwrap());
        command.args(["drift", "-n", &self.scene.namespace]);
        command.args(["--webhook-configuration", &self.webhook]);
        command.args(more).env("KUBECONFIG", kubeconfig);
        command.output().unwrap()
    }

    fn json(&self, kubeconfig: &Path, more: &[&str]) -> (Option<i32>, Value) {
        let output = self.run(kubeconfig, &[more, &["-o", "json", "--exit-code"]].concat());
        let printed = serde_json::from_slice(&output.stdout);
        assert!(printed.is_ok(), "{output:?}");
        (output.status.code(), printed.unwrap())
    }

    /// As an administrator, who knows the chain.
    fn found(&self) -> (Option<i32>, Value) {
        let plugins = self.plugins.to_str().unwrap();
        self.json(&self.admin(), &["--plugins", plugins])
    }

    fn text(&self) -> String {
        let output = self.run(&self.admin(), &[]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn admin(&self) -> PathBuf {
        self.scene.cluster.plane.kubeconfig()
    }

    /// Runs what is to be done, as a person would.
    fn mend(&self, command: &str) {
        let kubectl = self.scene.cluster.plane.kubectl();
        let programs = Path::new(kubectl.get_program()).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        for (name, value) in kubectl.get_envs() {
            shell.env(name, value.unwrap());
        }
        shell.env("PATH", format!("{}:{path}", programs.display()));
        let done = shell.args(["-ec", command]).output().unwrap();
        assert!(done.status.success(), "{command}: {done:?}");
    }
}

/// `Deployment web 2`
fn rows(found: &Value, which: &str) -> Vec<String> {
    let rows = found[which].as_array().unwrap().iter();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let row = |row: &Value| {
        format!(
            "{} {} {}",
            text(row, "kind"),
            text(row, "name"),
            row["pods"]
        )
    };
    rows.map(row).collect()
}

async fn create(scene: &Scene, pod: &Pod) -> Pod {
    let created = scene.pods().create(&PostParams::default(), pod).await;
    created.unwrap()
}

async fn pods_of_web(scene: &Scene) -> Vec<Pod> {
    let selected = ListParams::default().labels("app=web");
    scene.pods().list(&selected).await.unwrap().items
}

async fn deploy_web(scene: &Scene) {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": scene.namespace },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
            },
        },
    });
    scene.cluster.apply_text(&deployment.to_string());
    eventually("the Deployment has its pods", async || {
        let pods = pods_of_web(scene).await.len();
        (pods == 2).then_some(()).ok_or_else(|| pods.to_string())
    })
    .await;
}

/// Configures the webhook for an address where nobody answers, and for namespaces with a label only.
async fn configure(scene: &Scene, webhook: &Webhook) {
    let nobody: SocketAddr = NOBODY.parse().unwrap();
    webhook.configure(nobody, Policy::Ignore);
    let patch = json!([{
        "op": "add", "path": "/webhooks/0/namespaceSelector/matchLabels/mutate", "value": "enabled",
    }]);
    change(scene, webhook, &patch);
    webhook.is_older(scene).await;
}

fn change(scene: &Scene, webhook: &Webhook, patch: &Value) {
    let kind = "mutatingwebhookconfiguration";
    let patch = [
        "patch",
        kind,
        &webhook.name,
        "--type=json",
        "--patch",
        &patch.to_string(),
    ];
    scene.cluster.kubectl(&patch);
}

/// Lets the webhook of a configuration be answered by an operator.
async fn serve(scene: &Scene, webhook: &Webhook, operator: &Operator) {
    let url = format!("https://{}/mutate/pods", address(operator).await);
    let patch = json!([
        { "op": "replace", "path": "/webhooks/0/clientConfig/url", "value": url },
        { "op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail" },
    ]);
    change(scene, webhook, &patch);
    operator.ready().await;
    webhook.serves().await;
}

/// Two pods of a Deployment and one pod from before the label of the namespace, and two for which the webhook does not answer.
async fn pods_without_the_chain(scene: &Scene) {
    deploy_web(scene).await;
    create(scene, &plain_pod("before-label")).await;
    let label = ["label", "namespace", &scene.namespace, "mutate=enabled"];
    scene.cluster.kubectl(&label);
    let ignored = create(scene, &plain_pod("ignored")).await;
    assert!(!ignored.annotations().contains_key(STAMP));
    let mut outside = plain_pod("outside");
    outside
        .labels_mut()
        .insert("outside".to_owned(), String::new());
    create(scene, &outside).await;
}

#[test]
fn what_missed_the_chain_is_found_and_mended() {
    blackbox_on(Cluster::without_operator, "drift-missed", async |scene| {
        let (webhook, bundle) = (Webhook::new(&scene, Route::Url), Bundle::of(LABELS));
        let drift = Drift::new(&scene, &webhook, &bundle);
        create(&scene, &plain_pod("before-webhook")).await;
        let (code, found) = drift.found();
        // Nothing is known of missed pods, so this does not look as if there were none.
        assert_eq!((code, &found["notSelected"]), (Some(3), &json!(1)));
        assert_eq!(found["missedIsKnown"], false, "{found}");
        let skipped = found["skipped"][0]["what"].as_str().unwrap();
        assert!(
            skipped.starts_with("MutatingWebhookConfiguration"),
            "{found}"
        );

        configure(&scene, &webhook).await;
        pods_without_the_chain(&scene).await;
        let (code, found) = drift.found();
        let missed = ["Deployment web 2", "Pod before-label 1", "Pod ignored 1"];
        assert_eq!(rows(&found, "missed"), missed, "{found}");
        let counts = ["pods", "olderThanWebhook", "unmatched"].map(|it| &found[it]);
        assert_eq!(counts, [&json!(6), &json!(1), &json!(1)], "{found}");
        assert_eq!((code, &found["skipped"]), (Some(4), &json!([])));
        assert_eq!(found["missed"][0]["plugins"], json!(["labels"]));
        // Without the chain, every pod counts as matched.
        let (_, unmatched) = drift.json(&drift.admin(), &[]);
        let missed = [&missed[..], &["Pod outside 1"]].concat();
        assert_eq!(rows(&unmatched, "missed"), missed, "{unmatched}");
        check_without_replica_sets(&drift);

        let operator = webhook.spawn(bundle.path(), &[]);
        serve(&scene, &webhook, &operator).await;
        for row in found["missed"].as_array().unwrap() {
            drift.mend(row["whatToDo"].as_str().unwrap());
        }
        let mended = eventually("nothing has missed the chain any more", async || {
            let (code, found) = drift.found();
            let is_mended = code == Some(0) && found["chains"][0]["pods"] == 4;
            is_mended.then_some(found.clone()).ok_or(found.to_string())
        });
        let mended = mended.await;
        assert_eq!(mended["chains"][0]["isThatOfPlugins"], true, "{mended}");

        let label = ["label", "namespace", &scene.namespace, "mutate-"];
        scene.cluster.kubectl(&label);
        eventually("new pods do not pass the chain any more", async || {
            let pod = scene.pods().create(&dry_run(), &plain_pod("later")).await;
            let passed = pod.unwrap().annotations().contains_key(STAMP);
            (!passed)
                .then_some(())
                .ok_or_else(|| "it passed".to_owned())
        })
        .await;
        create(&scene, &plain_pod("later")).await;
        let (code, found) = drift.found();
        assert_eq!((code, &found["missed"]), (Some(0), &json!([])), "{found}");
    });
}

/// Adds an ephemeral container to a pod, as `kubectl debug` does.
async fn debug(scene: &Scene, pod: &str, image: &str) {
    let container = json!({ "name": "debugger", "image": image });
    let patch = Patch::Strategic(json!({ "spec": { "ephemeralContainers": [container] } }));
    let (pods, params) = (scene.pods(), PatchParams::default());
    let patched = pods.patch_subresource("ephemeralcontainers", pod, &params, &patch);
    patched.await.unwrap();
}

#[test]
fn ephemeral_containers_that_the_chain_would_deny_are_found() {
    blackbox_on(Cluster::without_operator, "drift-debug", async |scene| {
        let (webhook, bundle) = (Webhook::new(&scene, Route::Url), Bundle::of(STRICT));
        let drift = Drift::new(&scene, &webhook, &bundle);
        let _operator = webhook.operator(bundle.path(), &[]).await;
        for name in ["debugged", "plain", "broken", "untouched"] {
            let mut pod = plain_pod(name);
            if name == "broken" {
                pod.labels_mut().insert("break".to_owned(), String::new());
            }
            create(&scene, &pod).await;
        }
        // Nobody asks the webhook about them.
        debug(&scene, "debugged", "busybox:forbidden").await;
        debug(&scene, "plain", "busybox:1").await;
        debug(&scene, "broken", "busybox:1").await;
        let (code, found) = drift.found();
        assert_eq!((code, &found["missed"]), (Some(4), &json!([])), "{found}");
        let rejected = ["Pod debugged 1", "Pod plain 1"];
        assert_eq!(rows(&found, "ephemeral"), rejected, "{found}");
        let reasons = json!(["plugin policy denies the pod: debugger: this image is forbidden"]);
        assert_eq!(found["ephemeral"][0]["reasons"], reasons, "{found}");
        let first = found["ephemeral"][1]["reasons"][0].as_str().unwrap();
        let start = "plugin hardening would write /spec/ephemeralContainers/[name=debugger]/securityContext";
        assert!(first.starts_with(start), "{found}");
        // A plugin failed, so nobody knows.
        assert_eq!(found["unclear"][0]["pods"], 1, "{found}");
        for row in found["ephemeral"].as_array().unwrap() {
            drift.mend(row["whatToDo"].as_str().unwrap());
        }
        let (code, found) = drift.found();
        assert_eq!(
            (code, &found["ephemeral"]),
            (Some(0), &json!([])),
            "{found}"
        );
        // Without the chain, nothing is known of them.
        let (code, found) = drift.json(&drift.admin(), &[]);
        assert_eq!((code, &found["ephemeral"]), (Some(0), &json!([])));
    });
}

/// An account that may read what is needed, except ReplicaSets, and one that may list pods alone.
fn check_without_replica_sets(drift: &Drift<'_>) {
    let most = json!([
        { "apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list"] },
        { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"] },
        { "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
          "verbs": ["get"] },
    ]);
    let kubeconfig = drift.scene.account("most", &most);
    let plugins = drift.plugins.to_str().unwrap();
    let (code, found) = drift.json(&kubeconfig, &["--plugins", plugins]);
    let missed = rows(&found, "missed");
    assert!(
        missed.last().unwrap().starts_with("ReplicaSet web-"),
        "{found}"
    );
    assert_eq!((code, missed.len()), (Some(4), 3), "{found}");
    assert_eq!(skipped(&found), ["ReplicaSets"]);

    let pods = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }]);
    let kubeconfig = drift.scene.account("pods", &pods);
    let (code, found) = drift.json(&kubeconfig, &["--plugins", plugins]);
    assert_eq!((code, &found["missed"]), (Some(3), &json!([])), "{found}");
    assert_eq!(found["unclear"][0]["pods"], 6, "{found}");
    let output = drift.run(&kubeconfig, &["--exit-code"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("but which of them missed the chain is not known"),
        "{text}"
    );
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = "error: which pods missed the chain is not known: you may not get MutatingWebhookConfiguration";
    assert!(error.starts_with(expected), "{error}");
    let webhook = format!("MutatingWebhookConfiguration {}", drift.webhook);
    let what = [webhook.as_str(), "labels of namespaces", "ReplicaSets"];
    assert_eq!(skipped(&found), what, "{found}");

    let kubeconfig = drift.scene.account("nothing", &json!([]));
    let output = drift.run(&kubeconfig, &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("you may not list pods"), "{error}");
}

fn skipped(found: &Value) -> Vec<&str> {
    let skipped = found["skipped"].as_array().unwrap().iter();
    skipped.map(|it| it["what"].as_str().unwrap()).collect()
}

#[test]
fn what_was_changed_after_the_chain_is_found() {
    blackbox_on(Cluster::without_operator, "drift-changed", async |scene| {
        let (webhook, bundle) = (Webhook::new(&scene, Route::Url), Bundle::of(LABELS));
        let drift = Drift::new(&scene, &webhook, &bundle);
        let operator = webhook.operator(bundle.path(), &[]).await;
        deploy_web(&scene).await;
        for name in ["bare", "untouched", "forged"] {
            create(&scene, &plain_pod(name)).await;
        }
        let (code, found) = drift.found();
        assert_eq!((code, &found["drifted"]), (Some(0), &json!(false)));
        let text = drift.text();
        assert!(
            text.contains("\nnothing drifted: 5 pods in 1 namespace\n"),
            "{text}"
        );

        let web = pods_of_web(&scene).await;
        let kubectl = |arguments: &[&str]| {
            let namespace = ["--namespace", scene.namespace.as_str()];
            scene.cluster.kubectl(&[arguments, &namespace].concat());
        };
        let of_web = web.first().unwrap().name_any();
        for name in ["bare", of_web.as_str()] {
            kubectl(&["label", "pod", name, "--overwrite", "team=other"]);
        }
        // No plugin wrote this.
        kubectl(&["label", "pod", "untouched", "own=label"]);
        let stamp = "podloom.dev/mutations=[]";
        kubectl(&["annotate", "pod", "forged", "--overwrite", stamp]);
        let (code, found) = drift.found();
        assert_eq!((code, &found["missed"]), (Some(4), &json!([])));
        let changed = ["Deployment web 1", "Pod bare 1", "Pod forged 1"];
        assert_eq!(rows(&found, "changed"), changed, "{found}");
        let label = json!([{ "path": "/metadata/labels/team", "plugin": "labels", "manager": "kubectl-label" }]);
        assert_eq!(found["changed"][0]["changes"], label, "{found}");
        assert_eq!(found["changed"][1]["changes"], label, "{found}");
        let path = "/metadata/annotations/podloom.dev~1mutations";
        let forged = json!([{ "path": path, "plugin": null, "manager": "kubectl-annotate" }]);
        assert_eq!(found["changed"][2]["changes"], forged, "{found}");
        let text = drift.text();
        let line = "/metadata/labels/team (plugin labels), by kubectl-label";
        assert!(text.contains(line), "{text}");

        check_large_pods(&drift).await;
        drop(operator);
        check_older_chains(&drift, &webhook).await;
    });
}

/// Anybody may make large pods. They are not read, and do not look as if nothing had happened to them.
async fn check_large_pods(drift: &Drift<'_>) {
    let (_, before) = drift.found();
    let mut large = plain_pod("large");
    let containers = &mut large.spec.as_mut().unwrap().containers;
    containers[0].args = Some(vec!["x".repeat(600 * 1024)]);
    create(drift.scene, &large).await;
    let (_, found) = drift.found();
    let unclear = json!([{ "pods": 1, "why": "they are larger than 512 KiB, or nested too deep, so they were not looked at" }]);
    assert_eq!(found["unclear"], unclear, "{found}");
    assert_eq!(found["changed"], before["changed"], "{found}");
    let gone = DeleteParams::default().grace_period(0);
    drift.scene.pods().delete("large", &gone).await.unwrap();
}

/// Pods of another chain are counted, and are no error.
async fn check_older_chains(drift: &Drift<'_>, webhook: &Webhook) {
    let later = Bundle::of(LATER);
    let _operator = webhook.operator(later.path(), &[]).await;
    create(drift.scene, &plain_pod("newest")).await;
    let plugins = ["--plugins", later.path().to_str().unwrap(), "-l", "!app"];
    let (_, found) = drift.json(&drift.admin(), &plugins);
    let chains = found["chains"].as_array().unwrap().iter();
    let chains: Vec<_> = chains
        .map(|it| (&it["pods"], &it["isThatOfPlugins"]))
        .collect();
    let expected = [(&json!(1), &json!(true)), (&json!(3), &json!(false))];
    assert_eq!(chains, expected, "{found}");
    assert_eq!(rows(&found, "changed"), ["Pod bare 1", "Pod forged 1"]);
}
