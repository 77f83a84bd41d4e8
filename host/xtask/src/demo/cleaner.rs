//! A preview is deleted once it was idle for long enough, and a service outside the cluster is told.
//!
//! The kinds are those of Knative; on a control plane of the demo they are stubs.

mod sink;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;

use self::sink::{Event, Sink};
use super::operator::Operator;
use super::volume::Volume;
use super::{Built, Cluster, Live, browsers, screen};
use crate::run;

/// The namespace of the scene.
const NAMESPACE: &str = "cleaner-demo";
/// The Cleaner, and the Knative service that it deletes.
const NAME: &str = "shop-commit--demo";
/// How long after its last request the preview may be idle: what its condition says.
const IDLE: Duration = Duration::from_hours(360);
/// How much of that is left when the preview becomes idle.
const LEFT: Duration = Duration::from_secs(6);
/// How long the event may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets a Cleaner wait for its time, for a request to end, and for time to pass.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    let target = run::workspace()?.target_directory.into_std_path_buf();
    let volume = Volume::mount(&built.bundle, target.join("demo/cleaner/plugins"))?;
    let sink = Sink::start()?;
    let crds = run::root().join("crds/cleaner");
    run::succeed(cluster.kubectl().arg("apply").arg("-k").arg(crds))?;
    if cluster.plane.is_some() {
        let stubs = run::root().join("tests/blackbox/fixtures/cleaner/knative.yaml");
        run::succeed(cluster.kubectl().arg("apply").arg("-f").arg(stubs))?;
    }
    let established = [
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd",
    ];
    let kinds = ["cleaners.cleaner.vtex.dev", "revisions.serving.knative.dev"];
    run::succeed(cluster.kubectl().args(established).args(kinds))?;
    let more = ["--controllers", "cleaner", "--cleaner-allow-loopback-sinks"];
    let operator = Operator::start_with(
        &built.binary,
        volume.path(),
        &cluster.kubeconfig,
        ("cleaner.log", &more),
    )?;

    let begun = Instant::now();
    browsers::apply(cluster, &objects("True", Timestamp::now()))?;
    browsers::apply(cluster, &cleaner(&sink))?;
    operator.until(|| Ok(reason(cluster)? == "WaitingForConditions"))?;
    screen::step(
        begun.elapsed().as_millis(),
        "it is old enough, but a revision of the preview still serves requests",
    );
    list(cluster)?;

    let begun = Instant::now();
    let since = Timestamp::now() - IDLE + LEFT;
    let before = next(cluster)?;
    browsers::apply(cluster, &objects("False", since))?;
    operator.until(|| Ok(next(cluster)? != before))?;
    screen::step(
        begun.elapsed().as_millis(),
        "no request any more: the time at which that is long enough is known to the second",
    );
    list(cluster)?;

    operator.until(|| Ok(names(cluster)?.is_empty()))?;
    screen::step(
        begun.elapsed().as_millis(),
        "the service is deleted, and the Cleaner with it",
    );
    let event = sink.next(PATIENCE)?;
    screen::step(begun.elapsed().as_millis(), "the CloudEvent has arrived:");
    tell(&event);
    let delete = ["delete", "namespace", NAMESPACE, "--wait=false"];
    run::succeed(cluster.kubectl().args(delete))
}

fn tell(event: &Event) {
    for header in &event.headers {
        screen::line(&format!("    {header}"));
    }
    screen::line(&format!("    a body of {} bytes", event.body.len()));
}

fn list(cluster: &Cluster) -> Result<()> {
    screen::line("$ kubectl get cleaners");
    run::succeed(kubectl(cluster).args(["get", "cleaners"]))
}

/// The reason of the condition Ready.
fn reason(cluster: &Cluster) -> Result<String> {
    read(
        cluster,
        r#"{.status.conditions[?(@.type=="Ready")].reason}"#,
    )
}

/// When it is looked at again.
fn next(cluster: &Cluster) -> Result<String> {
    read(cluster, "{.status.nextScheduledEvaluation}")
}

fn read(cluster: &Cluster, path: &str) -> Result<String> {
    let path = format!("--output=jsonpath={path}");
    run::output(kubectl(cluster).args(["get", "cleaner", NAME, &path]))
}

/// What is left of the Cleaner and of what it deletes.
fn names(cluster: &Cluster) -> Result<String> {
    let kinds = "cleaners.cleaner.vtex.dev,services.serving.knative.dev";
    run::output(kubectl(cluster).args(["get", kinds, "--output=name"]))
}

fn kubectl(cluster: &Cluster) -> Command {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["--namespace", NAMESPACE]);
    kubectl
}

/// The preview: a service, and its revision, which has been active or not since this time.
fn objects(active: &str, since: Timestamp) -> String {
    format!(
        "\
apiVersion: v1
kind: Namespace
metadata: {{ name: {NAMESPACE} }}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {{ name: {NAME}, namespace: {NAMESPACE} }}
---
apiVersion: serving.knative.dev/v1
kind: Revision
metadata:
  name: {NAME}-00001
  namespace: {NAMESPACE}
  labels: {{ example.com/preview: {NAME} }}
  annotations: {{ serving.knative.dev/routes: '{NAME},preview-{NAME}' }}
status:
  conditions:
  - {{ type: Active, status: '{active}', lastTransitionTime: '{since:.0}' }}
"
    )
}

fn cleaner(sink: &Sink) -> String {
    format!(
        "\
apiVersion: cleaner.vtex.dev/v1alpha
kind: Cleaner
metadata: {{ name: {NAME}, namespace: {NAMESPACE} }}
spec:
  ttl: 2s
  retry: {{ period: 5h, monotonic: true }}
  cloudEventSink: 'http://{}/deleted'
  targets:
  - name: shop
    delete: true
    reference: {{ apiGroup: serving.knative.dev, version: v1, kind: service, name: {NAME} }}
  - name: revisions
    includeWhenEvaluating: true
    reference:
      apiGroup: serving.knative.dev
      version: v1
      kind: revision
      matchLabels: {{ example.com/preview: {NAME} }}
  conditions:
  - |
    !revisions.items.exists(r,
      r.metadata.annotations['serving.knative.dev/routes']
        .split(',')
        .exists(route, !route.startsWith('shop-') && !route.startsWith('preview-'))
      ||
      r.status.conditions
        .filter(c, c.type == 'Active')
        .exists(c, c.status == 'True' || time - timestamp(c.lastTransitionTime) < duration('360h'))
    )
",
        sink.address
    )
}
