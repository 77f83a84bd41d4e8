//! Healing: pods that missed the chain are replaced, owner by owner.

mod faults;
mod many;

use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use podloom_control_plane::BEHAVIOUR_LABEL;
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, address, plain_pod};
use podloom_tests::{
    Cluster, Operator, PATIENCE, Scene, binary, blackbox_on, eventually, eventually_within, rbac,
    standard,
};
use serde_json::{Value, json};

/// Nobody listens here.
const NOBODY: &str = "127.0.0.1:9";
/// A replica that takes over does so soon.
const EVICT: [&str; 3] = ["--webhook-heal=evict", "--lease-duration", "6s"];
/// For tests of what is never ready. It must suffice for pods that are.
const SOON: &str = "--webhook-heal-ready-within=15s";

/// An operator with the standard chain that has pods replaced.
fn spawn(scene: &Scene, webhook: &Webhook, more: &[&str]) -> Operator {
    spawn_with(scene, webhook, &standard(), more)
}

/// An operator that has pods replaced, and the rights for it.
fn spawn_with(scene: &Scene, webhook: &Webhook, plugins: &Path, more: &[&str]) -> Operator {
    let (name, home) = (webhook.name.as_str(), webhook.home.as_str());
    let rights = ["--for", "heal", "--webhook-name", name];
    let rights = [&rights[..], &["--operator-namespace", home]].concat();
    scene.cluster.apply_text(&rbac(&rights));
    webhook.spawn(plugins, more)
}

/// Waits until the first pod was evicted.
async fn began(operator: &Operator) {
    eventually("it began", async || {
        (evicted(operator) >= 1.0)
            .then_some(())
            .ok_or_else(|| operator.tail(""))
    })
    .await;
}

fn passed(pod: &Pod) -> bool {
    pod.annotations().contains_key(STAMP)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The pods of an app that are not being deleted.
async fn pods(scene: &Scene, app: &str) -> Vec<Pod> {
    let selected = ListParams::default().labels(&format!("app={app}"));
    let mut pods = scene.pods().list(&selected).await.unwrap().items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods
}

/// Waits until an app has so many pods, all of them such.
async fn all(scene: &Scene, app: &str, count: usize, are: fn(&Pod) -> bool) {
    let what = format!("all pods of {app} are as they should be");
    eventually_within(&what, 2 * PATIENCE, async || {
        let pods = pods(scene, app).await;
        let is_so = pods.len() == count && pods.iter().all(are);
        is_so.then_some(()).ok_or_else(|| {
            let state = |pod: &Pod| (pod.name_any(), is_ready(pod), passed(pod));
            format!("{:?}", pods.iter().map(state).collect::<Vec<_>>())
        })
    })
    .await;
}

/// A Deployment or StatefulSet with pods of the label `app=NAME`.
fn workload(kind: &str, name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
            },
        },
    })
}

fn create(scene: &Scene, object: &Value) {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(scene.namespace);
    scene.cluster.apply_text(&object.to_string());
}

fn uids(pods: &[Pod]) -> Vec<String> {
    let mut uids: Vec<_> = pods.iter().filter_map(ResourceExt::uid).collect();
    uids.sort();
    uids
}

/// The Warnings that say where it stopped.
async fn stopped(scene: &Scene, operator: &Operator, why: &str) {
    eventually("it stops, and says so", async || {
        let logged = operator.logged(&["healing stopped", &scene.namespace, why]);
        let events = ["get", "events", "-n", &scene.namespace, "-o", "json"];
        let events: Value = serde_json::from_str(&scene.cluster.kubectl(&events)).unwrap();
        let mut events = events["items"].as_array().unwrap().iter();
        let is_told = events.any(|it| it["reason"] == "HealStopped" && it["type"] == "Warning");
        (!logged.is_empty() && is_told)
            .then_some(())
            .ok_or_else(|| operator.tail("heal"))
    })
    .await;
}

fn evicted(operator: &Operator) -> f64 {
    operator.metric("podloom_heal_evictions_total{need=\"missed\"}")
}

/// A Deployment that is to be left alone, and a Job that would count an eviction as a failure.
fn create_others(scene: &Scene) {
    let mut kept = workload("Deployment", "kept", 1);
    kept["metadata"]["annotations"] = json!({ "podloom.dev/heal": "false" });
    create(scene, &kept);
    let mut job = workload("Deployment", "report", 1);
    job["apiVersion"] = json!("batch/v1");
    job["kind"] = json!("Job");
    job["spec"] = json!({ "template": job["spec"]["template"] });
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    // It never ends.
    job["spec"]["template"]["metadata"]["labels"][BEHAVIOUR_LABEL] = json!("busy");
    create(scene, &job);
}

/// What the cluster looks like after a restart in which pods came before the webhook did: open-telemetry/opentelemetry-operator#2901.
#[test]
fn pods_that_missed_the_chain_are_replaced_owner_by_owner() {
    blackbox_on(Cluster::without_operator, "heal", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        let mut web = workload("Deployment", "web", 3);
        web["spec"]["template"]["metadata"]["labels"]["sidecar.podloom.dev/inject"] = json!("true");
        create(&scene, &web);
        create(&scene, &workload("StatefulSet", "db", 2));
        create_others(&scene);
        let params = PostParams::default();
        scene
            .pods()
            .create(&params, &plain_pod("bare"))
            .await
            .unwrap();
        for (app, count) in [("web", 3), ("db", 2), ("kept", 1)] {
            all(&scene, app, count, is_ready).await;
        }
        all(&scene, "report", 1, |_| true).await;
        let before = [pods(&scene, "kept").await, pods(&scene, "report").await];

        // It counts first. Nothing is evicted until somebody says so.
        let counting = spawn(
            &scene,
            &webhook,
            &["--webhook-heal", "--lease-duration", "3s"],
        );
        webhook.configure(address(&counting).await, Policy::Ignore);
        counting.ready().await;
        eventually("they are counted", async || {
            let missed = counting.metric("podloom_heal_pods{need=\"missed\"}");
            let manual = counting.metric("podloom_heal_pods_manual ");
            ((missed, manual) == (8.0, 1.0))
                .then_some(())
                .ok_or_else(|| format!("{missed} {manual} {}", counting.tail("")))
        })
        .await;
        assert_eq!(evicted(&counting), 0.0);
        drop(counting);

        let mut operator = spawn(&scene, &webhook, &EVICT);
        webhook.configure(address(&operator).await, Policy::Ignore);
        operator.ready().await;
        began(&operator).await;
        // A restart in the middle loses nothing.
        operator.kill();
        operator.restart();
        webhook.configure(address(&operator).await, Policy::Ignore);
        operator.ready().await;
        for (app, count) in [("web", 3), ("db", 2)] {
            all(&scene, app, count, |pod| is_ready(pod) && passed(pod)).await;
        }
        for pod in pods(&scene, "web").await {
            let sidecars = pod.spec.as_ref().unwrap().init_containers.as_ref();
            assert_eq!(sidecars.unwrap()[0].name, "companion");
        }
        let after = [pods(&scene, "kept").await, pods(&scene, "report").await];
        assert_eq!(after.map(|it| uids(&it)), before.map(|it| uids(&it)));
        assert!(!passed(&scene.pods().get("bare").await.unwrap()));
        assert!(evicted(&operator) <= 5.0, "each pod once");
    });
}

/// A chain may break what it changes. Then few pods are lost, and somebody is told.
#[test]
fn it_stops_where_a_new_pod_is_not_ready_and_where_it_missed_again() {
    blackbox_on(Cluster::without_operator, "heal-stop", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        for app in ["a", "b"] {
            create(&scene, &workload("Deployment", app, 2));
            all(&scene, app, 2, is_ready).await;
        }
        let mut args = EVICT.to_vec();
        args.extend(["--webhook-heal-owners=1", SOON]);
        let operator = spawn(&scene, &webhook, &args);
        // It leads and has a chain, but the API server asks nobody.
        operator.ready().await;
        stopped(&scene, &operator, "did not pass it either").await;
        assert_eq!(evicted(&operator), 1.0);
        assert_eq!(operator.metric("podloom_heal_owners_stopped "), 1.0);
        assert!(pods(&scene, "b").await.iter().all(is_ready));
        drop(operator);

        // New pods pass the chain, and never become ready.
        let name = &pods(&scene, "a").await[0].owner_references()[0]
            .name
            .clone();
        let never = json!({ "spec": { "template": { "metadata": { "labels": { BEHAVIOUR_LABEL: "pending" } } } } });
        let sets: kube::Api<k8s_openapi::api::apps::v1::ReplicaSet> =
            kube::Api::namespaced(scene.client.clone(), &scene.namespace);
        let pause = json!({ "spec": { "paused": true } });
        let deployments: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
            kube::Api::namespaced(scene.client.clone(), &scene.namespace);
        let params = PatchParams::default();
        deployments
            .patch("a", &params, &Patch::Merge(&pause))
            .await
            .unwrap();
        sets.patch(name, &params, &Patch::Merge(&never))
            .await
            .unwrap();
        let operator = spawn(&scene, &webhook, &args);
        webhook.configure(address(&operator).await, Policy::Ignore);
        operator.ready().await;
        stopped(&scene, &operator, "is not ready").await;
        assert_eq!(evicted(&operator), 1.0);
        let ready = pods(&scene, "a")
            .await
            .iter()
            .filter(|it| is_ready(it))
            .count();
        assert_eq!(ready, 1);
        assert!(
            pods(&scene, "b")
                .await
                .iter()
                .all(|it| is_ready(it) && !passed(it))
        );
    });
}

/// `podloom drift --repair`, as an administrator.
fn repair(scene: &Scene, webhook: &Webhook, more: &[&str]) -> Output {
    let mut command = Command::new(binary().unwrap());
    command.args(["drift", "-n", &scene.namespace, "--repair"]);
    command.args(["--webhook-configuration", &webhook.name]);
    let kubeconfig = scene.cluster.plane.kubeconfig();
    command.args(more).env("KUBECONFIG", kubeconfig);
    command.output().unwrap()
}

#[test]
fn a_person_repairs_and_a_budget_holds() {
    blackbox_on(Cluster::without_operator, "heal-person", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        for app in ["free", "held"] {
            create(&scene, &workload("Deployment", app, 2));
            all(&scene, app, 2, is_ready).await;
        }
        create(
            &scene,
            &json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "held" },
                "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "held" } } },
            }),
        );
        let operator = webhook.spawn(&standard(), &[]);
        webhook.configure(address(&operator).await, Policy::Fail);
        operator.ready().await;
        webhook.serves().await;

        let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let planned = repair(&scene, &webhook, &["--dry-run"]);
        assert!(planned.status.success(), "{planned:?}");
        assert!(
            text(&planned).contains("4 pods of 2 owners should be replaced"),
            "{planned:?}"
        );
        let unasked = repair(&scene, &webhook, &[]);
        let error = String::from_utf8_lossy(&unasked.stderr);
        assert!(error.contains("add --yes"), "{unasked:?}");
        let held = uids(&pods(&scene, "held").await);
        let done = repair(&scene, &webhook, &["--yes", "--ready-within", "8s"]);
        assert!(!done.status.success(), "{done:?}");
        all(&scene, "free", 2, |pod| is_ready(pod) && passed(pod)).await;
        assert_eq!(uids(&pods(&scene, "held").await), held);
        assert!(text(&done).contains("disruption budget"), "{done:?}");

        let budget = [
            "delete",
            "poddisruptionbudget",
            "held",
            "-n",
            &scene.namespace,
        ];
        scene.cluster.kubectl(&budget);
        let done = repair(&scene, &webhook, &["--yes"]);
        assert!(done.status.success(), "{done:?}");
        all(&scene, "held", 2, |pod| is_ready(pod) && passed(pod)).await;
        let rest = repair(&scene, &webhook, &["--yes"]);
        assert!(text(&rest).contains("no pod is to be evicted"), "{rest:?}");
    });
}
