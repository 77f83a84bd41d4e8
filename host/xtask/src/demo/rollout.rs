//! A candidate whose pods fail is taken back by itself; then a good one comes to serve by itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::operator::{Operator, Volume, free_address};
use super::webhook::{configuration, is_callable, until_published};
use super::{Built, Cluster, Live, screen};
use crate::run;

const TEAM: &str = "rollout-team";
const HOME: &str = "rollout-home";
const OBJECTS: &str = "\
apiVersion: v1
kind: Namespace
metadata: { name: rollout-home }
---
apiVersion: v1
kind: Namespace
metadata: { name: rollout-team, labels: { podloom.dev/mutate: enabled } }
---
apiVersion: chain.podloom.dev/v1alpha1
kind: ChainRollout
metadata: { name: main, namespace: rollout-home }
spec:
  steps:
  - { percent: 10, duration: 10s, pods: 3 }
  - { percent: 50, duration: 5s, pods: 5 }
  limits: { unready: { pods: 2, percent: 5 } }
";
/// The definition of ChainRollouts.
const CRD: &str = "crds/rollout";
/// The label by which the nodes of the demo decide how a pod behaves.
const BEHAVIOUR: (&str, &str) = ("kubelet.test~1behaviour", "kubelet.test/behaviour");
/// How long a rollout may take here.
const PATIENCE: Duration = Duration::from_mins(3);
const STATUS: &str = "--output=jsonpath={.status.phase};{.status.candidate};{.status.message}";
/// A line for each pod: its stamp, and whose it is.
const STAMPS: &str = "--output=jsonpath={range .items[*]}{.metadata.annotations.podloom\\.dev/chain} {.metadata.labels.app}{\"\\n\"}{end}";

/// Rolls out a bad candidate and a good one, while Deployments are created one after the other.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    if !is_callable(cluster) {
        return Ok(());
    }
    cluster.install(CRD)?;
    cluster.apply(OBJECTS)?;
    let mount = live.volume.path().with_file_name("rollout-candidate");
    let candidate = Volume::mount(&built.bundle, mount)?;
    candidate.add_label_of("bad", BEHAVIOUR, "failed")?;
    let webhook = free_address()?;
    let (address, host) = (webhook.to_string(), webhook.ip().to_string());
    let directory = candidate.path().display().to_string();
    let serve = [
        ["--controllers", "rollout"],
        ["--webhook", &address],
        ["--webhook-host", &host],
        ["--candidate", &directory],
        ["--pod-namespace", HOME],
        ["--lease-namespace", HOME],
    ];
    let serve = [serve.as_flattened(), &["--rollout"]].concat();
    let operator = Operator::start(built, live.volume.path(), cluster, ("rollout.log", &serve))?;
    let url = format!("https://{webhook}/mutate/pods");
    cluster.apply(&configuration(&url, "Fail"))?;
    until_published(cluster)?;

    screen::line("a candidate whose pods fail, for 10 percent of owners at first:");
    let mut created = 0;
    let bad = until_decided(cluster, &operator, ("RolledBack", ""), &mut created)?;
    let touched = passed(cluster, &bad)?;
    if touched * 10 > created + 10 {
        bail!("{touched} of {created} owners passed a candidate that was to have 10 percent");
    }
    screen::line(&format!("{touched} of {created} owners passed it"));
    create(cluster, &mut created, 10)?;
    if passed(cluster, &bad)? > touched {
        bail!("a pod passed a candidate that was taken back");
    }
    screen::line("10 more are created, and none of them passes it");

    screen::line("then a good candidate:");
    candidate.add_label_of("good", ("rolled-out", "rolled-out"), "podloom")?;
    let good = until_decided(cluster, &operator, ("Completed", &bad), &mut created)?;
    screen::line(&format!(
        "{} of {created} owners passed it on the way, and every further pod will",
        passed(cluster, &good)?
    ));
    run::succeed(cluster.kubectl_in(HOME).args(["get", "chainrollouts"]))?;
    cluster.delete(&configuration(&url, "Fail"))?;
    for namespace in [TEAM, HOME] {
        cluster.delete_namespace(namespace)?;
    }
    Ok(())
}

/// Creates Deployments until the rollout of another candidate than this one has a phase. Returns the candidate's digest.
fn until_decided(
    cluster: &Cluster,
    operator: &Operator,
    (wanted, earlier): (&str, &str),
    created: &mut usize,
) -> Result<String> {
    let (begun, mut said) = (Instant::now(), String::new());
    loop {
        operator.check_alive()?;
        let now = status(cluster)?;
        let (phase, digest, message) = &now;
        let line = format!("{phase}: {message}");
        if line != said && digest != earlier && !message.starts_with("the next step begins") {
            screen::step(begun.elapsed(), &line);
            said = line;
        }
        if phase == wanted && digest != earlier {
            return Ok(digest.clone());
        }
        if begun.elapsed() > PATIENCE {
            operator.print_log();
            bail!("it is not {wanted} within {} s", PATIENCE.as_secs());
        }
        create(cluster, created, 1)?;
    }
}

/// Phase, candidate and message.
fn status(cluster: &Cluster) -> Result<(String, String, String)> {
    let get = ["get", "chainrollout", "main", STATUS];
    let text = run::output(cluster.kubectl_in(HOME).args(get))?;
    let mut parts = text.splitn(3, ';').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    Ok((next(), next(), next()))
}

/// Creates so many Deployments with one pod each.
fn create(cluster: &Cluster, created: &mut usize, more: usize) -> Result<()> {
    for _ in 0..more {
        let name = format!("app-{created}");
        let image = "--image=registry.k8s.io/pause:3.10";
        let create = ["create", "deployment", &name, image];
        run::output(cluster.kubectl_in(TEAM).args(create))?;
        *created += 1;
    }
    Ok(())
}

/// How many owners have pods that passed a chain.
fn passed(cluster: &Cluster, digest: &str) -> Result<usize> {
    let stamps = run::output(cluster.kubectl_in(TEAM).args(["get", "pods", STAMPS]))?;
    let pods = stamps.lines().filter_map(|line| line.split_once(' '));
    let owners = pods
        .filter(|(stamp, _)| *stamp == digest)
        .map(|(_, owner)| owner);
    Ok(owners.collect::<BTreeSet<_>>().len())
}
