//! A Service is exposed through two relays, which `podloom-doubles` plays.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fmt, fs};

use anyhow::{Context, Result, bail};
use serde_json::{Map, json};

use super::operator::{Double, Operator, Volume, send};
use super::{Built, Cluster, Live, screen};
use crate::{release, run};

/// The namespace of the scene.
const NAMESPACE: &str = "portal-demo";
/// The Deployment of the tunnel.
const TUNNEL: &str = "deployment/shop-tunnel";

/// Exposes a Service, changes the plugins, and lets a relay die.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    let doubles = release::local("podloom-doubles")?;
    let authorities = run::target("demo/portal")?;
    let volume = Volume::mount(&built.bundle, authorities.join("plugins"))?;
    let (first, second) = (
        Relay::start(&doubles, authorities.join("first.pem"))?,
        Relay::start(&doubles, authorities.join("second.pem"))?,
    );
    let trusted = trust(&[&first, &second], &authorities.join("relays.pem"))?;
    cluster.install("crds/portal")?;
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
    let operator = Operator::start(built, volume.path(), cluster, ("portal.log", &more))?;
    cluster.apply(&manifests(&first, &second))?;
    let begun = Instant::now();
    first.serve(&["shop.localhost"])?;
    second.serve(&["shop.localhost"])?;
    let shown = operator.until(|| Ok(phase(cluster)? == "Ready"));
    shown.with_context(|| "the PortalExpose is not ready")?;
    screen::step(
        begun.elapsed(),
        "the tunnel runs, and both relays serve its hostname",
    );
    list(cluster)?;
    change_plugins(cluster, &operator, &volume)?;

    drop(second);
    let begun = Instant::now();
    operator.until(|| Ok(phase(cluster)? == "Degraded"))?;
    screen::step(begun.elapsed(), "one relay is dead");
    list(cluster)?;
    run::succeed(
        cluster
            .kubectl_in(NAMESPACE)
            .args(["delete", "portalexpose", "shop"]),
    )?;
    run::succeed(cluster.kubectl().args(["delete", "tunnelclass", NAMESPACE]))?;
    cluster.delete_namespace(NAMESPACE)
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
        begun.elapsed(),
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
        begun.elapsed(),
        "one more plugin, which looks only at Browsers: the chain is noted, and nothing rolled",
    );
    Ok(())
}

fn list(cluster: &Cluster) -> Result<()> {
    screen::line("$ kubectl get portalexposes");
    run::succeed(cluster.kubectl_in(NAMESPACE).args(["get", "portalexposes"]))
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
    let mut get = cluster.kubectl_in(NAMESPACE);
    let listed = run::output(get.args(["get", "replicasets", "--output=name"]))?;
    Ok(listed.lines().count())
}

fn read(cluster: &Cluster, object: &str, path: &str) -> Result<String> {
    let path = format!("--output=jsonpath={path}");
    run::output(cluster.kubectl_in(NAMESPACE).args(["get", object, &path]))
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

/// A running relay. Displayed as in a URL.
struct Relay {
    authority: PathBuf,
    double: Double,
}

impl Relay {
    /// Starts one that serves no hostname yet. It writes the certificate authority to trust into a file.
    fn start(doubles: &Path, authority: PathBuf) -> Result<Self> {
        let file = authority.to_str().context("the path is not UTF-8")?;
        let double = Double::start(doubles, &["relay", "--host", "localhost", "--ca", file])?;
        Ok(Self { authority, double })
    }

    /// Lets it serve these hostnames, each by one tunnel.
    fn serve(&self, hostnames: &[&str]) -> Result<()> {
        let leases: Map<_, _> = hostnames
            .iter()
            .map(|name| ((*name).to_owned(), json!(1)))
            .collect();
        let body = json!({ "leases": leases }).to_string();
        match send(self.double.control, "PUT /behaviour", "", &body)? {
            (200, _) => Ok(()),
            (_, refusal) => bail!("the relay refuses: {refusal}"),
        }
    }
}

impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "localhost:{}", self.double.address.port())
    }
}

/// Writes the authorities of relays into one file, and returns its name.
fn trust(relays: &[&Relay], file: &Path) -> Result<String> {
    let mut all = String::new();
    for relay in relays {
        all += &fs::read_to_string(&relay.authority)?;
    }
    fs::write(file, all)?;
    Ok(file.to_str().context("the path is not UTF-8")?.to_owned())
}
