//! `podloom chain diff`: what it reads of a cluster, and that the webhook answers as it says.

mod answers;
mod changes;
mod corpus;
mod pods;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use podloom_tests::doubles::{Double, Sink};
use podloom_tests::webhook::{Route, Webhook, dry_run};
use podloom_tests::{
    Bundle, Cluster, Operator, Scene, Seed, binary, blackbox_on, blackbox_within, eventually,
    standard,
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use self::answers::{Answer, ask};

/// How many pods are compared; `cargo xtask soak --only diff` asks for more.
const PODS: usize = 50;
/// How many pods are compared in one run. There are not more groups than are listed.
const AT_ONCE: usize = 100;
/// How many changes of the chain a test run tries; a soak tries all.
const CHANGES: usize = 6;

/// Chains to change to and from: each changes other pods, and some reject pods.
const CHAINS: [&str; 5] = [
    "[]",
    "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], match: { selector: { matchLabels: { app: web } } }, \
     config: { labels: [{ key: team, value: core, mode: overwrite }, \
     { key: tier, value: $(pod/metadata/labels/app), default: none }] } }, \
     { name: copies, file: copies.wasm, allow: [/spec/copied], read: [/spec/containers], match: { selector: { matchLabels: { app: web } } } }]",
    "[{ name: hardening, file: hardening.wasm.gz, allow: [/spec/securityContext, /spec/containers/*/securityContext, \
     /spec/initContainers/*/securityContext], config: { mode: mutate, profile: restricted } }, \
     { name: breaks, file: breaks.wasm, allow: [/metadata/labels], failurePolicy: Ignore }, \
     { name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [{ key: team, value: shop }] } }]",
    "[{ name: denies, file: denies.wasm, match: { selector: { matchLabels: { team: core } } } }, \
     { name: breaks, file: breaks.wasm, allow: [/metadata/labels] }, \
     { name: relabels, file: relabels.wasm, allow: [/metadata/labels], failurePolicy: Ignore, match: { selector: { matchLabels: { app: web } } } }]",
    "standard",
];

fn bundle(chain: &str) -> Bundle {
    if chain != "standard" {
        return Bundle::of(chain);
    }
    let text = std::fs::read_to_string(standard().join("chain.yaml")).unwrap();
    let (_, entries) = text.split_once("plugins:").unwrap();
    Bundle::of(entries)
}

fn file(content: &Value) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    serde_json::to_writer(&file, content).unwrap();
    file
}

fn diff(old: &Path, new: &Path, arguments: &[&str], kubeconfig: Option<&Path>) -> (Output, Value) {
    let mut command = Command::new(binary().unwrap());
    command.args(["chain", "diff"]).args([old, new]);
    command.args(arguments).args(["-o", "json"]);
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output = command.output().unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    assert!(printed.is_ok(), "{output:?}");
    (output, printed.unwrap())
}

/// What the API server sends a webhook for these pods.
async fn recorded(scene: &Scene, webhook: &Webhook, pods: &[Value]) -> Vec<Value> {
    let authority = NamedTempFile::new().unwrap();
    let sink = Double::tls(authority.path(), &[]);
    webhook.listen_in(sink.address(), authority.path());
    let mut objects = Vec::new();
    for pod in pods {
        let object = eventually("the review of a pod was recorded", async || {
            let parsed = serde_json::from_value(pod.clone()).unwrap();
            // Whether it is admitted in the end does not matter.
            let created = scene.pods().create(&dry_run(), &parsed).await;
            let name = pod["metadata"]["name"].as_str().unwrap();
            last_review(&sink, name).ok_or_else(|| format!("{created:?}"))
        });
        objects.push(object.await);
    }
    objects
}

fn last_review(sink: &Sink, name: &str) -> Option<Value> {
    let received = sink.received();
    let mut reviews = received.requests.iter().rev().filter_map(|request| {
        let review: Value = serde_json::from_str(&request.body).ok()?;
        Some(review["request"]["object"].clone())
    });
    reviews.find(|object| object["metadata"]["name"] == name)
}

#[test]
fn the_webhook_answers_differently_exactly_where_the_diff_says_so() {
    let more = std::env::var("PODLOOM_DIFF_PODS").ok();
    let mut seed = match more {
        // The same in each test run, so that what fails is what was changed.
        None => Seed::or("chain-diff", 2),
        Some(_) => Seed::new("chain-diff"),
    };
    let changes = if more.is_some() { usize::MAX } else { CHANGES };
    let deadline = Duration::from_secs(if more.is_some() { 3600 } else { 400 });
    let count: usize = more.map_or(PODS, |pods| pods.parse().unwrap());
    let cluster = Cluster::without_operator;
    blackbox_within(deadline, cluster, "chain-diff-webhook", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        let pods = (0..count).map(|number| pods::random(&mut seed, number));
        let objects = recorded(&scene, &webhook, &pods.collect::<Vec<_>>()).await;
        let mut served = Vec::new();
        for chain in CHAINS {
            let bundle = bundle(chain);
            let operator = webhook.spawn(bundle.path(), &[]);
            operator.ready().await;
            let answers = all_answers(&operator, &objects).await;
            served.push((bundle, answers));
        }
        let mut seen = BTreeSet::new();
        for (old, new) in some_pairs(&mut seed, changes) {
            seen.extend(compared(&scene, &objects, &served[old], &served[new]));
        }
        // Otherwise the pods or the chains are too much alike to show anything.
        assert!(seen.len() >= 4 && seen.contains("none"), "{seen:?}");
        eprintln!("{count} pods: {seen:?}");
    });
}

/// Two different chains each.
fn some_pairs(seed: &mut Seed, most: usize) -> Vec<(usize, usize)> {
    let all = (0..CHAINS.len()).flat_map(|old| (0..CHAINS.len()).map(move |new| (old, new)));
    let mut pairs: Vec<(usize, usize)> = all.filter(|(old, new)| old != new).collect();
    while pairs.len() > most {
        let out = seed.below(pairs.len());
        pairs.swap_remove(out);
    }
    pairs
}

/// Holds what is report of a change of the chain against the answers for each pod, and returns the verdicts.
fn compared(
    scene: &Scene,
    objects: &[Value],
    (old, before): &(Bundle, Vec<Answer>),
    (new, now): &(Bundle, Vec<Answer>),
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for (part, some) in objects.chunks(AT_ONCE).enumerate() {
        let report = report(scene, (old, new), some);
        for (index, object) in some.iter().enumerate() {
            let index = part * AT_ONCE + index;
            let (before, now) = (&before[index], &now[index]);
            let name = object["metadata"]["name"].as_str().unwrap();
            let name = format!("Pod {}/{name}", scene.namespace);
            let group = report.iter().find(|it| names_of(it).contains(&name));
            let wrong = changes::check(group, before, now);
            assert_eq!(
                wrong, None,
                "{name}: {object}\nbefore {before:?}\nnow {now:?}\ntold {group:?}"
            );
            let verdict = group.and_then(|it| it["verdict"].as_str());
            seen.insert(verdict.unwrap_or("none").to_owned());
        }
    }
    seen
}

async fn all_answers(operator: &Operator, objects: &[Value]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for object in objects {
        answers.push(ask(operator, object).await);
    }
    answers
}

/// The groups that are report of these pods, with all names and values.
fn report(scene: &Scene, (old, new): (&Bundle, &Bundle), objects: &[Value]) -> Vec<Value> {
    let namespace = ["get", "namespace", &scene.namespace, "--output=json"];
    let namespace: Value = serde_json::from_str(&scene.cluster.kubectl(&namespace)).unwrap();
    let mut items = objects.to_vec();
    items.push(namespace);
    let list = file(&json!({ "apiVersion": "v1", "kind": "List", "items": items }));
    let path = list.path().to_str().unwrap();
    let arguments = ["-f", path, "--show-values", "--names", "1000000"];
    let (_, report) = diff(old.path(), new.path(), &arguments, None);
    assert_eq!(report["compared"]["pods"], objects.len(), "{report}");
    assert_eq!(report["notListed"]["pods"], 0, "{report}");
    report["groups"].as_array().unwrap().clone()
}

/// An account that may read Deployments and nothing else.
fn deployments_only(scene: &Scene) -> std::path::PathBuf {
    let rules = json!([{ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"] }]);
    scene.account("deployments", &rules)
}

fn names_of(group: &Value) -> Vec<String> {
    let names = group["names"].as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

fn names(report: &Value) -> BTreeSet<String> {
    let groups = report["groups"].as_array().unwrap().iter();
    groups.flat_map(names_of).collect()
}

#[test]
fn the_pods_of_a_cluster_are_compared_with_the_rights_of_whoever_asks() {
    let cluster = Cluster::without_operator;
    blackbox_on(cluster, "chain-diff-cluster", async |scene| {
        let namespace = scene.namespace.as_str();
        let label = ["label", "namespace", namespace, "team=web"];
        scene.cluster.kubectl(&label);
        scene.behaviours().await;
        scene.browser("b", "oom-killed").await;
        for objects in [
            pods::workloads(namespace),
            pods::many_deployments(namespace),
        ] {
            scene.cluster.apply_text(&objects.to_string());
        }
        let labels = bundle(
            "[{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], \
             config: { labels: [{ key: team, value: $(namespace/labels/team), default: none }] } }]",
        );
        let run = |old: &Path, more: &[&str], kubeconfig: &Path| {
            let of = ["--against", "cluster", "-n", namespace, "--names", "1000"];
            let of = [&of[..], &["--exit-code"], more].concat();
            let (output, report) = diff(old, labels.path(), &of, Some(kubeconfig));
            (output.status.code(), report)
        };
        let admin = scene.cluster.plane.kubeconfig();
        let none = Path::new("none");
        let (code, report) = run(none, &[], &admin);
        let skipped = &report["skipped"];
        assert_eq!(
            (code, &skipped[0]["what"]),
            (Some(4), &json!("1 pod of a Workflow")),
            "{report}"
        );
        assert_eq!(skipped.as_array().unwrap().len(), 1, "{report}");
        assert_eq!(names(&report), everything(namespace));
        let change = &report["groups"][0]["changes"][0];
        assert_eq!(change["path"], "/metadata/labels/team", "{report}");
        assert_eq!(change["plugins"], json!(["labels"]), "{report}");
        assert!(!report.to_string().contains("\"web\""), "a value: {report}");
        // The same chain changes nothing.
        let (code, report) = run(labels.path(), &[], &admin);
        assert_eq!((code, &report["groups"]), (Some(0), &json!([])));
        let (_, report) = run(none, &["-l", "which=own,kind=Job"], &admin);
        assert_eq!(names(&report), [format!("Job {namespace}/own")].into());
        let (code, report) = run(none, &[], &deployments_only(&scene));
        assert_eq!(code, Some(4));
        check_skipped(&report);
    });
}

/// What is there and stands for itself.
fn everything(namespace: &str) -> BTreeSet<String> {
    let kinds = [
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "Pod",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
    ];
    let own = kinds.iter().map(|kind| format!("{kind} {namespace}/own"));
    let many = (0..pods::MANY).map(|number| format!("Deployment {namespace}/many-{number}"));
    let others = [
        format!("Browser {namespace}/b"),
        format!("ReplicaSet {namespace}/rolled"),
    ];
    own.chain(many).chain(others).collect()
}

/// With the right to list Deployments alone.
fn check_skipped(report: &Value) {
    assert_eq!(report["compared"]["pods"], pods::MANY + 1, "{report}");
    let skipped = report["skipped"].as_array().unwrap().iter();
    let skipped: Vec<&str> = skipped.map(|it| it["what"].as_str().unwrap()).collect();
    let expected = [
        "labels of namespaces",
        "ChainExceptions",
        "StatefulSets",
        "DaemonSets",
        "CronJobs",
        "Jobs",
        "ReplicaSets",
        "ReplicationControllers",
        "Pods",
        "Browsers",
    ];
    assert_eq!(skipped, expected, "{report}");
}
