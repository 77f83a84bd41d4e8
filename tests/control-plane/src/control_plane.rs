//! Starts and stops a control plane.

mod commands;
mod error;
mod node;

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::build;
use crate::group::{self, Group};
use crate::keys;
use crate::kubeconfig::{self, Kubeconfig};
use crate::program::Program;
use crate::programs::Programs;
use crate::wait::{self, PATIENCE};
use commands::Place;

pub use error::StartError;

/// How often a start is tried when somebody else takes a port between our choice and its use.
const ATTEMPTS: u32 = 5;

/// The user that the control plane's own programs are.
const INTERNAL: &str = "control-plane";

/// How much of a log an error repeats.
const TOLD_LINES: usize = 20;

/// What a control plane is to have.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many Nodes, each with room for any number of pods. With none, every pod stays pending.
    pub nodes: u16,
    /// Whether the API server writes down every request but those of the control plane itself: see [`ControlPlane::audit_log`].
    pub audit: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            audit: false,
        }
    }
}

/// A running control plane.
///
/// It ends when this value is dropped or the process ends, be it by SIGKILL; its processes and files go with it.
/// The logs are kept, and standard error says where, if any thread panicked meanwhile, if [`ControlPlane::keep_logs`] was called,
/// or if the start failed.
///
/// The ServiceAccount admission plugin is off, so pods need no ServiceAccount; everything else is as Kubernetes has it by
/// default: RBAC, Pod Security admission, priority and fairness.
pub struct ControlPlane {
    options: Options,
    programs: Programs,
    place: Place,
    group: Group,
}

impl ControlPlane {
    /// Starts a control plane, and returns when a pod would run on it.
    ///
    /// # Errors
    ///
    /// Fails if a program is missing and cannot be built, or does not become ready. The logs are kept then.
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
            place: Place::choose(&group.directory.join("data")).map_err(StartError::Directory)?,
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

    /// Starts etcd and the API server, which the others need.
    fn start_servers(&self) -> Result<(), StartError> {
        let secret = || keys::token().map_err(StartError::Directory);
        let (admin, internal) = (secret()?, secret()?);
        let key = keys::signing_key().map_err(StartError::Directory)?;
        // Two users, so that an audit can tell others' requests from the control plane's own.
        let users = format!(
            "{admin},admin,admin,\"system:masters\"\n{internal},{INTERNAL},{INTERNAL},\"system:masters\"\n"
        );
        for (path, text) in [
            (self.place.tokens(), users),
            (self.place.signing_key(), key),
            (self.place.audit_policy(), commands::audit_policy()),
        ] {
            kubeconfig::write_secret(&path, &text).map_err(StartError::Directory)?;
        }
        self.spawn(Program::Etcd, commands::etcd(&self.programs, &self.place))?;
        // It waits for etcd by itself.
        self.spawn_api_server()?;
        let certificate = self.await_certificate()?;
        self.write_kubeconfig(&self.kubeconfig(), &certificate, ("admin", &admin))?;
        let own = self.place.internal_kubeconfig();
        self.write_kubeconfig(&own, &certificate, (INTERNAL, &internal))?;
        self.await_api_server()
    }

    /// Starts everything that talks to the API server, and makes the Nodes.
    fn start_clients(&self) -> Result<(), StartError> {
        let (programs, place) = (&self.programs, &self.place);
        let kwok = commands::kwok(programs, place).map_err(StartError::Directory)?;
        self.spawn(
            Program::ControllerManager,
            commands::controller_manager(programs, place),
        )?;
        self.spawn(Program::Scheduler, commands::scheduler(programs, place))?;
        self.spawn(Program::Kwok, kwok)?;
        let nodes = self.options.nodes;
        if nodes == 0 {
            return Ok(());
        }
        node::create(self.own_kubectl(), &place.nodes(), nodes)?;
        self.until("the Node", || {
            let ready = node::are_schedulable(self.own_kubectl(), nodes)?;
            Ok(ready.then_some(()))
        })
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.kubeconfig()
    }

    /// Where the API server is: `https://127.0.0.1:…`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.place.server
    }

    /// kubectl as administrator of this control plane, without anything of the user's own configuration.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.programs.kubectl);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.place.data.join("kubectl"))
            .env("KUBERC", "off");
        command
    }

    /// Where each program writes its log.
    #[must_use]
    pub fn logs_dir(&self) -> PathBuf {
        self.group.directory.join("logs")
    }

    /// Where the API server notes requests, if [`Options::audit`] asks for it: one JSON object per line, of the kind
    /// `audit.k8s.io/v1` Event, without bodies, each written when its request has been answered.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.place.audit_log()
    }

    /// The process ids, for those that measure or signal.
    #[must_use]
    pub fn processes(&self) -> Vec<(Program, u32)> {
        self.group.processes()
    }

    /// Whether all its programs still run.
    ///
    /// # Errors
    ///
    /// Fails if one ended by itself, and tells its last words.
    pub fn check_alive(&self) -> Result<(), StartError> {
        let Some(program) = self.group.ended() else {
            return Ok(());
        };
        let log = self.group.log(program);
        let text = fs::read_to_string(&log).unwrap_or_default();
        Err(StartError::Ended {
            program,
            log,
            output: build::last_lines(&text, TOLD_LINES),
        })
    }

    /// Lets the logs outlive this control plane, and says where they are.
    pub fn keep_logs(&self) {
        keep_logs(&self.group.directory);
    }

    /// Kills the API server, as a crash would.
    ///
    /// # Errors
    ///
    /// Fails if the system does not let it be killed.
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
        self.spawn_api_server()?;
        self.await_api_server()
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

    /// Writes a kubeconfig with the rights of a ServiceAccount, which must exist. Its token holds for a day.
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
        let certificate = fs::read(self.place.certificate()).map_err(StartError::Directory)?;
        let path = self
            .place
            .data
            .join(format!("{namespace}.{name}.kubeconfig"));
        self.write_kubeconfig(&path, &certificate, (name, token.trim()))?;
        Ok(path)
    }

    /// Ends the control plane, as dropping it does.
    pub fn stop(self) {
        drop(self);
    }

    /// kubectl as one of the control plane's own programs.
    fn own_kubectl(&self) -> Command {
        let mut command = self.kubectl();
        command.env("KUBECONFIG", self.place.internal_kubeconfig());
        command
    }

    fn write_kubeconfig(
        &self,
        path: &Path,
        certificate_authority: &[u8],
        (user, token): (&str, &str),
    ) -> Result<(), StartError> {
        let kubeconfig = Kubeconfig {
            server: &self.place.server,
            certificate_authority,
            user,
            token,
        };
        Ok(kubeconfig.write(path)?)
    }

    fn spawn_api_server(&self) -> Result<(), StartError> {
        let command = commands::api_server(&self.programs, &self.place, self.options.audit);
        self.spawn(Program::ApiServer, command)
    }

    fn spawn(&self, program: Program, mut command: Command) -> Result<(), StartError> {
        let spawned = self.group.spawn(program, &mut command);
        spawned.map_err(|source| StartError::Spawn { program, source })
    }

    /// The certificate that the API server makes for itself at its first start.
    fn await_certificate(&self) -> Result<Vec<u8>, StartError> {
        let certificate = self.place.certificate();
        self.until("the API server's certificate", || {
            // The key is written after the certificate, so the certificate is complete.
            let is_complete = certificate.with_extension("key").exists();
            Ok(is_complete.then(|| fs::read(&certificate).ok()).flatten())
        })
    }

    fn await_api_server(&self) -> Result<(), StartError> {
        self.until("the API server", || {
            let answer = wait::output(self.own_kubectl().args(["get", "--raw", "/readyz"]));
            Ok(answer.is_ok().then_some(()))
        })
    }

    /// Waits for something, as long as all programs live.
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

/// A test's panic ends its thread, not the control plane that it shares with other tests; so the panic itself must say it.
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
