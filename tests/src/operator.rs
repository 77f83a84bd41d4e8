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

/// How much of a log a failed test shows.
const TOLD_LINES: usize = 60;

/// The binary under test.
#[must_use]
pub fn binary() -> Option<PathBuf> {
    std::env::var_os("PODLOOM_BLACKBOX_BINARY").map(PathBuf::from)
}

/// Enters the root folder, as a container would; without being root, in a user namespace of its own.
const ENTER: &str =
    r#"[ "$(id -u)" = 0 ] && exec chroot "$@" || exec unshare --map-root-user chroot "$@""#;

/// A running operator; killed when it is dropped.
///
/// Its log lies among those of the control plane, and a failed test shows the end of it.
pub struct Operator {
    process: Process,
    command: Vec<String>,
    kubeconfig: PathBuf,
    log: PathBuf,
    /// How much of the log others of the same name have written.
    begins: u64,
    /// All that it sees of the file system, if not everything.
    root: Option<TempDir>,
}

impl Operator {
    /// Starts one with the rights of its ServiceAccount, and waits until it is ready.
    pub async fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let operator = Self::spawn(cluster, cluster.operator_kubeconfig(), arguments);
        operator.ready().await;
        operator
    }

    /// Starts one with the rights of a kubeconfig, and waits for nothing.
    ///
    /// What the arguments do not say: no election, and no chain. Where there is no controller, nothing is added.
    #[must_use]
    pub fn spawn(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = cluster
            .plane
            .logs_dir()
            .join(format!("operator-{number}.log"));
        let has = |name: &str| arguments.contains(&name);
        let mut command = vec!["run".to_owned()];
        let works = !has("none");
        if works && !has("--lease-name") {
            command.push("--no-leader-election".to_owned());
        }
        if works && !has("--plugins") {
            command.push("--allow-empty-chain".to_owned());
        }
        command.extend(arguments.iter().map(|&word| word.to_owned()));
        Self {
            process: start(Command::new(tested()), &command, kubeconfig, &log),
            command,
            kubeconfig: kubeconfig.to_owned(),
            log,
            begins: 0,
            root: None,
        }
    }

    /// Starts one that sees nothing but the root folder of the image, and the kubeconfig in it.
    ///
    /// The folder is copied: what one test leaves in it, another would see.
    #[must_use]
    pub fn spawn_alone(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Self {
        let image = std::env::var_os("PODLOOM_DIST_ROOT");
        let image = image.expect("PODLOOM_DIST_ROOT names the root that `cargo xtask dist` made");
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
            log,
            begins: 0,
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

    /// Waits until it says that it is ready.
    pub async fn ready(&self) {
        eventually("the operator is ready", async || {
            let (status, body) = self.get("/readyz")?;
            (status == 200).then_some(()).ok_or(body)
        })
        .await;
    }

    /// What it answers to a GET, with the status; or why it does not.
    pub fn get(&self, path: &str) -> Result<(u16, String), String> {
        let address = self
            .address()
            .ok_or_else(|| format!("it does not listen yet:\n{}", self.tail("")))?;
        match http::get(address, path) {
            Ok(answer) => Ok((answer.status, answer.body)),
            Err(error) => Err(format!("{address}{path}: {error}:\n{}", self.tail(""))),
        }
    }

    /// A metric's value: the sum over all samples whose line begins like this.
    pub fn metric(&self, start: &str) -> f64 {
        let (_, text) = self.get("/metrics").unwrap();
        let samples = text.lines().filter(|line| line.starts_with(start));
        samples
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// The lines of its log since it was last started.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read(&self.log).unwrap_or_default();
        let own = text.get(usize::try_from(self.begins).unwrap()..);
        let lines = String::from_utf8_lossy(own.unwrap_or_default()).into_owned();
        lines
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The lines of the log that contain all these words.
    #[must_use]
    pub fn told(&self, words: &[&str]) -> Vec<String> {
        let lines = self.log().into_iter().map(|line| line.to_string());
        lines
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills it as the end of its machine would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it anew after it was killed or has ended, with the same arguments.
    pub fn start_again(&mut self) {
        assert!(self.root.is_none(), "one that is alone is started once");
        self.process.kill();
        self.begins = fs::metadata(&self.log).unwrap().len();
        self.process = start(
            Command::new(tested()),
            &self.command,
            &self.kubeconfig,
            &self.log,
        );
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let process = &mut self.process;
        eventually("the operator ends", async || {
            process.ended().ok_or_else(|| "it runs".to_owned())
        })
        .await
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The end of the log, of those lines that contain the word.
    #[must_use]
    pub fn tail(&self, word: &str) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
        let from = lines.len().saturating_sub(TOLD_LINES);
        format!(
            "{}:\n{}",
            self.log.display(),
            lines.get(from..).unwrap_or_default().join("\n")
        )
    }

    /// Where it serves everything, as its log says.
    fn address(&self) -> Option<SocketAddr> {
        self.listens("http")
    }

    /// Where it listens, as its log says: `http` for everything, `probes` for probes alone.
    #[must_use]
    pub fn listens(&self, what: &str) -> Option<SocketAddr> {
        let log = self.log();
        let mut addresses = log.iter().filter_map(|line| {
            let fields = line.get("fields").unwrap_or(line);
            fields.get(what)?.as_str()?.parse().ok()
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
    binary().expect("blackbox() lets no test begin without a binary")
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
