//! What people see of pods that the admission webhook refuses, and of the notes about those that it admits.

use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use podloom_tests::webhook::{Route, STAMP, Webhook};
use podloom_tests::{Cluster, Said, Scene, blackbox_on, eventually, standard};
use serde_json::{Value, json};

const DENIED: &str = r#"admission webhook "pods.podloom.dev" denied the request: hardening: the pod does not meet the Pod Security Standard restricted: /spec/containers/[name=bad]/securityContext/privileged: must not be true: remove it; /spec/containers/[name=bad]/securityContext/allowPrivilegeEscalation: must be false, which it cannot be beside privileged or CAP_SYS_ADMIN: remove these"#;

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: denied }
spec:
  selector: { matchLabels: { app: denied } }
  template:
    metadata: { labels: { app: denied } }
    spec: { containers: [{ name: bad, image: "registry.k8s.io/pause:3.10", securityContext: { privileged: true } }] }
"#;

fn run(scene: &Scene, name: &str, more: &[&str]) -> Said {
    let arguments = [&["run", name, "--namespace", &scene.namespace], more].concat();
    scene.cluster.ask_kubectl(&arguments)
}

/// The error; the notes of plugins are warnings before it.
fn last_line(said: &Said) -> &str {
    said.error.lines().last().unwrap_or_default()
}

async fn pods(scene: &Scene) -> Vec<String> {
    let pods = scene.pods().list_metadata(&ListParams::default()).await;
    pods.unwrap()
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect()
}

#[test]
fn a_denial_is_the_error_of_kubectl_and_an_event_of_the_replica_set() {
    blackbox_on(Cluster::without_operator, "webhook-denied", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let operator = webhook.operator(&standard(), &[]).await;
        let image = "--image=registry.k8s.io/pause:3.10";
        let said = run(&scene, "bad", &[image, "--privileged"]);
        assert!(!said.is_done);
        assert_eq!(
            last_line(&said),
            format!("Error from server (Forbidden): {DENIED}")
        );

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), DEPLOYMENT).unwrap();
        let path = file.path().to_str().unwrap();
        let namespace = scene.namespace.as_str();
        scene
            .cluster
            .kubectl(&["create", "--namespace", namespace, "--filename", path]);
        let query = "--output=jsonpath={.items[*].metadata.name}";
        let sets = ["get", "replicasets", "--namespace", namespace, query];
        let event = eventually("the ReplicaSet has an Event", async || {
            let set = scene.cluster.kubectl(&sets);
            let events = scene.events(set.trim()).await;
            let found = events
                .iter()
                .find(|event| event.starts_with("Warning FailedCreate: "));
            found.cloned().ok_or_else(|| format!("{set}: {events:#?}"))
        })
        .await;
        assert_eq!(
            event,
            format!("Warning FailedCreate: Error creating: {DENIED}")
        );
        assert_eq!(pods(&scene).await, [""; 0]);
        let logged = operator.logged(&["pod denied", "\"INFO\"", "must not be true: remove it"]);
        assert!(logged.len() >= 2, "{logged:#?}");
    });
}

#[test]
fn notes_are_warnings_of_kubectl() {
    blackbox_on(Cluster::without_operator, "webhook-notes", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let _operator = webhook.operator(&standard(), &[]).await;
        let said = run(&scene, "noted", &["--image=registry.k8s.io/pause:latest"]);
        assert_eq!(said.out, "pod/noted created\n");
        let notes = [
            "sidecar: not injected: injectByDefault is false and the pod does not ask by sidecar.podloom.dev/inject",
            "hardening: /spec/containers/[name=noted]/resources: neither requests nor limits",
            "hardening: /spec/containers/[name=noted]/image: the tag latest, or none, names another image over time",
        ];
        let warnings = notes.map(|note| format!("Warning: {note}\n"));
        assert_eq!(said.error, warnings.concat());
    });
}

#[test]
fn a_dry_run_passes_the_chain_and_stores_nothing() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-dry-run",
        async |scene| {
            let webhook = Webhook::new(&scene, Route::Url);
            let operator = webhook.operator(&standard(), &[]).await;
            let image = "--image=registry.k8s.io/pause:3.10";
            let said = run(&scene, "dry", &[image, "--dry-run=server", "--output=json"]);
            assert!(said.is_done, "{}", said.error);
            let pod: Value = serde_json::from_str(&said.out).unwrap();
            assert!(pod["metadata"]["annotations"][STAMP].is_string(), "{pod}");
            assert_eq!(pod["metadata"]["labels"]["submitted-as"], "Pod");
            assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
            let said = run(&scene, "bad", &[image, "--dry-run=server", "--privileged"]);
            assert_eq!(
                last_line(&said),
                format!("Error from server (Forbidden): {DENIED}")
            );
            assert_eq!(pods(&scene).await, [""; 0]);
            // The operator wrote nothing but its own Secret, Lease and configuration.
            let requests = scene.cluster.requests_of(&webhook.user);
            let written: Vec<_> = requests
                .iter()
                .filter(|request| request.is_write())
                .map(|request| request.resource.as_str())
                .collect();
            let own = [
                "secrets",
                "leases",
                "mutatingwebhookconfigurations",
                "selfsubjectaccessreviews",
            ];
            assert!(
                written.iter().all(|resource| own.contains(resource)),
                "{written:?}"
            );
            assert!(
                operator.metric(
                    "podloom_webhook_requests_total{endpoint=\"mutate/pods\",outcome=\"denied\""
                ) >= 1.0
            );
        },
    );
}

/// The API server sends them: it has no limit to the number of variables, to the depth of managedFields, and it writes `<` as six bytes.
#[test]
fn a_pod_that_is_too_large_to_be_read_is_denied() {
    blackbox_on(Cluster::without_operator, "webhook-large", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let _operator = webhook.operator(&standard(), &[]).await;
        let variable = json!({ "name": "A" });
        let wide = json!({ "env": vec![variable; 50_000] });
        let long = json!({ "args": ["<".repeat(1_450_000)] });
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "f:a": inner }));
        for (container, fields, why) in [
            (wide, json!({}), "make them smaller"),
            (long, json!({}), "the body is longer than 8 MiB"),
            (json!({}), deep, "recursion limit exceeded"),
        ] {
            let mut container = container;
            container["name"] = json!("large");
            container["image"] = json!("registry.k8s.io/pause:3.10");
            let managed = json!({
                "manager": "somebody", "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            });
            let pod = json!({
                "metadata": { "name": "large", "managedFields": [managed] },
                "spec": { "containers": [container] },
            });
            let pod = serde_json::from_value(pod).unwrap();
            let created = scene.pods().create(&PostParams::default(), &pod).await;
            let error = created.expect_err(why).to_string();
            let denied = r#"admission webhook "pods.podloom.dev" denied the request: the pod cannot pass the plugin chain: "#;
            assert!(error.contains(denied) && error.contains(why), "{error}");
        }
    });
}
