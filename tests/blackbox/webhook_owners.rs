//! Pods that others look after: a ReplicaSet, a kubelet, and an account that says which pods passed the chain already.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use podloom_tests::webhook::{Route, STAMP, Webhook};
use podloom_tests::{Cluster, MountedBundle, Scene, Watched, blackbox_on, eventually, standard};
use serde_json::{Value, json};

fn relabels(policy: &str) -> String {
    format!(
        "\n- {{ name: relabels, file: relabels.wasm, allow: [/metadata/labels], failurePolicy: {policy} }}"
    )
}

/// Writes the label, and needs no permission from the pod.
const OVERWRITES: &str = "\n- { name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [{ key: app, value: stolen, mode: overwrite }] } }";

fn deploy(scene: &Scene, name: &str) {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": scene.namespace },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
            },
        },
    });
    scene.cluster.apply_text(&deployment.to_string());
}

/// The name of a Deployment's ReplicaSet, once it has one.
fn replica_set(scene: &Scene, app: &str) -> String {
    let (selector, query) = (
        format!("--selector=app={app}"),
        "--output=jsonpath={.items[*].metadata.name}",
    );
    let namespace = scene.namespace.as_str();
    let get = [
        "get",
        "replicasets",
        "--namespace",
        namespace,
        &selector,
        query,
    ];
    scene.cluster.kubectl(&get).trim().to_owned()
}

fn pods_of(pods: &Watched<Pod>, name: &str) -> BTreeSet<Option<String>> {
    let start = format!("{name}-");
    let changes = pods.changes();
    let own = changes.iter().map(|change| change.object());
    let own = own.filter(|pod| pod.name_any().starts_with(&start));
    own.map(ResourceExt::uid).collect()
}

#[test]
fn a_label_that_a_selector_matches_is_never_taken_away() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-selector",
        async |scene| {
            let bundle = MountedBundle::of(&relabels("Fail"));
            let webhook = Webhook::new(&scene, Route::Url);
            let operator = webhook.operator(bundle.path(), &[]).await;
            let pods = scene.watch_pods().await;
            deploy(&scene, "refused");
            let event = eventually("the ReplicaSet has an Event", async || {
                let events = scene.events(&replica_set(&scene, "refused")).await;
                let found = events
                    .iter()
                    .find(|event| event.contains("plugin relabels: "));
                found.cloned().ok_or_else(|| format!("{events:#?}"))
            })
            .await;
            assert!(event.starts_with("Warning FailedCreate: "), "{event}");
            assert!(event.contains("/metadata/labels/app"), "{event}");
            assert!(pods_of(&pods, "refused").is_empty());

            let chain = || {
                let plugins: Value =
                    serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap();
                plugins["chain"].clone()
            };
            let before = chain();
            bundle.update(&format!("{}{OVERWRITES}", relabels("Ignore")));
            eventually("the next chain serves", async || {
                (chain() != before)
                    .then_some(())
                    .ok_or_else(|| before.to_string())
            })
            .await;
            deploy(&scene, "kept");
            let namespace = scene.namespace.as_str();
            let rollout = [
                "rollout",
                "status",
                "deployment/kept",
                "--namespace",
                namespace,
                "--timeout=60s",
            ];
            scene.cluster.kubectl(&rollout);
            let kept = pods_of(&pods, "kept");
            assert_eq!(kept.len(), 2, "{kept:?}");
            let selected = pods.changes();
            let stolen = selected.iter().filter(|change| {
                change.object().labels().get("app").map(String::as_str) == Some("stolen")
            });
            assert_eq!(stolen.count(), 0);
        },
    );
}

/// Creates a pod as whoever these options of kubectl name, and returns it as it is stored.
fn create(scene: &Scene, who: &[&str], pod: &Value) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pod.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = [&["create", "--filename", path, "--output=json"], who].concat();
    serde_json::from_str(&scene.cluster.kubectl(&arguments)).unwrap()
}

/// What plugins can change.
fn visible(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    json!({ "labels": metadata["labels"], "annotations": metadata["annotations"], "spec": pod["spec"] })
}

fn pod(scene: &Scene, name: &str, annotations: &Value, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": scene.namespace, "annotations": annotations },
        "spec": { "nodeName": node, "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
    })
}

/// An account that may create pods.
fn account(scene: &Scene) -> String {
    let namespace = scene.namespace.as_str();
    let metadata = json!({ "name": "trusted", "namespace": namespace });
    let role =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "trusted" });
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["create"] }],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata, "roleRef": role,
            "subjects": [{ "kind": "ServiceAccount", "name": "trusted", "namespace": namespace }],
        },
    ] });
    scene.cluster.apply_text(&objects.to_string());
    let plane = &scene.cluster.plane;
    let kubeconfig = plane
        .kubeconfig_for_service_account(namespace, "trusted")
        .unwrap();
    kubeconfig.to_str().unwrap().to_owned()
}

#[test]
fn mirror_pods_and_stamped_pods_of_a_trusted_account_pass_unchanged() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-trusted",
        async |scene| {
            let node = scene.cluster.kubectl(&[
                "get",
                "nodes",
                "--output=jsonpath={.items[0].metadata.name}",
            ]);
            let mirror = |name: &str| {
                pod(
                    &scene,
                    name,
                    &json!({ "kubernetes.io/config.mirror": "a" }),
                    Some(&node),
                )
            };
            let plain = visible(&create(&scene, &[], &mirror("before")));
            // The webhook knows kubelets by their name. Anybody else could write the annotation too.
            let kubelet = format!("--as=system:node:{node}");
            let kubelet = [kubelet.as_str(), "--as-group=system:masters"];
            let webhook = Webhook::new(&scene, Route::Url);
            let trusted = format!("{}/trusted", scene.namespace);
            let operator = webhook
                .operator(&standard(), &["--trusted-account", &trusted])
                .await;
            assert_eq!(visible(&create(&scene, &kubelet, &mirror("after"))), plain);

            let account = account(&scene);
            let account = ["--kubeconfig", account.as_str()];
            let plugins: Value =
                serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap();
            let stamp = plugins["chain"].clone();
            let stamped = |name: &str, stamp: &Value| {
                pod(&scene, name, &json!({ STAMP: stamp }), Some(&node))
            };
            // The same pod, but for the annotation of the mirror.
            let mut unchanged = plain;
            unchanged["annotations"] = json!({ STAMP: stamp });
            let created = create(&scene, &account, &stamped("trusted", &stamp));
            assert_eq!(visible(&created), unchanged);
            // A stamp of another chain says nothing, and nobody else's stamp counts.
            let forged = json!("0".repeat(64));
            for (name, who, claimed) in
                [("old", &account[..], &forged), ("forged", &[][..], &stamp)]
            {
                let created = create(&scene, who, &stamped(name, claimed));
                assert_eq!(created["metadata"]["annotations"][STAMP], stamp, "{name}");
                assert_eq!(
                    created["spec"]["securityContext"]["runAsNonRoot"], true,
                    "{name}"
                );
            }
        },
    );
}
