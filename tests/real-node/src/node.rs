//! Starts and stops a node with its control plane.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use podloom_control_plane::{
    Kubeconfig, PATIENCE, output, signing_key, token, until, write_secret,
};

use crate::commands::{self, FILES, Line, NODE, SERVER};
use crate::configuration::{self, NETWORKS, SANDBOX};
use crate::error::NodeError;
use crate::keeper::Keeper;
use crate::programs::Programs;
use crate::{leftovers, possible, stand_in};

/// The users of the API server: the name of the kubeconfig, the user's name, and the user's group.
const USERS: [(&str, &str, &str); 4] = [
    ("admin", "admin", "system:masters"),
    ("controllers", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("node", "system:node:real-0", "system:nodes"),
];

/// A running node with its control plane.
///
/// It ends when this value is dropped or the process ends, even by SIGKILL: then its processes, mounts, network, cgroups and files
/// are removed. If this process and its keeper are both killed, files and cgroups stay until the next node starts.
/// The logs are kept if the start failed or [`Node::keep_logs`] was called; standard error says where they are.
pub struct Node {
    programs: Programs,
    keeper: Keeper,
    // After the keeper: they end with the namespaces.
    children: Children,
}

/// The node's programs. Each is an `nsenter` that waits for the program inside.
#[derive(Default)]
struct Children(Mutex<Vec<(&'static str, Child)>>);

impl Children {
    fn list(&self) -> MutexGuard<'_, Vec<(&'static str, Child)>> {
        // A panic cannot leave the list in a bad state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in self.list().iter_mut() {
            let _already_ended = child.kill();
            let _already_ended = child.wait();
        }
    }
}

impl Node {
    /// Starts a node, and returns when it is ready for pods. `images` are archives that it loads.
    ///
    /// # Errors
    ///
    /// Fails if this machine cannot run a node, or if a program is missing and cannot be built, or does not become ready.
    pub fn start(images: &[&Path]) -> Result<Self, NodeError> {
        possible::check()?;
        let programs = Programs::find()?;
        leftovers::remove(&std::env::temp_dir());
        let node = Self {
            programs,
            keeper: Keeper::start()?,
            children: Children::default(),
        };
        let started = node.start_programs(images);
        started.inspect_err(|_| node.keep_logs())?;
        Ok(node)
    }

    fn start_programs(&self, images: &[&Path]) -> Result<(), NodeError> {
        let programs = &self.programs;
        let tokens = self.configure()?;
        self.spawn(&commands::containerd(programs))?;
        self.spawn(&commands::etcd(programs))?;
        // It waits for etcd by itself.
        self.spawn(&commands::api_server(programs))?;
        self.until("containerd", || {
            Ok(output(self.ctr().arg("version")).is_ok())
        })?;
        let sandbox = self.file("sandbox.tar");
        stand_in::write(programs, &[SANDBOX.to_owned()], &sandbox)?;
        for archive in images.iter().copied().chain([sandbox.as_path()]) {
            self.load(archive)?;
        }
        self.write_kubeconfigs(&tokens)?;
        self.until("the API server", || {
            let ready =
                output(
                    self.kubectl()
                        .args(["get", "--raw", "/readyz", "--request-timeout=5s"]),
                );
            Ok(ready.is_ok())
        })?;
        self.spawn(&commands::controller_manager(programs))?;
        self.spawn(&commands::scheduler(programs))?;
        self.spawn(&commands::kubelet(programs))?;
        self.until("the Node", || {
            // A new Node is tainted until the controllers have seen that it is ready.
            let template =
                "--output=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}{.spec.taints}";
            let mut kubectl = self.kubectl();
            let answer =
                output(kubectl.args(["get", "node", NODE, template, "--request-timeout=5s"]));
            Ok(answer.is_ok_and(|answer| answer == "True"))
        })
    }

    /// Writes the files of all programs, and returns the users' tokens.
    fn configure(&self) -> Result<Vec<String>, NodeError> {
        let random = |source| NodeError::File {
            path: PathBuf::from("/dev/urandom"),
            source,
        };
        let mut users = String::new();
        let mut tokens = Vec::new();
        for (_, user, group) in USERS {
            let token = token().map_err(random)?;
            users += &format!("{token},{user},{user},\"{group}\"\n");
            tokens.push(token);
        }
        let networks = self.outside(NETWORKS);
        fs::create_dir_all(&networks).map_err(|source| NodeError::File {
            path: networks.clone(),
            source,
        })?;
        for (path, text) in [
            (self.file("tokens.csv"), users.as_str()),
            (
                self.file("service-accounts.pem"),
                &signing_key().map_err(random)?,
            ),
            (self.file("kubelet.yaml"), configuration::KUBELET),
            (
                self.file("containerd.toml"),
                &configuration::containerd(&self.programs.directory),
            ),
            (networks.join("pods.conflist"), configuration::NETWORK),
        ] {
            write_secret(&path, text).map_err(|source| NodeError::File { path, source })?;
        }
        Ok(tokens)
    }

    /// Waits for the certificate that the API server makes at its start, and writes a kubeconfig for each user.
    fn write_kubeconfigs(&self, tokens: &[String]) -> Result<(), NodeError> {
        let certificate = self.file("certificates/apiserver.crt");
        self.until("the API server's certificate", || {
            // The key is written after the certificate, so the certificate is complete.
            Ok(certificate.with_extension("key").exists())
        })?;
        let certificate_authority = fs::read(&certificate).map_err(|source| NodeError::File {
            path: certificate.clone(),
            source,
        })?;
        for ((name, user, _), token) in USERS.into_iter().zip(tokens) {
            let kubeconfig = Kubeconfig {
                server: SERVER,
                certificate_authority: &certificate_authority,
                user,
                token,
            };
            kubeconfig.write(&self.file(&format!("{name}.kubeconfig")))?;
        }
        Ok(())
    }

    /// Loads the images of an archive into containerd.
    ///
    /// # Errors
    ///
    /// Fails if containerd does not take the archive; the message has its reason.
    pub fn load(&self, archive: &Path) -> Result<(), NodeError> {
        // The node may not see the directory of the archive, so the archive is its standard input.
        let input = File::open(archive).map_err(|source| NodeError::File {
            path: archive.to_owned(),
            source,
        })?;
        output(self.ctr().args(["images", "import", "-"]).stdin(input))?;
        Ok(())
    }

    /// containerd's client, for the images and containers of Kubernetes.
    #[must_use]
    pub fn ctr(&self) -> Command {
        let mut ctr = self.inside(&self.programs.directory.join("ctr"));
        ctr.args(["--namespace", "k8s.io"]);
        ctr
    }

    /// kubectl as administrator, without anything of the user's own configuration. It sees the files of this machine.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        self.in_network(&self.programs.control_plane.kubectl)
    }

    /// A program in the node's network, with kubectl's configuration in its environment. It sees the files of this machine.
    #[must_use]
    pub fn in_network(&self, program: &Path) -> Command {
        let mut command = self.keeper.in_network(program);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.file("kubectl"))
            .env("KUBERC", "off");
        command
    }

    /// A program inside all namespaces and cgroups of the node: it sees the node's processes, and its own /var and /run.
    #[must_use]
    pub fn inside(&self, program: &Path) -> Command {
        self.keeper.inside(program)
    }

    /// The administrator's kubeconfig; its server is in the node's network.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.file("admin.kubeconfig")
    }

    /// Where its programs are.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Where a file of the node's /var is, as seen from this machine.
    #[must_use]
    pub fn outside(&self, path: &str) -> PathBuf {
        self.keeper.directory.join(path.trim_start_matches('/'))
    }

    /// The socket of its containerd, as seen from this machine.
    #[must_use]
    pub fn containerd(&self) -> PathBuf {
        self.keeper.root().join("run/containerd/containerd.sock")
    }

    /// The directory of the programs' logs.
    #[must_use]
    pub fn logs_dir(&self) -> PathBuf {
        self.keeper.directory.join("logs")
    }

    /// Keeps the logs when this node ends, and prints where they are.
    pub fn keep_logs(&self) {
        self.keeper.keep_logs();
    }

    /// Checks that all its programs still run.
    ///
    /// # Errors
    ///
    /// Fails if a program ended by itself; the error has the last lines of its log.
    pub fn check_alive(&self) -> Result<(), NodeError> {
        for (name, child) in self.children.list().iter_mut() {
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(self.keeper.ended(name, name));
            }
        }
        Ok(())
    }

    /// A file of the node's own programs.
    fn file(&self, name: &str) -> PathBuf {
        self.outside(FILES).join(name)
    }

    fn spawn(&self, line: &Line) -> Result<(), NodeError> {
        let failed = |source| NodeError::Spawn {
            program: line.name.to_owned(),
            source,
        };
        let log = File::create(self.keeper.log(line.name)).map_err(failed)?;
        let child = self
            .inside(&line.program)
            .args(&line.arguments)
            .env("PATH", self.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        self.children.list().push((line.name, child));
        Ok(())
    }

    /// containerd looks for its shim on PATH, where one of another version must not come first.
    fn path(&self) -> std::ffi::OsString {
        let mut path = self.programs.directory.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// Waits for something; fails at once if a program ends.
    fn until(
        &self,
        what: &'static str,
        mut ask: impl FnMut() -> Result<bool, NodeError>,
    ) -> Result<(), NodeError> {
        let answer = until(Instant::now() + PATIENCE, || {
            self.check_alive()?;
            Ok::<_, NodeError>(ask()?.then_some(()))
        })?;
        answer.ok_or_else(|| NodeError::NotReady {
            what,
            logs: self.logs_dir(),
        })
    }
}
