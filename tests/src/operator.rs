//! The operator as a process.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use tempfile::TempDir;

use crate::bundle;
use crate::cluster::Cluster;
use crate::http;
use crate::process::{Process, Signal};
use crate::wait::eventually;

/// How many lines of a log a failed test shows.
const LOG_LINES: usize = 60;

/// The binary under test.
#[must_use]
pub fn binary() -> Option<PathBuf> {
    std::env::var_os("PODLOOM_BLACKBOX_BINARY").map(PathBuf::from)
}

/// Enters the root folder, as a container does. Who is not root needs a user namespace for it.
const ENTER: &str =
    r#"[ "$(id -u)" = 0 ] && exec chroot "$@" || exec unshare --map-root-user chroot "$@""#;

/// A running operator; dropping it kills it.
///
/// Its log is among those of the control plane; a failed test shows its last lines.
pub struct Operator {
    process: Process,
    command: Vec<String>,
    kubeconfig: PathBuf,
    authorities: Option<PathBuf>,
    log: PathBuf,
    /// Where the log of this run starts in the file, in bytes: earlier runs wrote to the same file.
    log_start: u64,
    /// The root folder that it is confined to, if any.
    root: Option<TempDir>,
}

impl Operator {
    /// Starts an operator with the rights of its ServiceAccount, and waits until it is ready.
    pub async fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let operator = Self::spawn(cluster, cluster.operator_kubeconfig(), arguments);
        operator.ready().await;
        operator
    }

    /// Starts an operator with the rights of a kubeconfig, and does not wait until it is ready.
    ///
    /// Unless the arguments ask for them, it has no leader election and no plugins. With `--controllers none` no flags are added.
    #[must_use]
    pub fn spawn(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::spawn_trusting(cluster, kubeconfig, arguments, None)
    }

    /// The same on a machine that trusts the certificate authorities of a file, if one is given.
    #[must_use]
    pub fn spawn_trusting(
        cluster: &Cluster,
        kubeconfig: &Path,
        arguments: &[&str],
        authorities: Option<&Path>,
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = cluster
            .plane
            .logs_dir()
            .join(format!("operator-{number}.log"));
        let has = |name: &str| arguments.contains(&name);
        let mut command = vec!["run".to_owned()];
        let has_controllers = !has("none");
        if has_controllers && !has("--lease-name") {
            command.push("--no-leader-election".to_owned());
        }
        if has_controllers && !has("--plugins") {
            command.push("--allow-empty-chain".to_owned());
        }
        command.extend(arguments.iter().map(|&word| word.to_owned()));
        Self {
            process: start(trusting(authorities), &command, kubeconfig, &log),
            command,
            kubeconfig: kubeconfig.to_owned(),
            authorities: authorities.map(Path::to_owned),
            log,
            log_start: 0,
            root: None,
        }
    }

    /// Starts an operator that sees only the image's root folder, and the kubeconfig in it.
    ///
    /// The folder is copied, so that one test does not see what another has left in it.
    #[must_use]
    pub fn spawn_alone(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Self {
        let image = std::env::var_os("PODLOOM_DIST_ROOT");
        let image =
            image.expect("set PODLOOM_DIST_ROOT to the root folder that `cargo xtask dist` makes");
        let root = TempDir::new().unwrap();
        let copied = Command::new("cp")
            .arg("-a")
            .arg(Path::new(&image).join("."))
            .arg(root.path())
            .status()
            .unwrap();
        assert!(copied.success());
        fs::copy(kubeconfig, root.path().join("kubeconfig")).unwrap();
        let mut enter = Command::new("sh");
        enter.args(["-c", ENTER, "enter"]).arg(root.path());
        enter.arg("/usr/bin/podloom");
        let log = cluster.plane.logs_dir().join("operator-alone.log");
        let mut command = vec!["run".to_owned(), "--no-leader-election".to_owned()];
        command.extend(arguments.iter().map(|&word| word.to_owned()));
        let kubeconfig = PathBuf::from("/kubeconfig");
        Self {
            process: start(enter, &command, &kubeconfig, &log),
            command,
            kubeconfig,
            authorities: None,
            log,
            log_start: 0,
            root: Some(root),
        }
    }

    /// The operator of the shared cluster, with the standard plugins.
    pub(crate) fn for_all(cluster: &Cluster) -> Self {
        let bundle = bundle::standard();
        let bundle = bundle.to_str().unwrap();
        Self::spawn(
            cluster,
            cluster.operator_kubeconfig(),
            &["--plugins", bundle],
        )
    }

    /// Waits until `/readyz` answers 200.
    pub async fn ready(&self) {
        eventually("the operator is ready", async || {
            let (status, body) = self.get("/readyz")?;
            (status == 200).then_some(()).ok_or(body)
        })
        .await;
    }

    /// The status and body of a GET; or why there is no answer.
    pub fn get(&self, path: &str) -> Result<(u16, String), String> {
        let address = self
            .address()
            .ok_or_else(|| format!("it does not listen yet:\n{}", self.tail("")))?;
        match http::get(address, path) {
            Ok(answer) => Ok((answer.status, answer.body)),
            Err(error) => Err(format!("{address}{path}: {error}:\n{}", self.tail(""))),
        }
    }

    /// A metric's value: the sum of all samples whose line starts with this.
    pub fn metric(&self, start: &str) -> f64 {
        let (_, text) = self.get("/metrics").unwrap();
        let samples = text.lines().filter(|line| line.starts_with(start));
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// What it has logged and printed since it was last started.
    #[must_use]
    pub fn printed(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let own = text.get(usize::try_from(self.log_start).unwrap()..);
        String::from_utf8_lossy(own.unwrap_or_default()).into_owned()
    }

    /// The lines of its log since it was last started.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let printed = self.printed();
        let lines = printed.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The lines of the log that contain all these words.
    #[must_use]
    pub fn logged(&self, words: &[&str]) -> Vec<String> {
        let lines = self.log().into_iter().map(|line| line.to_string());
        lines
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills it with SIGKILL, as when its machine crashes.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts it with the same arguments; kills it first if it still runs.
    pub fn restart(&mut self) {
        assert!(
            self.root.is_none(),
            "an operator in the image's root folder cannot be restarted"
        );
        self.process.kill();
        self.log_start = fs::metadata(&self.log).unwrap().len();
        self.process = start(
            trusting(self.authorities.as_deref()),
            &self.command,
            &self.kubeconfig,
            &self.log,
        );
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let process = &mut self.process;
        eventually("the operator ends", async || {
            process.ended().ok_or_else(|| "it still runs".to_owned())
        })
        .await
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The last of the log's lines that contain the word.
    #[must_use]
    pub fn tail(&self, word: &str) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        format!(
            "{}:\n{}",
            self.log.display(),
            lines.get(from..).unwrap_or_default().join("\n")
        )
    }

    /// The address of its HTTP server, from its log.
    fn address(&self) -> Option<SocketAddr> {
        self.listens("http")
    }

    /// An address from its log: `http` is the HTTP server, `probes` the server for probes alone.
    #[must_use]
    pub fn listens(&self, what: &str) -> Option<SocketAddr> {
        let log = self.log();
        let mut addresses = log.iter().filter_map(|line| {
            let address = line.get(format!("podloom.{what}"))?;
            address.as_str()?.parse().ok()
        });
        addresses.next()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the operator's log is {}", self.tail(""));
        }
    }
}

fn tested() -> PathBuf {
    binary().expect("blackbox() runs no test without a binary")
}

/// The tested program, on a machine that trusts these certificate authorities.
fn trusting(authorities: Option<&Path>) -> Command {
    let mut program = Command::new(tested());
    if let Some(authorities) = authorities {
        program.env("SSL_CERT_FILE", authorities);
    }
    program
}

fn start(mut process: Command, command: &[String], kubeconfig: &Path, log: &Path) -> Process {
    let log = File::options().create(true).append(true).open(log).unwrap();
    process
        .args(command)
        .args(["--http", "127.0.0.1:0", "--log-format", "json"])
        .env("KUBECONFIG", kubeconfig)
        .env("PODLOOM_LOG", "info")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    Process::spawn(&mut process).unwrap()
}
