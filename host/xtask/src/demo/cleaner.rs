//! A preview is deleted once it was idle for long enough, and a service outside the cluster is told.
//!
//! The kinds are those of Knative; on a control plane of the demo they are stubs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::operator::{Double, Operator, Volume, send};
use super::{Built, Cluster, Live, screen};
use crate::{release, run};

/// The namespace of the scene.
const NAMESPACE: &str = "cleaner-demo";
/// The Cleaner, and the Knative service that it deletes.
const NAME: &str = "shop-commit--demo";
/// How long after its last request the preview may be idle: what its condition says.
const IDLE: Duration = Duration::from_hours(360);
/// How much of that is left when the preview becomes idle.
const LEFT: Duration = Duration::from_secs(6);

/// Lets a Cleaner wait for its time, for a request to end, and for time to pass.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    let volume = Volume::mount(&built.bundle, run::target("demo/cleaner/plugins")?)?;
    let sink = Double::start(
        &release::local("podloom-doubles")?,
        &["sink", "--status", "204"],
    )?;
    cluster.install("crds/cleaner")?;
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
    let operator = Operator::start(built, volume.path(), cluster, ("cleaner.log", &more))?;

    let begun = Instant::now();
    cluster.apply(&objects("True", Timestamp::now()))?;
    cluster.apply(&cleaner(sink.address))?;
    operator.until(|| Ok(reason(cluster)? == "WaitingForConditions"))?;
    screen::step(
        begun.elapsed(),
        "it is old enough, but a revision of the preview still serves requests",
    );
    list(cluster)?;

    let begun = Instant::now();
    let since = Timestamp::now() - IDLE + LEFT;
    let before = next(cluster)?;
    cluster.apply(&objects("False", since))?;
    operator.until(|| Ok(next(cluster)? != before))?;
    screen::step(
        begun.elapsed(),
        "no request any more: the time at which that is long enough is known to the second",
    );
    list(cluster)?;

    operator.until(|| Ok(names(cluster)?.is_empty()))?;
    screen::step(
        begun.elapsed(),
        "the service is deleted, and the Cleaner with it",
    );
    operator.until(|| Ok(!received(&sink)?.is_null()))?;
    screen::step(begun.elapsed(), "the CloudEvent has arrived:");
    tell(&received(&sink)?);
    cluster.delete_namespace(NAMESPACE)
}

/// The first request that the sink received, or null.
fn received(sink: &Double) -> Result<Value> {
    let (_, body) = send(sink.control, "GET /requests", "", "")?;
    let mut all: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
    Ok(all
        .pointer_mut("/requests/0")
        .map(Value::take)
        .unwrap_or_default())
}

fn tell(event: &Value) {
    let headers = event.get("headers").and_then(Value::as_object);
    for (name, value) in headers.into_iter().flatten() {
        if name.starts_with("ce-") {
            let value = value.as_str().unwrap_or_default();
            screen::line(&format!("    {name}: {value}"));
        }
    }
    let length = event.get("length").and_then(Value::as_u64);
    let length = length.unwrap_or_default();
    screen::line(&format!("    a body of {length} bytes"));
}

fn list(cluster: &Cluster) -> Result<()> {
    screen::line("$ kubectl get cleaners");
    run::succeed(cluster.kubectl_in(NAMESPACE).args(["get", "cleaners"]))
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
    run::output(
        cluster
            .kubectl_in(NAMESPACE)
            .args(["get", "cleaner", NAME, &path]),
    )
}

/// What is left of the Cleaner and of what it deletes.
fn names(cluster: &Cluster) -> Result<String> {
    let kinds = "cleaners.cleaner.vtex.dev,services.serving.knative.dev";
    run::output(
        cluster
            .kubectl_in(NAMESPACE)
            .args(["get", kinds, "--output=name"]),
    )
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

fn cleaner(sink: SocketAddr) -> String {
    format!(
        "\
apiVersion: cleaner.vtex.dev/v1alpha
kind: Cleaner
metadata: {{ name: {NAME}, namespace: {NAMESPACE} }}
spec:
  ttl: 2s
  retry: {{ period: 5h, monotonic: true }}
  cloudEventSink: 'http://{sink}/deleted'
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
"
    )
}
