//! A Cluster from a real Infrastructure Manager, whose Dummy cloud creates no machines: it comes, grows, breaks, is repaired and goes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use podloom_im::{BootMode, LOGS, Launch};
use serde_json::{Value, json};

use super::operator::{Operator, free_address, send};
use super::{Built, Cluster, Live, screen};
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
    let begun = Instant::now();
    let im = Im::start(&run::target("demo/infrastructure")?)?;
    screen::step(
        begun.elapsed(),
        "the Infrastructure Manager runs on this machine",
    );
    cluster.install("crds/infrastructure")?;
    cluster.apply(&namespace())?;
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
    let operator = Operator::start(
        built,
        live.volume.path(),
        cluster,
        ("infrastructure.log", &more),
    )?;
    cluster.apply(&account(&im))?;
    let (kind, _) = CLUSTER.split_once('/').unwrap_or_default();
    screen::line(&format!("$ kubectl get {kind} --watch"));
    let mut watch = cluster.kubectl_in(NAMESPACE);
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
        self.cluster.apply(&manifest(&kubeconfig))?;
        self.pass(&[&["PENDING"]])?;
        screen::line("it has no cloud yet, so nothing is created; now it gets one:");
        let cloud = json!({ "kind": "Cloud", "name": CLOUD });
        let begun = Instant::now();
        self.patch(&json!({ "cloudRef": cloud }))?;
        self.pass(&[&["CREATING"], &["CONNECTING"], &["ONLINE"]])?;
        let [machines, _] = MACHINES;
        let id = self.only_one(machines)?;
        screen::step(
            begun.elapsed(),
            "its machines are configured, and its API server answers",
        );
        screen::line(&format!("$ kubectl get {SECRET}"));
        run::succeed(self.cluster.kubectl_in(NAMESPACE).args(["get", SECRET]))?;
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
        screen::step(
            begun.elapsed(),
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
        screen::step(begun.elapsed(), "they were started again");
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
        screen::step(begun.elapsed(), &what);
        Ok(())
    }

    /// Deletes the Cluster, and then what it needed.
    fn delete(&self) -> Result<()> {
        let begun = Instant::now();
        run::succeed(
            self.cluster
                .kubectl_in(NAMESPACE)
                .args(["delete", CLUSTER, "--wait=false"]),
        )?;
        self.pass(&[&["DELETING"]])?;
        for gone in [CLUSTER, SECRET] {
            let wait = ["wait", "--for=delete", gone, "--timeout=60s"];
            run::succeed(self.cluster.kubectl_in(NAMESPACE).args(wait))
                .inspect_err(|_| self.operator.print_log())?;
        }
        let left = self.im.list()?;
        if !left.is_empty() {
            bail!(
                "the Cluster is gone, but IM still has {}",
                left.join(" and ")
            );
        }
        screen::step(
            begun.elapsed(),
            "the Cluster and its Secret are gone, and nothing is left at the Infrastructure Manager",
        );
        // While the operator runs: it lets them go when no Cluster needs them.
        let cloud = format!("clouds.infrastructure.podloom.dev/{CLOUD}");
        let provider = "infrastructureproviders.infrastructure.podloom.dev/im";
        let delete = ["delete", &cloud, provider, "secret/im", "--timeout=60s"];
        run::succeed(self.cluster.kubectl_in(NAMESPACE).args(delete))
            .inspect_err(|_| self.operator.print_log())?;
        self.cluster.delete_namespace(NAMESPACE)
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
            let _shown = run::succeed(
                self.cluster
                    .kubectl_in(NAMESPACE)
                    .args(["get", CLUSTER, CONDITIONS]),
            );
        }
        passed
    }

    /// Changes the spec of the Cluster.
    fn patch(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        screen::line(&format!(
            "$ kubectl patch {CLUSTER} --type=merge --patch='{patch}'"
        ));
        run::succeed(self.cluster.kubectl_in(NAMESPACE).args([
            "patch",
            CLUSTER,
            "--type=merge",
            "--patch",
            &patch,
        ]))
    }
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
    let token = run::output(
        cluster
            .kubectl_in(NAMESPACE)
            .args(["create", "token", VISITOR]),
    )?;
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
    let (url, username, password) = (im.url(), USERNAME, PASSWORD);
    let (cloud, kind) = (CLOUD, CLOUD_TYPE);
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

/// How long the server may take to start.
const START: Duration = Duration::from_mins(1);
/// The account. The server accepts every pair of username and password, and each pair owns infrastructures of its own.
const USERNAME: &str = "demo";
const PASSWORD: &str = "only-for-the-demo";
/// The name of the Cloud. The operator makes its id at IM of it.
const CLOUD: &str = "local";
/// The type of a cloud that creates no machines.
const CLOUD_TYPE: &str = "Dummy";

/// A running server; dropping this kills it.
struct Im {
    address: SocketAddr,
    folder: PathBuf,
    child: Child,
}

impl Im {
    /// Starts it without infrastructures, and waits until it answers. Its data and its logs are in this folder.
    fn start(folder: &Path) -> Result<Self> {
        let python = podloom_im::python()?;
        // What an earlier demo left there.
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let address = free_address()?;
        let launch = Launch {
            python: &python,
            folder,
            port: address.port(),
            boot_mode: BootMode::Normal,
            users: None,
        };
        let child = launch.command()?.spawn();
        let mut im = Self {
            address,
            folder: folder.to_owned(),
            child: child.with_context(|| python.display().to_string())?,
        };
        im.until_ready()?;
        Ok(im)
    }

    fn until_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START {
            if let Some(status) = self.child.try_wait()? {
                bail!("the IM server ended ({status}); {}", self.logs());
            }
            // It fails until it listens.
            if send(self.address, "GET /version", "", "").is_ok_and(|it| it.0 == 200) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!(
            "the IM server does not answer after {} s; {}",
            START.as_secs(),
            self.logs()
        )
    }

    fn logs(&self) -> String {
        let logs = LOGS.map(|name| self.folder.join(name).display().to_string());
        format!("its logs are {}", logs.join(" and "))
    }

    /// Its URL.
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The ids of all infrastructures of the account.
    fn list(&self) -> Result<Vec<String>> {
        let list = self.read("/infrastructures", "/uri-list")?;
        let list = list.as_array().context("IM lists no infrastructures")?;
        let id = |item: &Value| Some(item.get("uri")?.as_str()?.rsplit('/').next()?.to_owned());
        list.iter()
            .map(|item| id(item).with_context(|| format!("{item} is no infrastructure")))
            .collect()
    }

    /// The states of the machines of an infrastructure, if all of it is configured.
    fn configured(&self, id: &str) -> Result<usize> {
        let path = format!("/infrastructures/{id}/state");
        let state = self.read(&path, "/state")?;
        let word = |value: Option<&Value>| value.and_then(Value::as_str) == Some("configured");
        let machines = state.get("vm_states").and_then(Value::as_object);
        let machines = machines.with_context(|| format!("{path}: {state}"))?;
        let all = word(state.get("state")) && machines.values().all(|it| word(Some(it)));
        Ok(if all { machines.len() } else { 0 })
    }

    /// Stops the machines of an infrastructure.
    fn stop(&self, id: &str) -> Result<()> {
        self.ask(&format!("PUT /infrastructures/{id}/stop"))
            .map(drop)
    }

    /// Deletes an infrastructure.
    fn delete(&self, id: &str) -> Result<()> {
        self.ask(&format!("DELETE /infrastructures/{id}")).map(drop)
    }

    /// A part of what a path answers.
    fn read(&self, path: &str, part: &str) -> Result<Value> {
        let body = self.ask(&format!("GET {path}"))?;
        let answer: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        let found = answer.pointer(part).cloned();
        found.with_context(|| format!("{path}: there is no {part} in {body}"))
    }

    /// Sends a request as the owner, and returns the body of the answer.
    fn ask(&self, request: &str) -> Result<String> {
        let owner = json!({ "id": "im", "type": "InfrastructureManager", "username": USERNAME, "password": PASSWORD });
        let cloud = json!({ "id": format!("cloud-{CLOUD}"), "type": CLOUD_TYPE });
        let headers = format!(
            "Authorization: {}\r\nAccept: application/json\r\nContent-Type: text/plain\r\n",
            json!([owner, cloud])
        );
        let (status, body) = send(self.address, request, &headers, "")?;
        if status != 200 {
            bail!("IM answers {status} to {request}: {body}");
        }
        Ok(body)
    }
}

impl Drop for Im {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
    }
}

/// How long the Cluster may take from one state to the next.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the operator is looked at while no row comes.
const LOOK: Duration = Duration::from_millis(100);

/// A running `kubectl get --watch`; dropping this kills it.
struct Rows {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Rows {
    /// Starts it.
    fn watch(mut kubectl: Command) -> Result<Self> {
        let mut child = kubectl.arg("--watch").stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("its output is piped")?;
        let (sender, lines) = mpsc::channel();
        Ok(Self {
            child,
            lines,
            reader: Some(thread::spawn(move || read(output, &sender))),
        })
    }

    /// Shows rows until the Cluster had these states, in this order. It may have other states in between.
    fn pass(&self, operator: &Operator, states: &[State]) -> Result<()> {
        for state in states {
            let begun = Instant::now();
            loop {
                operator.check_alive()?;
                match self.lines.recv_timeout(LOOK) {
                    Ok(row) => {
                        screen::line(&row);
                        if state.contains(&of(&row)) {
                            break;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => bail!("kubectl get --watch has ended"),
                }
                if begun.elapsed() > PATIENCE {
                    operator.print_log();
                    bail!(
                        "the Cluster is not {} after {} s",
                        state.join(" or "),
                        PATIENCE.as_secs()
                    );
                }
            }
        }
        Ok(())
    }
}

/// A state, or several of which any will do.
type State = &'static [&'static str];

/// The second column. A Cluster that has no state yet has another column there.
fn of(row: &str) -> &str {
    row.split_whitespace().nth(1).unwrap_or_default()
}

fn read(output: ChildStdout, rows: &Sender<String>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for line in lines {
        if rows.send(line).is_err() {
            return;
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
        // It ends with its input.
        let _panicked = self.reader.take().map(JoinHandle::join);
    }
}
