//! Which labels of a pod no plugin changes: those by which its controller finds it, whoever asks, and no others.

use std::process::{Command, Output};

use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, address};
use podloom_tests::{
    AuditedRequest, Bundle, Cluster, MountedBundle, Operator, Scene, binary, blackbox_on,
    eventually,
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// Writes three labels, of which each workload selects others.
const CHAIN: &str = "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [\
     { key: app, value: stolen, mode: overwrite }, { key: tier, value: stolen, mode: overwrite }, \
     { key: zone, mode: remove }] } }]";
const LABELS: [&str; 3] = ["app", "tier", "zone"];

/// Kinds of workloads, what of their spec differs, and which of the labels they keep.
const WORKLOADS: [(&str, &str, &str, &[&str]); 9] = [
    (
        "apps/v1",
        "Deployment",
        r#"{ "selector": { "matchLabels": { "app": "own", "zone": "own" } } }"#,
        &["app", "zone"],
    ),
    (
        "apps/v1",
        "ReplicaSet",
        r#"{ "selector": { "matchLabels": { "app": "own" } } }"#,
        &["app"],
    ),
    (
        "apps/v1",
        "ReplicaSet",
        r#"{ "selector": { "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["own"] }] } }"#,
        &["tier"],
    ),
    (
        "apps/v1",
        "StatefulSet",
        r#"{ "serviceName": "a", "selector": { "matchLabels": { "app": "own" } } }"#,
        &["app"],
    ),
    (
        "apps/v1",
        "DaemonSet",
        r#"{ "selector": { "matchLabels": { "tier": "own" } } }"#,
        &["tier"],
    ),
    // The API server generates its selector.
    ("batch/v1", "Job", "{}", &[]),
    (
        "batch/v1",
        "Job",
        r#"{ "manualSelector": true, "selector": { "matchLabels": { "app": "own" } } }"#,
        &["app"],
    ),
    (
        "v1",
        "ReplicationController",
        r#"{ "selector": { "app": "own" } }"#,
        &["app"],
    ),
    // By default it selects all labels of its template.
    ("v1", "ReplicationController", "{}", &LABELS),
];

fn file(content: &Value) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    serde_json::to_writer(&file, content).unwrap();
    file
}

fn workload(scene: &Scene, name: &str, (api_version, kind, spec): (&str, &str, &str)) -> Value {
    let mut spec: Value = serde_json::from_str(spec).unwrap();
    let mut pod = json!({ "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] });
    if kind == "Job" {
        pod["restartPolicy"] = json!("Never");
    }
    let labels = json!({ "app": "own", "tier": "own", "zone": "own" });
    spec["template"] = json!({ "metadata": { "labels": labels }, "spec": pod });
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": name, "namespace": scene.namespace }, "spec": spec,
    })
}

/// Which of the labels are as the author of the template wrote them.
fn kept(labels: &Value) -> Vec<&'static str> {
    LABELS
        .into_iter()
        .filter(|label| labels[label] == "own")
        .collect()
}

/// Which of the labels the first pod of a workload keeps in the cluster. The real controllers create it.
async fn in_cluster(scene: &Scene, name: &str) -> Vec<&'static str> {
    let start = format!("{name}-");
    let labels = eventually("the workload has a pod", async || {
        let get = [
            "get",
            "pods",
            "--namespace",
            &scene.namespace,
            "--output=json",
        ];
        let pods: Value = serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap();
        let mut metadata = pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| &pod["metadata"]);
        let found = metadata.find(|it| it["name"].as_str().unwrap().starts_with(&start));
        let found = found.ok_or_else(|| format!("no pod of {name}"))?;
        assert!(found["annotations"][STAMP].is_string(), "{found}");
        Ok::<_, String>(found["labels"].clone())
    })
    .await;
    kept(&labels)
}

fn podloom(arguments: &[&str]) -> Value {
    let output = Command::new(binary().unwrap())
        .args(arguments)
        .output()
        .unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    assert!(printed.is_ok(), "{output:?}");
    printed.unwrap()
}

fn in_render(bundle: &Bundle, workload: &Value) -> Vec<&'static str> {
    let (plugins, workload) = (bundle.path().to_str().unwrap(), file(workload));
    let path = workload.path().to_str().unwrap();
    let rendered = podloom(&[
        "render",
        "--output=json",
        "--plugins",
        plugins,
        "--filename",
        path,
    ]);
    kept(&rendered["spec"]["template"]["metadata"]["labels"])
}

/// Of `podloom chain diff`, which shows what changed.
fn in_diff(bundle: &Bundle, workload: &Value) -> Vec<&'static str> {
    let (plugins, workload) = (bundle.path().to_str().unwrap(), file(workload));
    let path = workload.path().to_str().unwrap();
    let diff = podloom(&[
        "chain",
        "diff",
        "none",
        plugins,
        "--output=json",
        "--filename",
        path,
    ])
    .to_string();
    let is_kept = |label: &&str| !diff.contains(&format!("/metadata/labels/{label}"));
    LABELS.into_iter().filter(is_kept).collect()
}

#[test]
fn the_webhook_render_and_diff_keep_the_same_labels_of_each_kind_of_workload() {
    blackbox_on(Cluster::without_operator, "webhook-kinds", async |scene| {
        let bundle = Bundle::of(CHAIN);
        let webhook = Webhook::new(&scene, Route::Url);
        let _operator = webhook.operator(bundle.path(), &[]).await;
        for (index, (api_version, kind, spec, expected)) in WORKLOADS.into_iter().enumerate() {
            let name = format!("own-{index}");
            let workload = workload(&scene, &name, (api_version, kind, spec));
            assert_eq!(
                in_render(&bundle, &workload),
                expected,
                "render {kind} {spec}"
            );
            assert_eq!(in_diff(&bundle, &workload), expected, "diff {kind} {spec}");
            scene.cluster.apply_text(&workload.to_string());
            assert_eq!(
                in_cluster(&scene, &name).await,
                expected,
                "webhook {kind} {spec}"
            );
        }
    });
}

/// Creates a pod that says that this object controls it, as whoever these options of kubectl name.
fn create(scene: &Scene, who: &[&str], owner: &Value) -> (Value, String) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "forged-", "namespace": scene.namespace,
            "labels": { "app": "own", "tier": "own", "zone": "own" }, "ownerReferences": [owner],
        },
        "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
    });
    let pod = file(&pod);
    let path = pod.path().to_str().unwrap();
    let mut command = scene.cluster.plane.kubectl();
    command
        .args([
            "create",
            "--dry-run=server",
            "--output=json",
            "--filename",
            path,
        ])
        .args(who);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{stderr}");
    (serde_json::from_slice(&stdout).unwrap(), stderr)
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true })
}

#[test]
fn a_controller_that_the_author_of_a_pod_writes_into_it_keeps_no_label() {
    blackbox_on(Cluster::without_operator, "webhook-forged", async |scene| {
        let (bundle, webhook) = (Bundle::of(CHAIN), Webhook::new(&scene, Route::Url));
        let operator = webhook.operator(bundle.path(), &[]).await;
        let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["create"] }]);
        let tenant = scene.account("tenant", &rules);
        let tenant = ["--kubeconfig", tenant.to_str().unwrap()];
        let controller = ["--as=system:serviceaccount:kube-system:replicaset-controller"];
        let (set, map) = real_owners(&scene);
        let real = owner("apps/v1", "ReplicaSet", "own", &set);
        let gone = owner("apps/v1", "ReplicaSet", "none", &set);
        let other = owner("apps/v1", "ReplicaSet", "own", &map);
        let config = owner("v1", "ConfigMap", "own", &map);
        let of_kind = "is ConfigMap own, whose kind";
        let others = [
            (&tenant[..], &config, of_kind),
            (&tenant, &real, "is not the account that creates its pods"),
            (&tenant, &gone, "is not the account that creates its pods"),
            (&controller, &config, of_kind),
            (&controller, &gone, "does not exist with this UID"),
            (&controller, &other, "does not exist with this UID"),
        ];
        for (who, owner, why) in others {
            let (pod, warnings) = create(&scene, who, owner);
            assert_eq!(kept(&pod["metadata"]["labels"]), [""; 0], "{who:?} {owner}");
            assert!(
                warnings.contains("no label of this pod is protected") && warnings.contains(why),
                "{warnings}"
            );
        }
        let (pod, warnings) = create(&scene, &controller, &real);
        assert_eq!(kept(&pod["metadata"]["labels"]), ["app"], "{warnings}");
        drop(operator);

        let _operator = webhook
            .operator(bundle.path(), &["--unknown-owners", "protect"])
            .await;
        for (who, owner, _) in others {
            let (pod, warnings) = create(&scene, who, owner);
            assert_eq!(kept(&pod["metadata"]["labels"]), LABELS, "{who:?} {owner}");
            assert!(
                warnings.contains("every label of this pod is protected"),
                "{warnings}"
            );
        }
    });
}

/// The UIDs of a ReplicaSet without pods and of a ConfigMap, both called `own`.
fn real_owners(scene: &Scene) -> (String, String) {
    let ns = ["own", "--namespace", scene.namespace.as_str()];
    let kubectl = |command: &[&str]| scene.cluster.kubectl(&[command, &ns].concat());
    kubectl(&["create", "configmap"]);
    let mut replica_set = workload(scene, "own", ("apps/v1", "ReplicaSet", WORKLOADS[1].2));
    replica_set["spec"]["replicas"] = json!(0);
    scene.cluster.apply_text(&replica_set.to_string());
    let uid = |kind: &str| kubectl(&["get", "--output=jsonpath={.metadata.uid}", kind]);
    (uid("replicaset"), uid("configmap"))
}

fn reads_of_owners(scene: &Scene, webhook: &Webhook) -> Vec<AuditedRequest> {
    let mut requests = scene.cluster.requests_of(&webhook.user);
    requests.retain(|request| request.resource == "replicasets");
    requests
}

/// Takes the rights to the owners of pods out of a role.
fn without_owners(scene: &Scene, role: &str) {
    let get = ["get", "clusterrole", role, "--output=json"];
    let mut role: Value = serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    let count = rules.len();
    rules.retain(|rule| rule["verbs"] != json!(["get"]));
    assert_eq!(rules.len(), count - 5);
    scene.cluster.apply_text(&role.to_string());
}

const MISSING: &str = "may not get daemonsets.apps, replicasets.apps, statefulsets.apps, jobs.batch, replicationcontrollers in all namespaces";

async fn readiness(operator: &Operator, expected: u16, words: &str) {
    eventually("readiness says it", async || {
        let (status, text) = operator.get("/readyz")?;
        let is_said = status == expected && text.contains(words);
        is_said.then_some(()).ok_or(text)
    })
    .await;
}

#[test]
fn without_the_right_to_read_owners_pods_wait_unless_no_plugin_writes_labels() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-no-owners",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            without_owners(&scene, &webhook.name);
            let set = |name: &str| {
                workload(&scene, name, ("apps/v1", "ReplicaSet", WORKLOADS[1].2)).to_string()
            };
            let bundle = MountedBundle::of(
                "[{ name: hardening, file: hardening.wasm.gz, allow: [/spec/securityContext], config: { mode: mutate, profile: baseline } }]",
            );
            let operator = webhook.operator(bundle.path(), &[]).await;
            scene.cluster.apply_text(&set("own"));
            assert_eq!(in_cluster(&scene, "own").await, LABELS);
            assert_eq!(reads_of_owners(&scene, &webhook).len(), 0);
            // One that serves stays, whatever chain comes.
            readiness(&operator, 200, "[+]webhook/rights ok").await;
            bundle.update(CHAIN);
            readiness(&operator, 200, "this replica never had the right").await;
            drop(operator);

            let bundle = Bundle::of(CHAIN);
            let operator = webhook.spawn(bundle.path(), &[]);
            webhook.configure(address(&operator).await, Policy::Fail);
            readiness(&operator, 503, MISSING).await;
            scene.cluster.apply_text(&set("refused"));
            eventually("an Event names the right", async || {
                let events = scene.events("refused").await;
                let is_named = |event: &String| {
                    event.contains("the webhook may not get replicasets in namespace")
                };
                events
                    .iter()
                    .any(is_named)
                    .then_some(())
                    .ok_or_else(|| format!("{events:#?}"))
            })
            .await;
            scene.cluster.apply_text(&podloom_tests::rbac(&[
                "--controllers",
                "webhook",
                "--webhook-name",
                &webhook.name,
                "--operator-namespace",
                &webhook.home,
            ]));
            assert_eq!(in_cluster(&scene, "refused").await, ["app"]);
            readiness(&operator, 200, "[+]webhook/rights ok").await;

            // A refusal that passes does not take the replica away from other pods.
            without_owners(&scene, &webhook.name);
            scene.cluster.apply_text(&set("again"));
            readiness(&operator, 200, MISSING).await;
        },
    );
}
