//! What judging a rollout costs: pods are created, become Ready and are deleted, while a judge follows them by their stamps.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use podloom_control_plane::BEHAVIOUR_LABEL;
use podloom_tests::usage::usage;
use podloom_tests::webhook::{Route, Webhook};
use podloom_tests::{Cluster, MountedBundle, Operator, Scene, rbac};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::{SETTLE, cpu, one, pod, resident};

/// How long the pods may take until they are Ready, or gone.
const PATIENCE: Duration = Duration::from_mins(2);
/// How many pods a second the goal is about, and how many percent of a core they may cost.
const GOAL: (f64, f64) = (100.0, 0.5);

/// A chain that sets one label.
const CANDIDATE: &str = "\n- { name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [{ key: team, value: new }] } }";

/// Returns what is to be written as JSON.
pub(crate) async fn measure(plugins: &Path, pods: u32, concurrency: usize) -> Value {
    let cluster = Arc::new(Cluster::without_operator());
    let scene = Scene::new(Arc::clone(&cluster), "rollout").await;
    let webhook = Webhook::new(&scene, Route::Url);
    let candidate = MountedBundle::of(CANDIDATE);
    let (_replica, judge) = both(&scene, &webhook, plugins, &candidate).await;
    // What the judge costs at rest, with the ChainRollout.
    let (before, begun) = (usage(judge.id()).unwrap(), Instant::now());
    sleep(Duration::from_secs(20)).await;
    let rest = (cpu(judge.id()) - before.cpu).as_secs_f64() / begun.elapsed().as_secs_f64();

    let (before, begun) = (cpu(judge.id()), Instant::now());
    live(&scene, pods, concurrency).await;
    let took = begun.elapsed().as_secs_f64();
    let each = ((cpu(judge.id()) - before).as_secs_f64() - rest * took) * 1000.0 / f64::from(pods);
    let (rate, most) = GOAL;
    let share = rest * 100.0 + each * rate / 10.0;
    let rows = [
        ("lives_per_second", f64::from(pods) / took),
        ("judge_percent_of_a_core_at_rest", rest * 100.0),
        ("judge_cpu_ms_per_pod", each),
        ("judge_percent_of_a_core_at_100_pods_a_second", share),
        ("judge_mib", resident(judge.id())),
    ];
    for (key, value) in rows {
        eprintln!("{key:<46} {value:>8.3}");
    }
    let verdict = if share > most { "MISSED" } else { "reached" };
    eprintln!("goal: at most {most} percent of a core at {rate} pods a second: {verdict}");
    rows.into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<Map<_, _>>()
        .into()
}

/// A replica whose pods all pass the candidate, and the judge of that.
async fn both(
    scene: &Scene,
    webhook: &Webhook,
    plugins: &Path,
    candidate: &MountedBundle,
) -> (Operator, Operator) {
    let home = webhook.home.as_str();
    let (own, namespace) = (["--operator-namespace", home], scene.namespace.as_str());
    let follow = ["--for", "rollout", "--webhook-name", &webhook.name];
    let judges = ["--controllers", "rollout", "--namespace", namespace];
    for rights in [&follow[..], &judges[..]] {
        scene.cluster.apply_text(&rbac(&[rights, &own].concat()));
    }
    let candidate = candidate.path().to_str().unwrap();
    let more = ["--candidate", candidate, "--rollout", "--pod-name", "one"];
    let replica = webhook.operator(plugins, &more).await;
    let rollout = json!({
        "apiVersion": "chain.podloom.dev/v1alpha1", "kind": "ChainRollout",
        "metadata": { "name": "main", "namespace": home },
        "spec": { "steps": [{ "percent": 100, "duration": "2h" }] },
    });
    scene.cluster.apply_text(&rollout.to_string());
    let plane = &scene.cluster.plane;
    let kubeconfig = plane.kubeconfig_for_service_account(home, "podloom-rollout");
    let arguments = [&judges[..], &["--pod-namespace", home]].concat();
    let judge = Operator::spawn(&scene.cluster, &kubeconfig.unwrap(), &arguments);
    judge.ready().await;
    let begun = Instant::now();
    let get = [
        "get",
        "chainrollout",
        "main",
        "-n",
        home,
        "-o",
        "jsonpath={.status.percent}",
    ];
    while scene.cluster.kubectl(&get) != "100" {
        assert!(begun.elapsed() < PATIENCE, "{}", judge.tail(""));
        sleep(Duration::from_secs(1)).await;
    }
    (replica, judge)
}

/// Creates so many pods, so many at once, waits until all are Ready, and deletes them.
async fn live(scene: &Scene, pods: u32, concurrency: usize) {
    let api = scene.pods();
    let made = stream::iter(0..pods).map(|number| {
        let mut pod = pod(number);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(BEHAVIOUR_LABEL.to_owned(), "running".to_owned());
        let spec = pod.spec.as_mut().unwrap();
        (spec.scheduling_gates, spec.node_selector) = (None, None);
        for container in &mut spec.containers {
            // The node has room for all of them.
            container.resources = None;
        }
        one(&api, pod)
    });
    let made: Vec<_> = made
        .buffer_unordered(concurrency)
        .try_collect()
        .await
        .unwrap();
    eprintln!("{} pods are created", made.len());
    until(scene, |all| {
        all.len() == made.len() && all.iter().all(is_ready)
    })
    .await;
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    until(scene, |all| all.is_empty()).await;
    sleep(SETTLE).await;
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    ready.any(|it| it.status == "True")
}

async fn until(scene: &Scene, is_so: impl Fn(&[Pod]) -> bool) {
    let begun = Instant::now();
    loop {
        let all = scene.pods().list(&ListParams::default()).await.unwrap();
        if is_so(&all.items) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{} pods", all.items.len());
        sleep(Duration::from_secs(1)).await;
    }
}
