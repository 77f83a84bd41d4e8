//! All replicas of the webhook are gone, and pods are created nevertheless: they wait, and pass the chain once a replica answers.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::operator::{Operator, free_address};
use super::webhook::{configuration, is_callable, until_published};
use super::{Built, Cluster, Live, screen};
use crate::run;

const TEAM: &str = "gated-team";
const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: { name: gated-team, labels: { podloom.dev/mutate: enabled } }
";
/// On pods that passed the chain, and on those that wait.
const STAMP: &str = "podloom.dev/mutations";
const GATE: &str = "schedulingGates";
/// The policy of the install manifests.
const POLICY: &str = "deploy/options/gate/gate.yaml";
const OBJECTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: gated-team }
spec:
  replicas: 3
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: 'registry.k8s.io/pause:3.10' }] }
---
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: db, namespace: gated-team }
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: { matchLabels: { app: db } }
  template:
    metadata: { labels: { app: db } }
    spec: { containers: [{ name: db, image: 'registry.k8s.io/pause:3.10' }] }
---
apiVersion: batch/v1
kind: Job
metadata: { name: report, namespace: gated-team }
spec:
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions: [{ type: DisruptionTarget, status: 'True' }]
  template:
    metadata: { labels: { app: report } }
    spec:
      restartPolicy: Never
      containers: [{ name: report, image: 'registry.k8s.io/pause:3.10' }]
";
/// How many pods these objects have.
const PODS: usize = 6;
/// Which of them pass the chain one after the other, and how many they are.
const STEPS: [(&str, usize, &str); 2] = [
    (
        "app in (web, db)",
        5,
        "the pods of the Deployment and the StatefulSet passed the chain",
    ),
    (
        "app=report",
        1,
        "so did that of the Job, once Kubernetes had collected the evicted one",
    ),
];
/// A word for each pod that waits, or that passed the chain.
const WAITS: &str = "--output=jsonpath={.items[*].spec.schedulingGates[*].name}";
const PASSED: &str = "--output=jsonpath={.items[*].metadata.annotations.podloom\\.dev/chain}";
const COLUMNS: &str = "--output=custom-columns=POD:.metadata.name,PHASE:.status.phase,GATE:.spec.schedulingGates[*].name,CHAIN:.metadata.annotations.podloom\\.dev/chain";

/// Creates pods while nobody answers, and shows what becomes of them.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    if !is_callable(cluster) {
        return Ok(());
    }
    let (webhook, policy) = (
        free_address()?,
        fs::read_to_string(run::root().join(POLICY))?,
    );
    let (address, host) = (webhook.to_string(), webhook.ip().to_string());
    let serve = ["--controllers", "none", "--webhook", &address];
    let serve = [&serve[..], &["--webhook-host", &host, "--webhook-gate"]].concat();
    let replica = || Operator::start(built, live.volume.path(), cluster, ("gate.log", &serve));

    let first = replica()?;
    cluster.apply(NAMESPACE)?;
    let url = format!("https://{webhook}/mutate/pods");
    cluster.apply(&configuration(&url, "Ignore"))?;
    until_published(cluster)?;
    cluster.apply(&policy)?;
    first.until(|| Ok(probe(cluster)?.contains(STAMP)))?;
    drop(first);
    screen::line("the webhook is gone; its failurePolicy is Ignore");
    live.operator.until(|| Ok(probe(cluster)?.contains(GATE)))?;
    screen::line("a Deployment, a StatefulSet and a Job are created, and no call fails:");
    cluster.apply(OBJECTS)?;
    live.operator
        .until(|| Ok(count(cluster, "", WAITS)? == PODS))?;
    list(cluster)?;

    let begun = Instant::now();
    let second = replica()?;
    screen::step(begun.elapsed(), "a replica answers again");
    for (selector, pods, what) in STEPS {
        second.until(|| Ok(count(cluster, selector, PASSED)? == pods))?;
        screen::step(begun.elapsed(), what);
    }
    list(cluster)?;
    screen::line("$ podloom drift --namespace gated-team --exit-code");
    let mut drift = Command::new(&built.binary);
    drift.args(["drift", "--namespace", TEAM, "--exit-code"]);
    run::succeed(drift.env("KUBECONFIG", &cluster.kubeconfig))?;
    cluster.delete(&policy)?;
    cluster.delete(&configuration(&url, "Ignore"))?;
    cluster.delete_namespace(TEAM)
}

/// What the API server would make of a new pod now.
fn probe(cluster: &Cluster) -> Result<String> {
    let image = "--image=registry.k8s.io/pause:3.10";
    let dry_run = ["run", "probe", image, "--dry-run=server", "--output=yaml"];
    run::output(cluster.kubectl_in(TEAM).args(dry_run))
}

/// How many pods with these labels have something, by a template.
fn count(cluster: &Cluster, selector: &str, template: &str) -> Result<usize> {
    let get = ["get", "pods", "--selector", selector, template];
    let found = run::output(cluster.kubectl_in(TEAM).args(get))?;
    Ok(found.split_whitespace().count())
}

fn list(cluster: &Cluster) -> Result<()> {
    run::succeed(cluster.kubectl_in(TEAM).args(["get", "pods", COLUMNS]))
}
