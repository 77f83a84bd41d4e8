//! A preview is deleted once it was idle for long enough, and a service outside the cluster is told.
//!
//! The kinds are those of Knative; on a control plane of the demo they are stubs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::operator::{Operator, Volume};
use super::{Built, Cluster, Live, screen};
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
    let volume = Volume::mount(&built.bundle, run::target("demo/cleaner/plugins")?)?;
    let sink = Sink::start()?;
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
    cluster.apply(&cleaner(&sink))?;
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
    let event = sink.next(PATIENCE)?;
    screen::step(begun.elapsed(), "the CloudEvent has arrived:");
    tell(&event);
    cluster.delete_namespace(NAMESPACE)
}

fn tell(event: &Event) {
    for header in &event.headers {
        screen::line(&format!("    {header}"));
    }
    screen::line(&format!("    a body of {} bytes", event.body.len()));
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

/// How long a client may take to send an event.
const READ: Duration = Duration::from_secs(10);
/// How many bytes the body of an event may have.
const BODY: u64 = 1 << 20;

/// Takes events until the demo ends.
struct Sink {
    address: SocketAddr,
    events: Receiver<Event>,
}

/// An event that arrived.
struct Event {
    /// Its headers whose names begin with `ce-`, as `name: value`.
    headers: Vec<String>,
    /// Its body.
    body: String,
}

impl Sink {
    /// Starts it on a free port.
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let address = listener.local_addr()?;
        let (arrived, events) = mpsc::channel();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that sends nothing sensible gets no answer.
                if let Ok(event) = take(&client)
                    && arrived.send(event).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { address, events })
    }

    /// Waits for the next event.
    fn next(&self, patience: Duration) -> Result<Event> {
        self.events
            .recv_timeout(patience)
            .context("no CloudEvent has arrived")
    }
}

fn take(client: &TcpStream) -> Result<Event> {
    client.set_read_timeout(Some(READ))?;
    let mut reader = BufReader::new(client);
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if lower.starts_with("ce-") {
            headers.push(line.to_owned());
        }
    }
    let mut body = String::new();
    reader.take(BODY.min(length)).read_to_string(&mut body)?;
    let mut client = client;
    client.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")?;
    Ok(Event { headers, body })
}
