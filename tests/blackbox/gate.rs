//! The gate: pods that are created while no webhook answers wait, and are replaced once one does.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use podloom_control_plane::Release;
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, address, dry_run, plain_pod};
use podloom_tests::{
    Cluster, Operator, PATIENCE, Scene, blackbox_on, eventually, eventually_within, rbac, standard,
};
use serde_json::{Value, json};

const GATE: &str = "podloom.dev/chain";
/// Nobody listens here.
const NOBODY: &str = "127.0.0.1:9";

pub(super) fn is_possible() -> bool {
    Release::chosen().unwrap().is_at_least(36)
}

/// Runs a test where the API server has the policies: they are stable since Kubernetes 1.36.
fn on_new_enough(name: &str, test: impl AsyncFnOnce(Scene)) {
    if is_possible() {
        blackbox_on(Cluster::without_operator, name, test);
    }
}

/// Applies a policy of `deploy/options`, for the namespace of the scene alone. It is deleted with this.
pub(super) struct Policies<'s> {
    scene: &'s Scene,
    text: String,
}

impl<'s> Policies<'s> {
    pub(super) fn apply(scene: &'s Scene, files: &[&str]) -> Self {
        let options = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/options");
        let read = |file: &&str| fs::read_to_string(options.join(file)).unwrap();
        let namespace = &scene.namespace;
        let text = files
            .iter()
            .map(read)
            .collect::<Vec<_>>()
            .join("---\n")
            .replace("podloom-webhook-gate", &format!("{namespace}-gate"))
            .replace(
                "podloom.dev/mutate: enabled",
                &format!("kubernetes.io/metadata.name: {namespace}"),
            );
        scene.cluster.apply_text(&text);
        Self { scene, text }
    }
}

impl Drop for Policies<'_> {
    fn drop(&mut self) {
        for document in self.text.split("---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let [kind, name] =
                [&object["kind"], &object["metadata"]["name"]].map(|it| it.as_str().unwrap());
            let delete = ["delete", kind, name, "--ignore-not-found"];
            // If it cannot be deleted, it still selects only this namespace.
            let _ = self.scene.cluster.plane.kubectl().args(delete).output();
        }
    }
}

/// An operator that has pods replaced, and the rights for it.
fn spawn(scene: &Scene, webhook: &Webhook) -> Operator {
    let (name, home) = (webhook.name.as_str(), webhook.home.as_str());
    let rights = ["--for", "gate", "--webhook-name", name];
    let rights = [&rights[..], &["--operator-namespace", home]].concat();
    scene.cluster.apply_text(&rbac(&rights));
    webhook.spawn(&standard(), &["--webhook-gate", "--lease-duration", "3s"])
}

pub(super) fn is_gated(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref().unwrap();
    let mut gates = spec.scheduling_gates.iter().flatten();
    gates.any(|gate| gate.name == GATE)
}

fn passed(pod: &Pod) -> bool {
    pod.annotations().contains_key(STAMP)
}

/// The pods that are not being deleted.
async fn pods(scene: &Scene, selector: &str) -> Vec<Pod> {
    let selected = ListParams::default().labels(selector);
    let mut pods = scene.pods().list(&selected).await.unwrap().items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods
}

/// Waits until there are so many pods, all of them such.
async fn all(scene: &Scene, what: &str, selector: &str, count: usize, are: fn(&Pod) -> bool) {
    // Kubernetes collects an evicted pod of a Job only every 20 seconds.
    eventually_within(what, 2 * PATIENCE, async || {
        let pods = pods(scene, selector).await;
        let is_so = pods.len() == count && pods.iter().all(are);
        is_so.then_some(()).ok_or_else(|| {
            let state = |pod: &Pod| (pod.name_any(), is_gated(pod), passed(pod));
            format!("{:?}", pods.iter().map(state).collect::<Vec<_>>())
        })
    })
    .await;
}

/// Waits until the API server knows the policy: a pod that nobody passes through the chain gets a gate.
pub(super) async fn gated(scene: &Scene) {
    eventually("new pods get a gate", async || {
        let created = scene.pods().create(&dry_run(), &plain_pod("probe")).await;
        let created = created.map_err(|error| error.to_string())?;
        is_gated(&created)
            .then_some(())
            .ok_or_else(|| "it has no gate".to_owned())
    })
    .await;
}

/// An object that makes pods with the label `app=NAME`.
fn maker(api: &str, kind: &str, name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api, "kind": kind, "metadata": { "name": name },
        "spec": { "template": {
            "metadata": { "labels": { "app": name } },
            "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
        } },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    if kind == "Job" {
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    } else {
        object["spec"]["selector"] = json!({ "matchLabels": { "app": name } });
    }
    object
}

/// Nothing of this may fail.
fn create(scene: &Scene, objects: &[Value]) {
    for object in objects {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(scene.namespace);
        scene.cluster.apply_text(&object.to_string());
    }
}

/// Waits for the Event at a pod that a person has to delete.
async fn told(scene: &Scene, name: &str, why: &str) {
    eventually("a person is told", async || {
        let events = scene.events_about_pod(name).await;
        let mut all = events.iter();
        let is_told = all.any(|it| it.contains("WaitsAtGate") && it.contains(why));
        is_told
            .then_some(())
            .ok_or_else(|| format!("{name}: {events:?}"))
    })
    .await;
}

#[test]
fn while_no_webhook_answers_pods_wait_and_nothing_fails() {
    on_new_enough("gate", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let policies = Policies::apply(&scene, &["gate/gate.yaml"]);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        gated(&scene).await;
        let ignoring = json!({ "podFailurePolicy": { "rules": [
            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
        ] } });
        create(
            &scene,
            &[
                maker("apps/v1", "Deployment", "web", &json!({ "replicas": 3 })),
                maker(
                    "apps/v1",
                    "StatefulSet",
                    "db",
                    &json!({ "replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel" }),
                ),
                maker("batch/v1", "Job", "patient", &ignoring),
                maker("batch/v1", "Job", "strict", &json!({ "backoffLimit": 0 })),
            ],
        );
        let params = PostParams::default();
        scene
            .pods()
            .create(&params, &plain_pod("bare"))
            .await
            .unwrap();
        all(&scene, "all pods wait", "", 8, is_gated).await;

        let operator = spawn(&scene, &webhook);
        webhook.configure(address(&operator).await, Policy::Ignore);
        operator.ready().await;
        for (app, count) in [("web", 3), ("db", 2), ("patient", 1)] {
            let what = format!("the pods of {app} passed the chain");
            let is_done = |pod: &Pod| passed(pod) && !is_gated(pod);
            all(&scene, &what, &format!("app={app}"), count, is_done).await;
        }
        // A person decides about these, and knows it.
        let strict = pods(&scene, "app=strict").await[0].name_any();
        told(&scene, "bare", "nothing controls it").await;
        told(&scene, &strict, "counts an evicted pod as failed").await;
        eventually("only they wait", async || {
            let shown = ["podloom_gated_pods ", "podloom_gated_pods_manual "];
            let shown = shown.map(|name| operator.metric(name));
            (shown == [2.0, 2.0])
                .then_some(())
                .ok_or_else(|| format!("{shown:?}"))
        })
        .await;
        assert!(pods(&scene, "app=strict").await.iter().all(is_gated));
        drop(policies);
    });
}

#[test]
fn a_webhook_that_still_does_not_answer_is_only_tried() {
    on_new_enough("gate-trial", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let _policies = Policies::apply(&scene, &["gate/gate.yaml"]);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        gated(&scene).await;
        let web = maker("apps/v1", "Deployment", "web", &json!({ "replicas": 6 }));
        create(&scene, &[web]);
        all(&scene, "all pods wait", "app=web", 6, is_gated).await;
        // It has a chain and leads, but the API server asks nobody.
        let operator = spawn(&scene, &webhook);
        operator.ready().await;
        let evicted = || operator.metric("podloom_gated_pod_evictions_total{outcome=\"evicted\"}");
        eventually("it was tried twice", async || {
            (evicted() >= 2.0)
                .then_some(())
                .ok_or_else(|| operator.tail(""))
        })
        .await;
        all(&scene, "all pods wait again", "app=web", 6, is_gated).await;
        // Each try is of one pod, or of a few if the controller is slow. Without the pauses, they would be hundreds.
        assert!(evicted() <= 18.0, "{}", evicted());

        webhook.configure(address(&operator).await, Policy::Ignore);
        let is_done = |pod: &Pod| passed(pod) && !is_gated(pod);
        all(&scene, "all passed the chain", "app=web", 6, is_done).await;
    });
}

/// Creates a pod as this user, without storing it, and says whether it got a gate.
fn gets_gate(scene: &Scene, user: &str, metadata: &Value) -> bool {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
    });
    pod["metadata"]["name"] = json!("probe");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), pod.to_string()).unwrap();
    let (file, user) = (file.path().to_str().unwrap(), format!("--as={user}"));
    let create = ["create", "-f", file, "--dry-run=server", "-o", "json"];
    let who = [&user, "--as-group=system:masters", "-n", &scene.namespace];
    let created = scene.cluster.kubectl(&[&create[..], &who].concat());
    is_gated(&serde_json::from_str(&created).unwrap())
}

/// Only pods that the operator has passed through the chain itself get no gate; nobody else can say so.
#[test]
fn a_pod_of_a_browser_gets_no_gate() {
    on_new_enough("gate-browser", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let _policies = Policies::apply(&scene, &["gate/gate.yaml"]);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        gated(&scene).await;
        let operator = "system:serviceaccount:podloom-system:podloom";
        let stamped = json!({ "annotations": { STAMP: "sha256:0" } });
        assert!(!gets_gate(&scene, operator, &stamped));
        assert!(gets_gate(&scene, operator, &json!({})));
        assert!(gets_gate(&scene, "admin", &stamped));
    });
}

/// What `options/gate-strict` refuses, with its message.
async fn refused(scene: &Scene, pod: &Pod) -> String {
    let created = scene.pods().create(&dry_run(), pod).await;
    created.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn nobody_goes_around_the_gate() {
    on_new_enough("gate-strict", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let files = ["gate/gate.yaml", "gate-strict/policy.yaml"];
        let _policies = Policies::apply(&scene, &files);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        gated(&scene).await;
        // Whatever its author writes into it.
        let mut forged = plain_pod("forged");
        forged
            .annotations_mut()
            .insert(STAMP.to_owned(), "sha256:0".to_owned());
        let params = PostParams::default();
        let created = scene.pods().create(&params, &forged).await.unwrap();
        assert!(is_gated(&created));
        forged.spec.as_mut().unwrap().node_name = Some("somewhere".to_owned());
        eventually("a pod that names its node is refused", async || {
            let refused = refused(&scene, &forged).await;
            let is_so = refused.contains("a pod of this namespace may not name its node");
            is_so.then_some(()).ok_or(refused)
        })
        .await;
        let params = PatchParams::default();
        let open = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": GATE }] } });
        let opened = scene
            .pods()
            .patch("forged", &params, &Patch::Strategic(&open))
            .await;
        let opened = opened.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(
            opened.contains("nobody but Podloom's webhook opens its gate"),
            "{opened}"
        );
        let bound = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "forged" },
            "target": { "apiVersion": "v1", "kind": "Node", "name": "somewhere" },
        });
        let (pods, options) = (scene.pods(), PostParams::default());
        let binding = pods.create_subresource::<_, Value>("binding", "forged", &options, &bound);
        let bound = binding.await.unwrap_err().to_string();
        assert!(bound.contains("schedulingGates"), "{bound}");
        // What else may change, may change.
        let annotated = json!({ "metadata": { "annotations": { "a": "b" } } });
        let annotated = Patch::Merge(&annotated);
        scene
            .pods()
            .patch("forged", &params, &annotated)
            .await
            .unwrap();

        let operator = webhook.operator(&standard(), &[]).await;
        // The policy comes before the webhook, which opens the gate at once.
        let created = scene
            .pods()
            .create(&dry_run(), &plain_pod("new"))
            .await
            .unwrap();
        assert!(passed(&created) && !is_gated(&created), "{created:?}");
        drop(operator);
    });
}
