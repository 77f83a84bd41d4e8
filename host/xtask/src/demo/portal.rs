//! A Service is exposed through two relays, which `podloom-doubles` plays.

mod relay;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use self::relay::Relay;
use super::operator::Operator;
use super::volume::Volume;
use super::{Built, Cluster, Live, browsers, screen};
use crate::{release, run};

/// The namespace of the scene.
const NAMESPACE: &str = "portal-demo";
/// The Deployment of the tunnel.
const TUNNEL: &str = "deployment/shop-tunnel";

/// Exposes a Service, changes the plugins, and lets a relay die.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    let doubles = release::local("podloom-doubles")?;
    let target = run::workspace()?.target_directory.into_std_path_buf();
    let volume = Volume::mount(&built.bundle, target.join("demo/portal/plugins"))?;
    let authorities = target.join("demo/portal");
    let (first, second) = (
        Relay::start(&doubles, &authorities.join("first.pem"))?,
        Relay::start(&doubles, &authorities.join("second.pem"))?,
    );
    let trusted = relay::trust(&[&first, &second], &authorities.join("relays.pem"))?;
    let crds = run::root().join("crds/portal");
    run::succeed(cluster.kubectl().arg("apply").arg("-k").arg(crds))?;
    let more = [
        "--controllers",
        "portal",
        "--portal-relay-poll-interval",
        "2s",
        "--portal-relay-allow-cidr",
        "127.0.0.0/8",
        "--portal-relay-ca-file",
        &trusted,
    ];
    let operator = Operator::start_with(
        &built.binary,
        volume.path(),
        &cluster.kubeconfig,
        ("portal.log", &more),
    )?;
    browsers::apply(cluster, &manifests(&first, &second))?;
    let begun = Instant::now();
    first.serve(&["shop.localhost"])?;
    second.serve(&["shop.localhost"])?;
    let shown = operator.until(|| Ok(phase(cluster)? == "Ready"));
    shown.with_context(|| "the PortalExpose is not ready")?;
    screen::step(
        begun.elapsed().as_millis(),
        "the tunnel runs, and both relays serve its hostname",
    );
    list(cluster)?;
    change_plugins(cluster, &operator, &volume)?;

    drop(second);
    let begun = Instant::now();
    operator.until(|| Ok(phase(cluster)? == "Degraded"))?;
    screen::step(begun.elapsed().as_millis(), "one relay is dead");
    list(cluster)?;
    run::succeed(kubectl(cluster).args(["delete", "portalexpose", "shop"]))?;
    run::succeed(cluster.kubectl().args(["delete", "tunnelclass", NAMESPACE]))?;
    let delete = ["delete", "namespace", NAMESPACE, "--wait=false"];
    run::succeed(cluster.kubectl().args(delete))
}

/// A chain that changes the pods rolls the tunnel, and one that does not rolls nothing.
fn change_plugins(cluster: &Cluster, operator: &Operator, volume: &Volume) -> Result<()> {
    let (pods, chain) = (replica_sets(cluster)?, chain(cluster)?);
    let begun = Instant::now();
    volume.add_label()?;
    operator.until(|| Ok(self::chain(cluster)? != chain && phase(cluster)? == "Ready"))?;
    if replica_sets(cluster)? != pods + 1 {
        bail!("a plugin writes another label, but the tunnel did not roll");
    }
    screen::step(
        begun.elapsed().as_millis(),
        "a plugin writes one more label: the tunnel has rolled",
    );
    let (pods, chain) = (replica_sets(cluster)?, self::chain(cluster)?);
    let begun = Instant::now();
    volume.add_plugin_for_browsers()?;
    operator.until(|| Ok(self::chain(cluster)? != chain && phase(cluster)? == "Ready"))?;
    if replica_sets(cluster)? != pods {
        bail!("the plugins change nothing, but the tunnel rolled");
    }
    screen::step(
        begun.elapsed().as_millis(),
        "one more plugin, which looks only at Browsers: the chain is noted, and nothing rolled",
    );
    Ok(())
}

fn list(cluster: &Cluster) -> Result<()> {
    screen::line("$ kubectl get portalexposes");
    run::succeed(kubectl(cluster).args(["get", "portalexposes"]))
}

fn phase(cluster: &Cluster) -> Result<String> {
    read(cluster, "portalexpose/shop", "{.status.phase}")
}

/// The digest of the chain that the tunnel has passed.
fn chain(cluster: &Cluster) -> Result<String> {
    read(
        cluster,
        TUNNEL,
        r"{.metadata.annotations.podloom\.dev/chain}",
    )
}

/// How many ReplicaSets there are: each roll makes one.
fn replica_sets(cluster: &Cluster) -> Result<usize> {
    let mut get = kubectl(cluster);
    let listed = run::output(get.args(["get", "replicasets", "--output=name"]))?;
    Ok(listed.lines().count())
}

fn read(cluster: &Cluster, object: &str, path: &str) -> Result<String> {
    let path = format!("--output=jsonpath={path}");
    run::output(kubectl(cluster).args(["get", object, &path]))
}

fn kubectl(cluster: &Cluster) -> Command {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["--namespace", NAMESPACE]);
    kubectl
}

fn manifests(first: &Relay, second: &Relay) -> String {
    format!(
        "\
apiVersion: v1
kind: Namespace
metadata: {{ name: {NAMESPACE} }}
---
apiVersion: v1
kind: Service
metadata: {{ name: shop, namespace: {NAMESPACE} }}
spec: {{ selector: {{ app: shop }}, ports: [{{ port: 8080 }}] }}
---
apiVersion: portal.gosuda.org/v1alpha1
kind: TunnelClass
metadata: {{ name: {NAMESPACE} }}
spec: {{ replicas: 1, size: small }}
---
apiVersion: portal.gosuda.org/v1alpha1
kind: PortalExpose
metadata: {{ name: shop, namespace: {NAMESPACE} }}
spec:
  app: {{ name: shop, service: {{ name: shop, port: 8080 }} }}
  relay:
    targets:
    - {{ name: first, url: 'wss://{first}/relay' }}
    - {{ name: second, url: 'wss://{second}/relay' }}
  tunnelClassName: {NAMESPACE}
"
    )
}
