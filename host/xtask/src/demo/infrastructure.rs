//! A Cluster from a real Infrastructure Manager, whose Dummy cloud creates no machines: it comes, grows, breaks, is repaired and goes.

mod im;
mod rows;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::im::Im;
use self::rows::{Rows, State};
use super::operator::Operator;
use super::{Built, Cluster, Live, browsers, screen};
use crate::run;

/// The namespace of the scene.
const NAMESPACE: &str = "infrastructure-demo";
/// The Cluster. Its kind has a long name, since other operators have Clusters too.
const CLUSTER: &str = "clusters.infrastructure.podloom.dev/pool";
/// The Secret with its kubeconfig.
const SECRET: &str = "secret/pool-kubeconfig";
/// The account that the kubeconfig of the new cluster is for.
const VISITOR: &str = "visitor";
/// How many machines the pool has at first, and later.
const MACHINES: [usize; 2] = [2, 4];
/// The option of `kubectl get` that prints the conditions with their messages.
const CONDITIONS: &str = r#"--output=jsonpath={range .status.conditions[*]}{.type}={.status}/{.reason}: {.message}{"\n"}{end}"#;
/// What a repair shows. What is gone is created again. If its state was read while IM deleted it, IM keeps an infrastructure without
/// machines, which is failing until they are added again.
const REPAIRED: [State; 2] = [
    &["CREATING", "RECONCILING", "FAILING_RECONCILIATION"],
    &["ONLINE"],
];

/// Everything that the scene works with.
struct Site<'a> {
    cluster: &'a Cluster,
    operator: &'a Operator,
    im: &'a Im,
    rows: &'a Rows,
}

/// Installs IM, lets the operator make a Cluster there, and breaks its machines.
pub(super) fn show(built: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    let target = run::workspace()?.target_directory.into_std_path_buf();
    let begun = Instant::now();
    let im = Im::start(&target.join("demo/infrastructure"))?;
    step(begun, "the Infrastructure Manager runs on this machine");
    let crds = run::root().join("crds/infrastructure");
    run::succeed(cluster.kubectl().arg("apply").arg("-k").arg(crds))?;
    browsers::apply(cluster, &namespace())?;
    let more = [
        "--controllers",
        "infrastructure",
        "--namespace",
        NAMESPACE,
        "--global-secret-namespace",
        NAMESPACE,
        "--im-allow-cidr",
        "127.0.0.0/8",
        "--drift-interval",
        "2s",
        // How long what has vanished must stay so before it is created again.
        "--im-settle",
        "2s",
    ];
    let operator = Operator::start_with(
        &built.binary,
        live.volume.path(),
        &cluster.kubeconfig,
        ("infrastructure.log", &more),
    )?;
    browsers::apply(cluster, &account(&im))?;
    let (kind, _) = CLUSTER.split_once('/').unwrap_or_default();
    screen::line(&format!("$ kubectl get {kind} --watch"));
    let mut watch = kubectl(cluster);
    watch.args(["get", kind]);
    let rows = Rows::watch(watch)?;
    let site = Site {
        cluster,
        operator: &operator,
        im: &im,
        rows: &rows,
    };
    let id = site.create()?;
    site.grow(&id)?;
    site.stop_machines(&id)?;
    site.lose_machines(&id)?;
    site.delete()
}

impl Site<'_> {
    /// Creates the Cluster, first without a cloud. Returns the id of its infrastructure.
    fn create(&self) -> Result<String> {
        let kubeconfig = kubeconfig(self.cluster)?;
        browsers::apply(self.cluster, &manifest(&kubeconfig))?;
        self.pass(&[&["PENDING"]])?;
        screen::line("it has no cloud yet, so nothing is created; now it gets one:");
        let cloud = json!({ "kind": "Cloud", "name": im::CLOUD });
        let begun = Instant::now();
        self.patch(&json!({ "cloudRef": cloud }))?;
        self.pass(&[&["CREATING"], &["CONNECTING"], &["ONLINE"]])?;
        let [machines, _] = MACHINES;
        let id = self.only_one(machines)?;
        step(
            begun,
            "its machines are configured, and its API server answers",
        );
        screen::line(&format!("$ kubectl get {SECRET}"));
        run::succeed(kubectl(self.cluster).args(["get", SECRET]))?;
        Ok(id)
    }

    /// Changes the number of machines in the template.
    fn grow(&self, id: &str) -> Result<()> {
        let [_, machines] = MACHINES;
        let properties = json!({ "max_instances": machines, "default_instances": machines });
        let pool = json!({ "capabilities": { "scalable": { "properties": properties } } });
        let begun = Instant::now();
        let topology = json!({ "node_templates": { "pool": pool } });
        self.patch(&json!({ "tosca": { "topology_template": topology } }))?;
        self.pass(&[&["RECONCILING"], &["ONLINE"]])?;
        if self.only_one(machines)? != id {
            bail!("the pool grew, but it is another infrastructure");
        }
        step(
            begun,
            "the pool has grown, and is the same infrastructure as before",
        );
        Ok(())
    }

    /// Stops the machines without the operator's knowledge.
    fn stop_machines(&self, id: &str) -> Result<()> {
        screen::line("somebody stops all machines at the Infrastructure Manager:");
        let begun = Instant::now();
        self.im.stop(id)?;
        self.pass(&REPAIRED)?;
        let [_, machines] = MACHINES;
        if self.only_one(machines)? != id {
            bail!("the machines were stopped, but it is another infrastructure");
        }
        step(begun, "they were started again");
        Ok(())
    }

    /// Deletes the infrastructure without the operator's knowledge.
    fn lose_machines(&self, id: &str) -> Result<()> {
        screen::line("somebody deletes all of it at the Infrastructure Manager:");
        let begun = Instant::now();
        self.im.delete(id)?;
        self.pass(&REPAIRED)?;
        let [_, machines] = MACHINES;
        let now = self.only_one(machines)?;
        let what = match now == id {
            true => {
                "the machines were added again, since IM still knew the infrastructure".to_owned()
            }
            false => format!("the machines were created again: {id} is now {now}"),
        };
        step(begun, &what);
        Ok(())
    }

    /// Deletes the Cluster, and then what it needed.
    fn delete(&self) -> Result<()> {
        let begun = Instant::now();
        run::succeed(kubectl(self.cluster).args(["delete", CLUSTER, "--wait=false"]))?;
        self.pass(&[&["DELETING"]])?;
        for gone in [CLUSTER, SECRET] {
            let wait = ["wait", "--for=delete", gone, "--timeout=60s"];
            run::succeed(kubectl(self.cluster).args(wait))
                .inspect_err(|_| self.operator.print_log())?;
        }
        let left = self.im.list()?;
        if !left.is_empty() {
            bail!(
                "the Cluster is gone, but IM still has {}",
                left.join(" and ")
            );
        }
        step(
            begun,
            "the Cluster and its Secret are gone, and nothing is left at the Infrastructure Manager",
        );
        // While the operator runs: it lets them go when no Cluster needs them.
        let cloud = format!("clouds.infrastructure.podloom.dev/{}", im::CLOUD);
        let provider = "infrastructureproviders.infrastructure.podloom.dev/im";
        let delete = ["delete", &cloud, provider, "secret/im", "--timeout=60s"];
        run::succeed(kubectl(self.cluster).args(delete))
            .inspect_err(|_| self.operator.print_log())?;
        let delete = ["delete", "namespace", NAMESPACE, "--wait=false"];
        run::succeed(self.cluster.kubectl().args(delete))
    }

    /// Waits until the account has one infrastructure, with this many machines that are all configured. Returns its id.
    fn only_one(&self, machines: usize) -> Result<String> {
        let found = || -> Result<Option<String>> {
            Ok(match self.im.list()?.as_slice() {
                [id] => (self.im.configured(id)? == machines).then(|| id.clone()),
                _ => None,
            })
        };
        self.operator
            .until(|| Ok(found()?.is_some()))
            .with_context(|| {
                format!("IM has no infrastructure with {machines} configured machines")
            })?;
        found()?.context("the infrastructure has changed again")
    }

    /// Shows rows until the Cluster had these states; if it does not get there, shows why.
    fn pass(&self, states: &[State]) -> Result<()> {
        let passed = self.rows.pass(self.operator, states);
        if passed.is_err() {
            // The error of the pass counts, whether kubectl works or not.
            let _shown = run::succeed(kubectl(self.cluster).args(["get", CLUSTER, CONDITIONS]));
        }
        passed
    }

    /// Changes the spec of the Cluster.
    fn patch(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        screen::line(&format!(
            "$ kubectl patch {CLUSTER} --type=merge --patch='{patch}'"
        ));
        run::succeed(kubectl(self.cluster).args([
            "patch",
            CLUSTER,
            "--type=merge",
            "--patch",
            &patch,
        ]))
    }
}

fn step(begun: Instant, text: &str) {
    screen::step(begun.elapsed().as_millis(), text);
}

fn kubectl(cluster: &Cluster) -> Command {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["--namespace", NAMESPACE]);
    kubectl
}

/// A kubeconfig of the demo's own API server, which stands for that of the new cluster.
fn kubeconfig(cluster: &Cluster) -> Result<String> {
    let view = [
        "config",
        "view",
        "--minify",
        "--flatten",
        "--raw",
        "--output=json",
    ];
    let view: Value = serde_json::from_str(&run::output(cluster.kubectl().args(view))?)?;
    let server = view.pointer("/clusters/0/cluster");
    let mut server = server.context("the kubeconfig names no cluster")?.clone();
    if cluster.plane.is_some() {
        // Its file of authorities has the server's own certificate too, and the operator refuses to trust that as an authority.
        server = json!({ "server": server.get("server"), "insecure-skip-tls-verify": true });
    }
    let token = run::output(kubectl(cluster).args(["create", "token", VISITOR]))?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pool",
        "clusters": [{ "name": "pool", "cluster": server }],
        "users": [{ "name": VISITOR, "user": { "token": token.trim() } }],
        "contexts": [{ "name": "pool", "context": { "cluster": "pool", "user": VISITOR } }],
    });
    Ok(kubeconfig.to_string())
}

fn namespace() -> String {
    format!(
        "\
apiVersion: v1
kind: Namespace
metadata: {{ name: {NAMESPACE} }}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{ name: {VISITOR}, namespace: {NAMESPACE} }}
"
    )
}

/// The account at IM, and the cloud.
fn account(im: &Im) -> String {
    let (url, username, password) = (im.url(), im::USERNAME, im::PASSWORD);
    let (cloud, kind) = (im::CLOUD, im::CLOUD_TYPE);
    format!(
        "\
apiVersion: v1
kind: Secret
metadata: {{ name: im, namespace: {NAMESPACE} }}
stringData: {{ password: {password} }}
---
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: InfrastructureProvider
metadata: {{ name: im, namespace: {NAMESPACE} }}
spec:
  im:
    url: {url}
    basic: {{ username: {username}, passwordSecretRef: {{ name: im }} }}
---
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: Cloud
metadata: {{ name: {cloud}, namespace: {NAMESPACE} }}
spec:
  providerRef: {{ kind: InfrastructureProvider, name: im }}
  generic: {{ type: {kind} }}
"
    )
}

/// The Cluster, without a cloud. A template that configures machines would get the kubeconfig from one of them.
fn manifest(kubeconfig: &str) -> String {
    let [machines, _] = MACHINES;
    // A JSON text is a YAML text.
    let kubeconfig = json!(kubeconfig);
    format!(
        "\
apiVersion: infrastructure.podloom.dev/v1alpha1
kind: Cluster
metadata: {{ name: pool, namespace: {NAMESPACE} }}
spec:
  pollIntervalSeconds: 1
  tosca:
    tosca_definitions_version: tosca_simple_yaml_1_0
    topology_template:
      node_templates:
        pool:
          type: tosca.nodes.Compute
          capabilities:
            scalable:
              properties: {{ min_instances: 1, max_instances: {machines}, default_instances: {machines} }}
            host:
              properties: {{ num_cpus: 1, mem_size: 1 GB }}
            os:
              properties: {{ type: linux, distribution: debian, version: 12 }}
      outputs:
        kubeconfig: {{ value: {kubeconfig} }}
"
    )
}
