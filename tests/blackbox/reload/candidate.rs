//! A candidate: a second chain that gets the same pods as the serving one, and is only compared with it.

mod hostile;

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use podloom_tests::webhook::{Route, Webhook, dry_run};
use podloom_tests::{
    Bundle, Cluster, MountedBundle, Operator, Scene, binary, blackbox_on, eventually,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A chain that writes this team into a label.
fn team(name: &str) -> String {
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: {{ labels: [{{ key: team, value: {name} }}] }} }}"
    )
}

/// A chain that differs from `team("one")` for many pods: it writes another label, one plugin denies some pods, and others fail.
fn other() -> String {
    let denies = "{ name: denies, file: denies.wasm, match: { selector: { matchLabels: { app: secret } } } }";
    let breaks = "{ name: breaks, file: breaks.wasm, allow: [/metadata/labels] }";
    let eats = "{ name: eats, file: eats.wasm, allow: [/metadata/labels], failurePolicy: Ignore }";
    let tier = "{ name: tier, file: labels.wasm.gz, allow: [/metadata/labels], match: { selector: { matchLabels: { app: web } } }, \
        config: { labels: [{ key: tier, value: front }] } }";
    format!(
        "{}\n- {denies}\n- {breaks}\n- {eats}\n- {tier}",
        team("one")
    )
}

/// Labels of pods for which the two chains differ in all ways, and do not.
const LABELS: [(&str, &str); 6] = [
    ("app", "web"),
    ("app", "secret"),
    ("app", "db"),
    ("break", "please"),
    ("eat", "please"),
    ("app", "web"),
];

fn pod(name: &str, (key, value): (&str, &str)) -> Pod {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { key: value } },
        "spec": { "containers": [{ "name": "a", "image": "registry.k8s.io/pause:3.10" }] },
    });
    serde_json::from_value(pod).unwrap()
}

fn pods() -> Vec<Pod> {
    let pods = (0..24).map(|number| pod(&format!("p-{number}"), LABELS[number % LABELS.len()]));
    pods.collect()
}

/// Creates the pods as dry runs, and returns what would have been stored, without what is different each time.
async fn created(scene: &Scene) -> Vec<String> {
    let mut created = Vec::new();
    for pod in pods() {
        let mut pod = scene.pods().create(&dry_run(), &pod).await.unwrap();
        let metadata = &mut pod.metadata;
        metadata.uid = None;
        metadata.creation_timestamp = None;
        metadata.managed_fields = None;
        let spec = pod.spec.as_mut().unwrap();
        // The name of the volume with the token of the account is random.
        spec.volumes = None;
        spec.containers[0].volume_mounts = None;
        created.push(serde_json::to_string(&pod).unwrap());
    }
    created
}

fn answer(operator: &Operator) -> Value {
    let (status, body) = operator.get("/plugins/candidate").unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn count(answer: &Value, result: &str) -> u64 {
    answer["pods"][result].as_u64().unwrap()
}

/// How many pods the candidate got, those that were dropped too.
fn all(answer: &Value) -> u64 {
    let pods = answer["pods"].as_object().unwrap();
    pods.values().map(|count| count.as_u64().unwrap()).sum()
}

/// Waits until the answer is so.
async fn until(operator: &Operator, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || {
        let answer = answer(operator);
        let is_so = is_so(&answer);
        is_so.then_some(answer.clone()).ok_or(format!("{answer:#}"))
    })
    .await
}

/// Waits until another candidate is loaded than before.
async fn reloads(operator: &Operator, change: impl FnOnce()) -> Value {
    let before = answer(operator)["candidate"]["chain"].clone();
    change();
    until(operator, "another candidate is loaded", |answer| {
        answer["candidate"]["chain"] != before && answer["candidate"]["lastError"].is_null()
    })
    .await
}

fn path(bundle: &MountedBundle) -> &str {
    bundle.path().to_str().unwrap()
}

/// What `podloom chain diff` says of pods.
fn diff(old: &Path, new: &Path, namespace: &str, pods: &[Pod]) -> Value {
    let mut items: Vec<Value> = pods.iter().map(|pod| json!(pod)).collect();
    for item in &mut items {
        item["metadata"]["namespace"] = namespace.into();
        item["apiVersion"] = "v1".into();
        item["kind"] = "Pod".into();
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    serde_json::to_writer(&file, &list).unwrap();
    let output = Command::new(binary().unwrap())
        .args(["chain", "diff"])
        .args([old, new])
        .args(["-o", "json", "-f"])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The niceness of a thread, by the first fifteen bytes of its name.
fn niceness(operator: &Operator, thread: &str) -> Option<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", operator.id())).unwrap();
    let mut stats = tasks.filter_map(|task| {
        let task = task.unwrap().path();
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.join("stat")).ok()?;
        (name.trim() == thread).then_some(stat)
    });
    // Fields are counted from behind the name, where field 3 starts.
    let stat = stats.next()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.nth(19 - 3)?.parse().ok()
}

#[test]
fn a_candidate_shows_what_chain_diff_says_and_changes_no_pod() {
    blackbox_on(Cluster::without_operator, "candidate-diff", async |scene| {
        let (serving, candidate) = (MountedBundle::of(&team("one")), MountedBundle::of("[]"));
        let webhook = Webhook::new(&scene, Route::Url);
        let alone = webhook.operator(serving.path(), &[]).await;
        assert_eq!(alone.get("/plugins/candidate").unwrap().0, 404);
        let expected = created(&scene).await;
        drop(alone);
        let operator = webhook
            .operator(serving.path(), &["--candidate", path(&candidate)])
            .await;
        // The counts start again, without the pods that have shown that the webhook serves.
        let loaded = reloads(&operator, || candidate.update(&other())).await;
        assert_eq!(all(&loaded), 0, "{loaded:#}");
        assert_eq!(created(&scene).await, expected);
        let pods = pods();
        let wanted = pods.len() as u64;
        let answer = until(&operator, "all pods are compared", |it| all(it) == wanted).await;
        assert_eq!(count(&answer, "dropped"), 0, "{answer:#}");
        let mut said = diff(serving.path(), candidate.path(), &scene.namespace, &pods);
        for group in said["groups"].as_array_mut().unwrap() {
            let group = group.as_object_mut().unwrap();
            group.remove("reasons");
            group.remove("hasMoreReasons");
        }
        assert_eq!(answer["groups"], said["groups"], "{answer:#}");
        assert_eq!(count(&answer, "same"), said["same"]["pods"]);
        let verdicts = answer["groups"].as_array().unwrap().iter();
        let verdicts: Vec<&str> = verdicts.map(|it| it["verdict"].as_str().unwrap()).collect();
        assert_eq!(verdicts, ["DeniedNow", "FailsNow", "IgnoredNow", "Changed"]);
        let counts = ["same", "different", "denied", "failed"].map(|it| count(&answer, it));
        assert_eq!(counts, [4, 8, 4, 8]);
        for (result, pods) in ["same", "different", "denied", "failed"].iter().zip(counts) {
            // The metric counts since the start.
            let metric = format!("podloom_candidate_pods_total{{result=\"{result}\"}}");
            assert!(operator.metric(&metric) >= pods as f64, "{metric}");
        }
        assert!(answer["meanMilliseconds"].as_f64().unwrap() > 0.0);
        assert!(operator.metric("podloom_candidate_duration_seconds_sum") > 0.0);
        assert!(operator.metric("podloom_candidate_cpu_seconds_total") > 0.0);
        // The plugins that serve are counted, and those of the candidate are not.
        assert!(operator.metric("podloom_plugin_calls_total{plugin=\"labels\"") > 0.0);
        assert_eq!(
            operator.metric("podloom_plugin_calls_total{plugin=\"denies\""),
            0.0
        );
        assert!(operator.logged(&["memory than its limit"]).is_empty());
        assert_eq!(niceness(&operator, "podloom-candida"), Some(19));
        // The others have that of their process, which depends on how the tests were started.
        let others = niceness(&operator, "podloom");
        assert!(others.is_some_and(|others| others < 19), "{others:?}");
        assert_eq!(niceness(&operator, "podloom-epoch"), others);
    });
}

#[test]
fn pods_of_browsers_are_compared_too_and_a_promoted_candidate_is_the_same() {
    blackbox_on(
        Cluster::without_operator,
        "candidate-browsers",
        async |scene| {
            let (serving, candidate) = (
                MountedBundle::of(&team("one")),
                MountedBundle::of(&team("two")),
            );
            let operator = scene
                .operator(&["--plugins", path(&serving), "--candidate", path(&candidate)])
                .await;
            until(&operator, "the candidate is loaded", |it| {
                it["candidate"]["chain"].is_string()
            })
            .await;
            scene.behaviours().await;
            let pods = scene.watch_pods().await;
            for name in ["a", "b"] {
                scene.browser(name, "running").await;
                let pod = pods.until_is(name, "exists", |_| true).await;
                assert_eq!(pod.labels().get("team").map(String::as_str), Some("one"));
            }
            let seen = until(&operator, "both are compared", |it| all(it) >= 2).await;
            let group = &seen["groups"][0];
            assert_eq!(group["verdict"], "Changed", "{seen:#}");
            let names = ["a", "b"].map(|name| format!("Browser {}/{name}", scene.namespace));
            assert_eq!(group["names"], json!(names), "{seen:#}");
            assert_eq!(group["changes"][0]["path"], "/metadata/labels/team");
            // Promoted: it is copied over the directory of the serving chain.
            serving.update(&team("two"));
            let promoted = until(&operator, "the counts start again", |it| {
                it["serving"] == it["candidate"]["chain"]
            })
            .await;
            assert_eq!((all(&promoted), &promoted["groups"]), (0, &json!([])));
            scene.browser("c", "running").await;
            let pod = pods.until_is("c", "exists", |_| true).await;
            assert_eq!(pod.labels().get("team").map(String::as_str), Some("two"));
            until(&operator, "nothing is different", |it| {
                count(it, "same") >= 1 && all(it) == count(it, "same")
            })
            .await;
        },
    );
}

#[test]
fn a_candidate_that_is_missing_or_broken_is_reported_and_nothing_else() {
    blackbox_on(
        Cluster::without_operator,
        "candidate-broken",
        async |scene| {
            let serving = Bundle::of(&team("one"));
            let place = TempDir::new().unwrap();
            let missing = place.path().join("candidate");
            let namespace = scene.namespace.as_str();
            let arguments = [
                ["--plugins", serving.path().to_str().unwrap()],
                ["--candidate", missing.to_str().unwrap()],
                ["--pod-name", "the-operator"],
                ["--pod-namespace", namespace],
                ["--pod-uid", "f3b0a1de-0c1c-4c87-8f0c-94c5c8c2a3d7"],
            ];
            let operator = scene.operator(arguments.as_flattened()).await;
            let error = |it: &Value| it["candidate"]["lastError"]["message"].to_string();
            let seen = until(&operator, "it is reported", |it| error(it) != "null").await;
            assert!(error(&seen).contains("candidate"), "{seen:#}");
            assert_eq!((&seen["candidate"]["chain"], all(&seen)), (&Value::Null, 0));
            let loaded = || operator.metric("podloom_candidate_loaded");
            assert_eq!(loaded(), 0.0);
            let candidate = MountedBundle::of(&team("two"));
            reloads(&operator, || {
                std::os::unix::fs::symlink(candidate.path(), &missing).unwrap()
            })
            .await;
            assert_eq!(loaded(), 1.0);
            let good = answer(&operator)["candidate"]["chain"].clone();
            candidate.update("\n- { name: labels, file: missing.wasm }");
            let seen = until(&operator, "it is reported", |it| {
                error(it).contains("missing.wasm")
            })
            .await;
            assert_eq!(seen["candidate"]["chain"], good, "the last good one stays");
            eventually("the metric says so", async || {
                (loaded() == 0.0).then_some(()).ok_or_else(String::new)
            })
            .await;
            let (status, ready) = operator.get("/readyz").unwrap();
            assert!(status == 200 && !ready.contains("missing.wasm"), "{ready}");
            let lines = operator.logged(&["rejected the candidate", "missing.wasm"]);
            assert_eq!(lines.len(), 1, "{lines:#?}");
            candidate.update(&team("three"));
            until(&operator, "it is repaired", |it| {
                it["candidate"]["lastError"].is_null() && it["candidate"]["chain"] != good
            })
            .await;
            assert_eq!(loaded(), 1.0);
            let events = scene.events_about_pod("the-operator").await;
            let about_it = events
                .iter()
                .filter(|it| !it.starts_with("Normal ChainReloaded: "));
            assert_eq!((about_it.count(), events.len()), (0, 1), "{events:#?}");
            let reloads = "podloom_chain_reloads_total{outcome=\"success\"}";
            assert_eq!(operator.metric(reloads), 1.0);
        },
    );
}
