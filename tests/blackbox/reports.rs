//! Reports of what was found, as the kinds that other tools read: openreports/reports-api.

use std::path::Path;

use kube::api::{ListParams, PostParams};
use podloom_tests::doors::report;
use podloom_tests::webhook::{Policy, Route, Webhook, address, plain_pod};
use podloom_tests::{
    Cluster, MountedBundle, Operator, Scene, blackbox_on, eventually, eventually_within, rbac,
};
use serde_json::{Value, json};

/// Nobody listens here.
const NOBODY: &str = "127.0.0.1:9";

/// A chain that denies some images.
fn denies(tag: &str) -> String {
    format!(
        "[{{ name: policy, file: script.wasm.gz, config: {{ program: \
        'for c in pod.containers([\"/image\"]) {{ if c.image.ends_with(\":{tag}\") {{ deny(`${{c.name}}: this image is forbidden`) }} }}' }} }}]"
    )
}

/// Installs the CRDs of the public project.
fn install(scene: &Scene) {
    let crds = podloom_control_plane::report_crds().unwrap();
    scene.cluster.apply(&crds);
}

/// Those of the other group are not to be had as a module of Go. They have the same fields.
fn install_other(scene: &Scene) {
    let crds = podloom_control_plane::report_crds().unwrap();
    let text = std::fs::read_to_string(crds).unwrap();
    let text = text.replace("Report", "PolicyReport");
    let text = text.replace("reports.openreports.io", "policyreports.wgpolicyk8s.io");
    let text = text.replace("openreports.io", "wgpolicyk8s.io");
    let text = text.replace(": reports", ": policyreports");
    let text = text.replace(": clusterreports", ": clusterpolicyreports");
    let text = text.replace(": report\n", ": policyreport\n");
    let text = text.replace(": clusterreport\n", ": clusterpolicyreport\n");
    scene
        .cluster
        .apply_text(&text.replace("v1alpha1", "v1alpha2"));
}

fn grant(scene: &Scene, webhook: &Webhook) {
    for whose in ["reports", "drift"] {
        let rights = ["--for", whose, "--webhook-name", &webhook.name];
        let rights = [&rights[..], &["--operator-namespace", &webhook.home]].concat();
        scene.cluster.apply_text(&rbac(&rights));
    }
}

fn spawn(webhook: &Webhook, groups: &str, plugins: &Path, candidate: &Path) -> Operator {
    let candidate = candidate.to_str().unwrap();
    let more = [
        "--webhook-reports",
        groups,
        "--webhook-drift-interval=1s",
        "--plugins-scan=1s",
        "--lease-duration=3s",
        "--candidate",
        candidate,
    ];
    webhook.spawn(plugins, &more)
}

fn deploy(scene: &Scene, name: &str, tag: &str) {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": scene.namespace },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "a", "image": format!("example.com/a:{tag}") }] },
            },
        },
    });
    scene.cluster.apply_text(&deployment.to_string());
}

fn delete(scene: &Scene, name: &str) {
    let namespace = scene.namespace.as_str();
    scene
        .cluster
        .kubectl(&["delete", "deployment", name, "-n", namespace]);
}

/// The report of the namespace, or of the cluster; none if there is none.
fn found(scene: &Scene, kind: &str, webhook: &Webhook) -> Option<Value> {
    let get = ["get", kind, &webhook.name, "-o", "json", "-n"];
    let said = scene
        .cluster
        .ask_kubectl(&[&get[..], &[&scene.namespace]].concat());
    // What kubectl knows of a new kind comes a little after the kind.
    let words = ["NotFound", "the server doesn't have a resource type"];
    let is_missing = words.iter().any(|word| said.error.contains(word));
    assert!(said.is_done || is_missing, "{}", said.error);
    said.is_done
        .then(|| serde_json::from_str(&said.out).unwrap())
}

/// Waits until a report has exactly results that begin so.
async fn until(scene: &Scene, webhook: &Webhook, kind: &str, expected: &[&str]) -> Value {
    let what = format!("{kind} has {expected:?}");
    let limit = podloom_tests::PATIENCE * 2;
    eventually_within(&what, limit, async || {
        let read = found(scene, kind, webhook);
        let (summary, lines) = match &read {
            Some(read) => report(read),
            None => (json!({}), Vec::new()),
        };
        let numbers = summary.as_object().unwrap().values();
        let sum: u64 = numbers.filter_map(Value::as_u64).sum();
        let mut pairs = lines.iter().zip(expected);
        let is_so = lines.len() == expected.len()
            && pairs.all(|(line, start)| line.starts_with(start))
            && sum == lines.len() as u64
            && read.is_some() != expected.is_empty();
        is_so
            .then(|| read.clone().unwrap_or_default())
            .ok_or_else(|| format!("{lines:#?} {summary}"))
    })
    .await
}

async fn says(operator: &Operator, what: &str) {
    eventually("the log says it", async || {
        let said = operator.logged(&[what]);
        (!said.is_empty())
            .then_some(())
            .ok_or_else(|| operator.tail("report"))
    })
    .await;
}

const REPORTS: &str = "reports.openreports.io";
const OTHERS: &str = "policyreports.wgpolicyk8s.io";
const OF_CLUSTER: &str = "clusterreports.openreports.io";

#[test]
fn what_is_found_is_reported_until_it_is_no_longer_so() {
    blackbox_on(Cluster::without_operator, "reports", async |scene| {
        install(&scene);
        let webhook = Webhook::new(&scene, Route::Url);
        grant(&scene, &webhook);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        webhook.is_older(&scene).await;
        deploy(&scene, "early", "1");
        let (chain, candidate) = (
            MountedBundle::of(&denies("bad")),
            MountedBundle::of(&denies("later")),
        );
        eventually("a pod is there before the webhook", async || {
            let pods = scene.pods().list(&ListParams::default()).await.unwrap();
            (pods.items.len() == 1)
                .then_some(())
                .ok_or_else(|| "not yet".to_owned())
        })
        .await;
        let both = "openreports.io,wgpolicyk8s.io";
        let operator = spawn(&webhook, both, chain.path(), candidate.path());
        webhook.configure(address(&operator).await, Policy::Fail);
        operator.ready().await;
        webhook.serves().await;
        says(&operator, "candidate loaded").await;

        deploy(&scene, "denied", "bad");
        deploy(&scene, "web", "later");
        let three = [
            "fail denial/policy Deployment/denied: plugin policy denies the pod: a: this image is forbidden",
            "fail drift/missed Deployment/early: 1 pod missed the chain; early-",
            "warn candidate/policy Deployment/web: plugin policy of the candidate denies a pod that the chain accepts",
        ];
        let seen = until(&scene, &webhook, REPORTS, &three).await;
        let namespace = scene.namespace.as_str();
        let resource = &seen["results"][0]["resources"][0];
        let expected = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "denied" });
        assert_eq!(*resource, expected);
        assert_eq!(seen["scope"]["name"], json!(namespace));
        // The other group is not known here, which stops nothing else.
        says(&operator, "install the CRDs").await;
        install_other(&scene);
        until(&scene, &webhook, OTHERS, &three).await;

        // Each goes when its cause does, and with the last one the report.
        deploy(&scene, "denied", "1");
        until(&scene, &webhook, REPORTS, &three[1..]).await;
        delete(&scene, "early");
        until(&scene, &webhook, REPORTS, &three[2..]).await;
        candidate.update(&denies("never"));
        until(&scene, &webhook, REPORTS, &[]).await;
        until(&scene, &webhook, OTHERS, &[]).await;

        chain.update("[{ name: policy, file: nowhere.wasm }]");
        let broken = ["error chain/serving : "];
        until(&scene, &webhook, OF_CLUSTER, &broken).await;
        chain.update(&denies("bad"));
        until(&scene, &webhook, OF_CLUSTER, &[]).await;
    });
}

#[test]
fn a_restart_forgets_nothing_and_nothing_is_written_twice() {
    blackbox_on(
        Cluster::without_operator,
        "reports-restart",
        async |scene| {
            install(&scene);
            let webhook = Webhook::new(&scene, Route::Url);
            grant(&scene, &webhook);
            let (chain, candidate) = (
                MountedBundle::of(&denies("bad")),
                MountedBundle::of(&denies("never")),
            );
            let group = "openreports.io";
            let mut operator = spawn(&webhook, group, chain.path(), candidate.path());
            webhook.configure(address(&operator).await, Policy::Fail);
            operator.ready().await;
            webhook.serves().await;
            let both = [
                "fail denial/policy Deployment/denied: plugin policy denies the pod",
                "fail denial/policy Deployment/other: plugin policy denies the pod",
            ];
            deploy(&scene, "denied", "bad");
            let before = until(&scene, &webhook, REPORTS, &both[..1]).await;
            delete(&scene, "denied");
            operator.kill();
            operator.restart();
            webhook.configure(address(&operator).await, Policy::Fail);
            operator.ready().await;
            webhook.serves().await;
            deploy(&scene, "other", "bad");
            let after = until(&scene, &webhook, REPORTS, &both).await;
            assert_eq!(after["results"][0], before["results"][0]);
            let written = operator.metric("podloom_report_writes_total{outcome=\"updated\"}");
            let log = operator.tail("report");
            assert_eq!(written, 1.0, "{log}");
        },
    );
}

#[test]
fn without_rights_the_log_says_what_to_do_and_pods_are_admitted() {
    blackbox_on(
        Cluster::without_operator,
        "reports-forbidden",
        async |scene| {
            install(&scene);
            let webhook = Webhook::new(&scene, Route::Url);
            let chain = MountedBundle::of(&denies("bad"));
            let more = ["--webhook-reports=openreports.io"];
            let operator = webhook.operator(chain.path(), &more).await;
            deploy(&scene, "denied", "bad");
            says(&operator, "podloom rbac --for reports").await;
            let (params, pod) = (PostParams::default(), plain_pod("good"));
            scene.pods().create(&params, &pod).await.unwrap();
            eventually("a write has failed", async || {
                let failed = operator.metric("podloom_report_writes_total{outcome=\"failed\"}");
                (failed >= 1.0)
                    .then_some(())
                    .ok_or_else(|| operator.tail("report"))
            })
            .await;
        },
    );
}
