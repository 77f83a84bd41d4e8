//! Pods of any workload pass the chain through the admission webhook, which the real API server calls.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use podloom_tests::webhook::{Route, STAMP, Webhook};
use podloom_tests::{Cluster, Operator, Scene, blackbox_on, eventually, standard};
use serde_json::{Value, json};

const IMAGE: &str = "--image=registry.k8s.io/pause:3.10";
const INJECT: &str = "sidecar.podloom.dev/inject";

/// One of each kind of workload, and pods that have no name of their own.
const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: deployment }
spec:
  replicas: 2
  selector: { matchLabels: { app: deployment } }
  template:
    metadata: { labels: { app: deployment, sidecar.podloom.dev/inject: "true" } }
    spec: { containers: [{ name: a, image: "registry.k8s.io/pause:3.10" }] }
---
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: stateful }
spec:
  serviceName: stateful
  selector: { matchLabels: { app: stateful } }
  template:
    metadata: { labels: { app: stateful } }
    spec: { containers: [{ name: a, image: "registry.k8s.io/pause:3.10" }] }
---
apiVersion: batch/v1
kind: Job
metadata: { name: job }
spec:
  template:
    metadata: { labels: { kubelet.test/behaviour: running } }
    spec: { restartPolicy: Never, containers: [{ name: a, image: "registry.k8s.io/pause:3.10" }] }
"#;

/// How many pods the test creates.
const PODS: usize = 6;

fn create_all(scene: &Scene) {
    let namespace = scene.namespace.as_str();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), WORKLOADS).unwrap();
    let path = file.path().to_str().unwrap();
    let cluster = &scene.cluster;
    cluster.kubectl(&["create", "--namespace", namespace, "--filename", path]);
    cluster.kubectl(&["run", "bare", "--namespace", namespace, IMAGE]);
}

async fn pods(scene: &Scene) -> Vec<Pod> {
    eventually("all pods are there", async || {
        let listed = scene.pods().list(&ListParams::default()).await.unwrap();
        let names: Vec<String> = listed.items.iter().map(ResourceExt::name_any).collect();
        let is_complete = names.len() == PODS;
        is_complete
            .then_some(listed.items)
            .ok_or_else(|| names.join(" "))
    })
    .await
}

/// Checks what each plugin of the standard chain does with every pod.
#[track_caller]
fn check(pod: &Pod, chain: &Value) {
    let name = pod.name_any();
    let stamp = pod.annotations().get(STAMP);
    assert_eq!(json!(stamp), *chain, "{name}");
    assert!(
        pod.annotations().contains_key("podloom.dev/mutations"),
        "{name}"
    );
    let is_asked = pod.labels().contains_key(INJECT);
    for (label, value) in [
        ("app.kubernetes.io/managed-by", "podloom"),
        ("submitted-as", "Pod"),
        ("team", "web"),
    ] {
        assert_eq!(
            pod.labels().get(label).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
    let spec = serde_json::to_value(&pod.spec).unwrap();
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{name}");
    assert_eq!(spec["automountServiceAccountToken"], false, "{name}");
    let companion = is_asked.then_some("companion");
    assert_eq!(
        spec["initContainers"][0]["name"].as_str(),
        companion,
        "{name}"
    );
    for container in [&spec["containers"][0], &spec["initContainers"][0]] {
        if !container.is_null() {
            let context = &container["securityContext"];
            assert_eq!(
                context["allowPrivilegeEscalation"], false,
                "{name}: {container}"
            );
        }
    }
}

fn answered(operator: &Operator, version: &str) -> f64 {
    let (_, metrics) = operator.get("/metrics").unwrap();
    let version = format!("version=\"{version}\"");
    let counted = metrics.lines().filter(|line| {
        line.starts_with("podloom_webhook_requests_total{") && line.contains(&version)
    });
    counted
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

async fn every_workload_passes(scene: &Scene, route: Route, spoken: &str, other: &str) {
    let namespace = scene.namespace.as_str();
    scene
        .cluster
        .kubectl(&["label", "namespace", namespace, "team=web"]);
    let webhook = Webhook::new(scene, route);
    let operator = webhook.operator(&standard(), &[]).await;
    create_all(scene);
    let generated = json!({
        "metadata": { "generateName": "generated-" },
        "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
    });
    scene.create(scene.pods(), generated).await;
    let plugins: Value = serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap();
    for pod in pods(scene).await {
        check(&pod, &plugins["chain"]);
    }
    assert!(answered(&operator, spoken) >= 6.0);
    assert_eq!(answered(&operator, other), 0.0);
    // Nothing but what its roles grant was needed.
    let requests = scene.cluster.requests_of(&webhook.user);
    assert!(
        requests.iter().any(|request| request.resource == "secrets"),
        "{requests:#?}"
    );
    let refused: Vec<_> = requests
        .iter()
        .filter(|request| request.status == 403)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn every_workload_passes_the_chain_behind_a_url() {
    blackbox_on(Cluster::without_operator, "webhook-url", async |scene| {
        every_workload_passes(&scene, Route::Url, "2", "1.1").await;
    });
}

#[test]
fn every_workload_passes_the_chain_behind_a_service() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-service",
        async |scene| {
            every_workload_passes(&scene, Route::Service, "1.1", "2").await;
        },
    );
}
