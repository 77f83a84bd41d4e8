//! Pods of other controllers pass the chain through the admission webhook.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::operator::{Operator, free_address};
use super::{Built, Cluster, Live, screen};
use crate::run;

/// The namespace of the scene, with the label that the install manifests ask for.
const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: { name: any-team, labels: { podloom.dev/mutate: enabled, team: any } }
";
/// How long the operator may take to make its certificates and to publish their authority.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the configuration is looked at.
const LOOK: Duration = Duration::from_millis(100);
const IMAGE: &str = "--image=registry.k8s.io/pause:3.10";

/// Starts an operator that only serves the webhooks, and creates pods as people do.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    if !is_callable(cluster) {
        return Ok(());
    }
    let webhook = free_address()?;
    let (address, host) = (webhook.to_string(), webhook.ip().to_string());
    let more = [
        "--controllers",
        "none",
        "--webhook",
        &address,
        "--webhook-host",
        &host,
    ];
    let operator = Operator::start(built, live.volume.path(), cluster, ("webhook.log", &more))?;
    cluster.apply(NAMESPACE)?;
    cluster.apply(&configuration(
        &format!("https://{webhook}/mutate/pods"),
        "Fail",
    ))?;
    let published = until_published(cluster).inspect_err(|_| operator.print_log())?;
    screen::step(
        published,
        "the operator has made its certificates, and the API server trusts them",
    );
    screen::line("$ kubectl run test --labels=sidecar.podloom.dev/inject=true");
    let label = "--labels=sidecar.podloom.dev/inject=true";
    run::succeed(
        cluster
            .kubectl_in("any-team")
            .args(["run", "test", IMAGE, label]),
    )?;
    let shown = "--output=custom-columns=POD:.metadata.name,LABELS:.metadata.labels,CONTAINERS:.spec.containers[*].name,SIDECARS:.spec.initContainers[*].name,NON-ROOT:.spec.securityContext.runAsNonRoot";
    run::succeed(
        cluster
            .kubectl_in("any-team")
            .args(["get", "pod", "test", shown]),
    )?;
    screen::line("$ kubectl run bad --privileged");
    let denied = cluster
        .kubectl_in("any-team")
        .args(["run", "bad", IMAGE, "--privileged"])
        .status()?;
    if denied.success() {
        bail!("a privileged pod was admitted");
    }
    // Without the configuration first, no pod could be created in the namespace once the operator has ended.
    run::succeed(cluster.kubectl_in("any-team").args([
        "delete",
        "mutatingwebhookconfiguration",
        "podloom-webhook",
    ]))?;
    cluster.delete_namespace("any-team")
}

/// Whether the API server can call a webhook on this machine. Says so if it cannot.
pub(super) fn is_callable(cluster: &Cluster) -> bool {
    if cluster.plane.is_none() {
        screen::line(
            "skipped: the API server of another cluster cannot call a webhook on this machine",
        );
    }
    cluster.plane.is_some()
}

/// The configuration of the install manifests, but with a URL in place of a Service: the operator is a process of this machine.
pub(super) fn configuration(url: &str, policy: &str) -> String {
    format!(
        "\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {{ name: podloom-webhook }}
webhooks:
- name: pods.podloom.dev
  admissionReviewVersions: [v1]
  clientConfig: {{ url: '{url}' }}
  rules:
  - {{ apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced }}
  namespaceSelector: {{ matchLabels: {{ podloom.dev/mutate: enabled }} }}
  failurePolicy: {policy}
  timeoutSeconds: 5
  sideEffects: None
"
    )
}

/// Waits until the configuration has the authority of the operator's certificate. Returns how long that took.
pub(super) fn until_published(cluster: &Cluster) -> Result<Duration> {
    let begun = Instant::now();
    loop {
        let path = "--output=jsonpath={.webhooks[0].clientConfig.caBundle}";
        let mut get = cluster.kubectl_in("any-team");
        get.args([
            "get",
            "mutatingwebhookconfiguration",
            "podloom-webhook",
            path,
        ]);
        if !run::output(&mut get)?.is_empty() {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > PATIENCE {
            bail!(
                "the operator published no certificate authority within {} s",
                PATIENCE.as_secs()
            );
        }
        thread::sleep(LOOK);
    }
}
