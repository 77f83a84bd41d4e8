//! Starts and stops a control plane.

mod commands;
mod error;
mod node;

use std::fs;
use std::net::SocketAddr;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::go;
use crate::group::{self, Group};
use crate::keys;
use crate::kubeconfig::{self, Kubeconfig};
use crate::program::Program;
use crate::programs::Programs;
use crate::wait::{self, PATIENCE};
use commands::Layout;

pub use error::StartError;

/// How often a start is tried when another process takes a port between our choice and its use.
const ATTEMPTS: u32 = 5;

/// The user as which the control plane's own programs call the API server.
const INTERNAL: &str = "control-plane";

/// How many lines of a log an error shows.
const LOG_LINES: usize = 20;

/// How to set up a control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of Nodes, each with room for any number of pods. With 0, every pod stays pending.
    pub nodes: u16,
    /// Whether the API server logs every request except those of the control plane itself: see [`ControlPlane::audit_log`].
    pub audit: bool,
    /// The kubeconfig with the certificate that the API server shows to webhooks; by default it shows none.
    pub webhook_client: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            audit: false,
            webhook_client: None,
        }
    }
}

/// A running control plane.
///
/// It ends when this value is dropped or the process ends, even by SIGKILL. Then its processes and files are removed.
/// The logs are kept if a thread panicked, if [`ControlPlane::keep_logs`] was called, or if the start failed; standard error says
/// where they are.
///
/// The ServiceAccount admission plugin is off, so pods need no ServiceAccount. Everything else has the defaults of Kubernetes:
/// RBAC, Pod Security admission, priority and fairness.
pub struct ControlPlane {
    options: Options,
    programs: Programs,
    layout: Layout,
    group: Group,
}

impl ControlPlane {
    /// Starts a control plane, and returns when it can run pods.
    ///
    /// # Errors
    ///
    /// Fails if a program is missing and cannot be built, or does not become ready. Then the logs are kept.
    pub fn start(options: &Options) -> Result<Self, StartError> {
        let programs = Programs::find()?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&programs, options) {
                Err(error) if attempt < ATTEMPTS && error.is_port_race() => attempt += 1,
                result => return result,
            }
        }
    }

    fn start_once(programs: &Programs, options: &Options) -> Result<Self, StartError> {
        let group = Group::new().map_err(StartError::Directory)?;
        let plane = Self {
            options: options.clone(),
            programs: programs.clone(),
            layout: Layout::choose(&group.directory.join("data")).map_err(StartError::Directory)?,
            group,
        };
        let started = plane.start_servers().and_then(|()| plane.start_clients());
        match started {
            Ok(()) => {
                keep_logs_on_panic(plane.group.directory.clone());
                Ok(plane)
            }
            Err(error) => {
                if !error.is_port_race() {
                    plane.keep_logs();
                }
                Err(error)
            }
        }
    }

    /// Starts etcd and the API server, which all others need.
    fn start_servers(&self) -> Result<(), StartError> {
        let secret = || keys::token().map_err(StartError::Directory);
        let (admin, internal) = (secret()?, secret()?);
        let key = keys::signing_key().map_err(StartError::Directory)?;
        // Two users, so that the audit log can leave out the control plane's own requests.
        let users = format!(
            "{admin},admin,admin,\"system:masters\"\n{internal},{INTERNAL},{INTERNAL},\"system:masters\"\n"
        );
        for (path, text) in [
            (self.layout.tokens(), users),
            (self.layout.signing_key(), key),
            (self.layout.audit_policy(), commands::audit_policy()),
        ] {
            kubeconfig::write_secret(&path, &text).map_err(StartError::Directory)?;
        }
        if let Some(client) = &self.options.webhook_client {
            let text = commands::admission_configuration(client);
            let path = self.layout.admission_configuration();
            kubeconfig::write_secret(&path, &text).map_err(StartError::Directory)?;
        }
        self.spawn(Program::Etcd, commands::etcd(&self.programs, &self.layout))?;
        // The API server waits for etcd by itself.
        self.spawn_api_server(&self.layout)?;
        let certificate = self.await_certificate()?;
        self.write_kubeconfig(&self.kubeconfig(), &certificate, ("admin", &admin))?;
        let own = self.layout.internal_kubeconfig();
        self.write_kubeconfig(&own, &certificate, (INTERNAL, &internal))?;
        self.await_api_server(&self.layout)
    }

    /// Starts everything that talks to the API server, and creates the Nodes.
    fn start_clients(&self) -> Result<(), StartError> {
        let (programs, layout) = (&self.programs, &self.layout);
        let kwok = commands::kwok(programs, layout).map_err(StartError::Directory)?;
        self.spawn(
            Program::ControllerManager,
            commands::controller_manager(programs, layout),
        )?;
        self.spawn(Program::Scheduler, commands::scheduler(programs, layout))?;
        self.spawn(Program::Kwok, kwok)?;
        let nodes = self.options.nodes;
        if nodes == 0 {
            return Ok(());
        }
        node::create(self.own_kubectl(), &layout.nodes(), nodes)?;
        self.until("the Node", || {
            let ready = node::are_schedulable(self.own_kubectl(), nodes)?;
            Ok(ready.then_some(()))
        })
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// The URL of the API server: `https://127.0.0.1:…`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.layout.server
    }

    /// The address of etcd, without TLS.
    #[must_use]
    pub fn etcd(&self) -> SocketAddr {
        self.layout.etcd
    }

    /// kubectl as administrator of this control plane, without anything of the user's own configuration.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.programs.kubectl);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.layout.data.join("kubectl"))
            .env("KUBERC", "off");
        command
    }

    /// The directory of the programs' logs.
    #[must_use]
    pub fn logs_dir(&self) -> PathBuf {
        self.group.directory.join("logs")
    }

    /// The file where the API server logs requests, if [`Options::audit`] is set. Each line is an `audit.k8s.io/v1` Event as JSON,
    /// without bodies, written when the request has been answered.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// The process ids, for measuring and for sending signals.
    #[must_use]
    pub fn processes(&self) -> Vec<(Program, u32)> {
        self.group.processes()
    }

    /// Checks that all its programs still run.
    ///
    /// # Errors
    ///
    /// Fails if a program ended by itself; the error has the last lines of its log.
    pub fn check_alive(&self) -> Result<(), StartError> {
        let Some(program) = self.group.ended() else {
            return Ok(());
        };
        let log = self.group.log(program);
        let text = fs::read_to_string(&log).unwrap_or_default();
        Err(StartError::Ended {
            program,
            log,
            output: go::last_lines(&text, LOG_LINES),
        })
    }

    /// Keeps the logs when this control plane ends, and prints where they are.
    pub fn keep_logs(&self) {
        keep_logs(&self.group.directory);
    }

    /// Starts one more API server with the same certificate, and returns its URL once it is ready. It asks for etcd at this address,
    /// which may be that of a proxy in front of [`ControlPlane::etcd`].
    ///
    /// # Errors
    ///
    /// Fails if it does not become ready.
    pub fn add_api_server(&self, etcd: SocketAddr) -> Result<String, StartError> {
        let layout = self.layout.beside(etcd).map_err(StartError::Directory)?;
        self.spawn_api_server(&layout)?;
        self.await_api_server(&layout)?;
        Ok(layout.server)
    }

    /// Kills the API server, as a crash would, and those that were added.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses to kill it.
    pub fn stop_api_server(&self) -> Result<(), StartError> {
        let program = Program::ApiServer;
        let killed = self.group.kill(program);
        killed.map_err(|source| StartError::Kill { program, source })
    }

    /// Starts the API server again after [`ControlPlane::stop_api_server`], on the same port and with the same objects, and waits
    /// until it is ready.
    ///
    /// # Errors
    ///
    /// Fails if it does not become ready.
    pub fn start_api_server(&self) -> Result<(), StartError> {
        self.spawn_api_server(&self.layout)?;
        self.await_api_server(&self.layout)
    }

    /// Kills the API server and starts it again.
    ///
    /// # Errors
    ///
    /// Fails if it does not become ready.
    pub fn restart_api_server(&self) -> Result<(), StartError> {
        self.stop_api_server()?;
        self.start_api_server()
    }

    /// Writes a kubeconfig with the rights of a ServiceAccount, which must exist. Its token is valid for a day.
    ///
    /// # Errors
    ///
    /// Fails if the ServiceAccount does not exist.
    pub fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf, StartError> {
        let arguments = [
            "create",
            "token",
            name,
            "--namespace",
            namespace,
            "--duration=24h",
        ];
        let token = wait::output(self.kubectl().args(arguments))?;
        let certificate = fs::read(self.layout.certificate()).map_err(StartError::Directory)?;
        let path = self
            .layout
            .data
            .join(format!("{namespace}.{name}.kubeconfig"));
        self.write_kubeconfig(&path, &certificate, (name, token.trim()))?;
        Ok(path)
    }

    /// Stops the control plane, as dropping it does.
    pub fn stop(self) {
        drop(self);
    }

    /// kubectl as one of the control plane's own programs.
    fn own_kubectl(&self) -> Command {
        let mut command = self.kubectl();
        command.env("KUBECONFIG", self.layout.internal_kubeconfig());
        command
    }

    fn write_kubeconfig(
        &self,
        path: &Path,
        certificate_authority: &[u8],
        (user, token): (&str, &str),
    ) -> Result<(), StartError> {
        let kubeconfig = Kubeconfig {
            server: &self.layout.server,
            certificate_authority,
            user,
            token,
        };
        Ok(kubeconfig.write(path)?)
    }

    fn spawn_api_server(&self, layout: &Layout) -> Result<(), StartError> {
        let command = commands::api_server(&self.programs, layout, &self.options);
        self.spawn(Program::ApiServer, command)
    }

    fn spawn(&self, program: Program, mut command: Command) -> Result<(), StartError> {
        let spawned = self.group.spawn(program, &mut command);
        spawned.map_err(|source| StartError::Spawn { program, source })
    }

    /// Waits for the certificate that the API server creates at its first start.
    fn await_certificate(&self) -> Result<Vec<u8>, StartError> {
        let certificate = self.layout.certificate();
        self.until("the API server's certificate", || {
            // The key is written after the certificate, so the certificate is complete.
            let is_complete = certificate.with_extension("key").exists();
            Ok(is_complete.then(|| fs::read(&certificate).ok()).flatten())
        })
    }

    fn await_api_server(&self, layout: &Layout) -> Result<(), StartError> {
        let ready = ["get", "--raw", "/readyz", "--server", &layout.server];
        self.until("the API server", || {
            let answer = wait::output(self.own_kubectl().args(ready));
            Ok(answer.is_ok().then_some(()))
        })
    }

    /// Waits for something; fails at once if a program ends.
    fn until<T>(
        &self,
        what: &'static str,
        mut ask: impl FnMut() -> Result<Option<T>, StartError>,
    ) -> Result<T, StartError> {
        let answer = wait::until(Instant::now() + PATIENCE, || {
            self.check_alive()?;
            ask()
        })?;
        answer.ok_or_else(|| StartError::NotReady {
            what,
            logs: self.logs_dir(),
        })
    }
}

/// A test's panic ends its thread, but not the control plane that it shares with other tests. So the panic hook keeps the logs.
fn keep_logs_on_panic(directory: PathBuf) {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        previous(information);
        keep_logs(&directory);
    }));
}

fn keep_logs(directory: &Path) {
    if group::keep_logs(directory) {
        let logs = directory.join("logs");
        eprintln!("control plane: logs are kept in {}", logs.display());
    }
}
