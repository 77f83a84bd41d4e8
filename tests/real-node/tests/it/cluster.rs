//! The node that all tests share, and how tests use it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use podloom_real_node::{Node, Programs, stand_in};
use serde_json::Value;

/// How long to wait for something that takes seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The image of tunnels whose class names none.
const TUNNEL: &str = "ghcr.io/gosuda/portal-tunnel:2.4.3";

/// The namespace of the operator.
pub(crate) const SYSTEM: &str = "podloom-system";

/// Whether the tests run; they say so if not.
pub(crate) fn is_enabled() -> bool {
    let is_enabled = std::env::var_os("PODLOOM_REAL_NODE").is_some_and(|value| value == "1");
    if !is_enabled {
        eprintln!("skipped: PODLOOM_REAL_NODE=1 runs it, as root");
    }
    is_enabled
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap()
}

/// A path that the environment names.
pub(crate) fn named(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable).map(PathBuf::from);
    value.unwrap_or_else(|| panic!("set {variable}; `cargo xtask test` does"))
}

/// Waits for this test's turn: one test at a time, since they share two cores and what is installed on the node.
///
/// Fails if an earlier test failed: nobody knows then what it left.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    turn.unwrap_or_else(|_| panic!("not run, since an earlier test failed"))
}

/// The shared node, held by one test at a time.
pub(crate) struct Cluster {
    pub(crate) node: &'static Node,
    _turn: MutexGuard<'static, ()>,
}

/// The shared node, with the operator's image and stand-ins for all others; nothing is installed.
///
/// Nothing is returned if the tests are not enabled.
pub(crate) fn cluster() -> Option<Cluster> {
    // A static is never dropped, so the node ends with the process.
    static NODE: OnceLock<Node> = OnceLock::new();
    if !is_enabled() {
        return None;
    }
    let turn = turn();
    let node = NODE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let images = directory.path().join("images.tar");
        stand_in::write(&Programs::find().unwrap(), &stand_ins(), &images).unwrap();
        Node::start(&[&named("PODLOOM_IMAGE"), &images]).unwrap()
    });
    let cluster = Cluster { node, _turn: turn };
    cluster.uninstall();
    Some(cluster)
}

/// Every image that the examples and the standard chain name, and that of the tests.
fn stand_ins() -> Vec<String> {
    let examples = fs::read_dir(root().join("deploy/examples")).unwrap();
    let mut files: Vec<PathBuf> = examples.map(|entry| entry.unwrap().path()).collect();
    files.push(root().join("plugins/chain.yaml"));
    files.retain(|file| file.is_file());
    let mut names = stand_in::named_in(&files).unwrap();
    names.push(crate::sessions::IMAGE.to_owned());
    names.push(TUNNEL.to_owned());
    names
}

impl Cluster {
    /// What kubectl prints, or its error.
    pub(crate) fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        // Without a limit, `kubectl delete` waits for a week.
        let mut kubectl = self.node.in_network(Path::new("timeout"));
        let output = kubectl
            .arg("180")
            .arg(&self.node.programs().control_plane.kubectl)
            .args(arguments)
            .current_dir(root())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        match self.try_kubectl(arguments) {
            Ok(output) => output,
            Err(error) => panic!("kubectl {}: {error}", arguments.join(" ")),
        }
    }

    /// An object or a list as JSON.
    #[track_caller]
    pub(crate) fn get(&self, arguments: &[&str]) -> Value {
        let arguments = [&["get", "--output=json"], arguments].concat();
        serde_json::from_str(&self.kubectl(&arguments)).unwrap()
    }

    /// Runs a line of a shell as a user does: in the repository, with kubectl and podloom on PATH.
    #[track_caller]
    pub(crate) fn shell(&self, line: &str) {
        self.shell_with(line, &[]);
    }

    /// The same, with helm on PATH too, and returns what it prints.
    #[track_caller]
    pub(crate) fn helm(&self, line: &str) -> String {
        let helm = podloom_control_plane::helm().unwrap();
        self.shell_with(line, &[("helm", &helm)])
    }

    #[track_caller]
    fn shell_with(&self, line: &str, more: &[(&str, &Path)]) -> String {
        let programs = tempfile::tempdir().unwrap();
        let kubectl = &self.node.programs().control_plane.kubectl;
        let podloom = named("PODLOOM_BLACKBOX_BINARY");
        let all = [("kubectl", kubectl.as_path()), ("podloom", &podloom)];
        for (name, program) in all.iter().chain(more) {
            symlink(program, programs.path().join(name)).unwrap();
        }
        let path = format!(
            "{}:{}",
            programs.path().display(),
            std::env::var("PATH").unwrap()
        );
        let mut shell = self.node.in_network(Path::new("timeout"));
        shell.args(["180", "bash", "-euo", "pipefail", "-c", line]);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            shell.env(home, programs.path().join(home));
        }
        let output = shell
            .env("PATH", path)
            .current_dir(root())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            panic!("{line}: {errors}{}", self.state());
        }
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a program inside the node, and returns what it prints.
    #[track_caller]
    pub(crate) fn inside(&self, words: &[&str]) -> String {
        let (program, arguments) = words.split_first().unwrap();
        let mut command = self.node.inside(Path::new(program));
        let output = command.args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", words.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asks until the answer is there; fails with the last reason after two minutes.
    #[track_caller]
    pub(crate) fn eventually<T>(
        &self,
        what: &str,
        mut ask: impl FnMut() -> Result<T, String>,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask() {
                Ok(answer) => return answer,
                Err(reason) if Instant::now() > deadline => {
                    panic!("not after two minutes: {what}: {reason}\n{}", self.state())
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// What a failed test shows: the pods, the latest Events, and the logs of the operator and the webhooks.
    fn state(&self) -> String {
        self.node.keep_logs();
        self.node.check_alive().unwrap();
        let selector = "--selector=app.kubernetes.io/part-of=podloom";
        let show = |arguments: &[&str]| match self.try_kubectl(arguments) {
            Ok(text) | Err(text) => text,
        };
        [
            show(&["get", "pods,browsers", "--all-namespaces", "--output=wide"]),
            show(&["events", "--all-namespaces"]),
            show(&[
                "logs",
                "--namespace",
                SYSTEM,
                selector,
                "--tail=20",
                "--prefix",
            ]),
        ]
        .join("\n")
    }

    /// Installs the operator from a directory of manifests, and waits until all replicas are ready.
    #[track_caller]
    pub(crate) fn install(&self, directory: &Path) {
        self.kubectl(&["apply", "--kustomize", directory.to_str().unwrap()]);
        self.until_rolled_out();
    }

    #[track_caller]
    pub(crate) fn until_rolled_out(&self) {
        self.shell(
            "kubectl rollout status deployment/podloom --namespace podloom-system --timeout 150s",
        );
        self.eventually("as many pods as replicas", || {
            match self.operators().len() {
                2 => Ok(()),
                other => Err(format!("{other} pods")),
            }
        });
        // An old replica leads on until its kubelet tells it to stop.
        self.eventually("one of them leads", || self.leader());
    }

    /// The operator's pods that are not being deleted, sorted by name.
    #[track_caller]
    pub(crate) fn operators(&self) -> Vec<Value> {
        let selector = "--selector=app.kubernetes.io/name=podloom";
        let mut list = self.get(&["pods", "--namespace", SYSTEM, selector]);
        let mut pods: Vec<Value> = list["items"].as_array_mut().unwrap().drain(..).collect();
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// The name of the pod that holds the Lease.
    pub(crate) fn leader(&self) -> Result<String, String> {
        let template = "--output=jsonpath={.spec.holderIdentity}";
        let holder =
            self.try_kubectl(&["get", "lease", "podloom", "--namespace", SYSTEM, template])?;
        let pods = self.operators();
        let names = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["name"].as_str());
        let leader = names.into_iter().find(|name| holder.starts_with(name));
        leader
            .map(str::to_owned)
            .ok_or_else(|| format!("the Lease is held by {holder:?}"))
    }

    /// The answer of a replica's HTTP server, through the API server.
    pub(crate) fn ask(&self, pod: &str, path: &str) -> Result<String, String> {
        let url = format!("/api/v1/namespaces/{SYSTEM}/pods/{pod}:8080/proxy{path}");
        self.try_kubectl(&["get", "--raw", &url])
    }

    /// The process of a pod's container, as its id inside the node.
    #[track_caller]
    pub(crate) fn process(&self, pod: &Value) -> String {
        let id = pod["status"]["containerStatuses"][0]["containerID"]
            .as_str()
            .unwrap();
        let id = id.strip_prefix("containerd://").unwrap();
        let output = self.node.ctr().args(["tasks", "list"]).output().unwrap();
        let tasks = String::from_utf8(output.stdout).unwrap();
        let task = tasks.lines().find(|line| line.starts_with(id)).unwrap();
        task.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// Removes sessions, the operator and its kinds, in the order of the guide, if anything is there.
    fn uninstall(&self) {
        let is_there = |kind: &str, name: &str| self.try_kubectl(&["get", kind, name]).is_ok();
        if is_there("namespace", SYSTEM) && is_there("crd", "browsers.selenosis.io") {
            for line in crate::guide::uninstall() {
                self.shell(&line);
            }
        }
        for namespace in [crate::sessions::NAMESPACE, "shop-tests"] {
            self.kubectl(&["delete", "namespace", namespace, "--ignore-not-found"]);
        }
    }
}
