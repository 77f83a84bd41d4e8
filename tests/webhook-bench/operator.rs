//! An operator that serves nothing but the webhook.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

/// How long the operator may take to be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// A kubeconfig for a cluster at this address.
fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "\
apiVersion: v1
kind: Config
current-context: none
contexts: [{{ name: none, context: {{ cluster: none, user: none }} }}]
clusters: [{{ name: none, cluster: {{ server: 'http://{address}' }} }}]
users: [{{ name: none, user: {{}} }}]
"
    )
}

/// A cluster in which the operator may do nothing: it then serves the webhook and asks for nothing more.
fn forbidding() -> Result<SocketAddr> {
    const STATUS: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden"}"#;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let length = STATUS.len();
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{STATUS}"
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            // One read is enough: only the answer matters.
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    Ok(address)
}

/// The chain of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainUnderTest {
    /// labels, sidecar and hardening.
    Three,
    /// One plugin that sets two labels.
    TwoLabels,
    /// None.
    Empty,
}

impl ChainUnderTest {
    pub(crate) const ALL: [Self; 3] = [Self::Three, Self::TwoLabels, Self::Empty];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Three => "three plugins",
            Self::TwoLabels => "two labels",
            Self::Empty => "empty chain",
        }
    }

    /// Writes its bundle.
    fn bundle(self, plugins: &Path, to: &Path) -> Result<()> {
        let entries = match self {
            // The chain of the bundle, as it is.
            Self::Three => {
                for entry in fs::read_dir(plugins)? {
                    let entry = entry?;
                    fs::copy(entry.path(), to.join(entry.file_name()))?;
                }
                return Ok(());
            }
            Self::TwoLabels => {
                fs::copy(plugins.join("labels.wasm.gz"), to.join("labels.wasm.gz"))?;
                "\n- { name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [{ key: team, value: web }, { key: tier, value: front }] } }"
            }
            Self::Empty => " []",
        };
        let chain =
            format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:{entries}\n");
        fs::write(to.join("chain.yaml"), chain)?;
        Ok(())
    }
}

/// A running operator; dropping it kills it.
pub(crate) struct Served {
    process: Child,
    address: SocketAddr,
    /// Its plugins, kubeconfig and certificate.
    _files: TempDir,
}

impl Served {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(
        podloom: &Path,
        plugins: &Path,
        chain: ChainUnderTest,
        tls: bool,
    ) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let at = |name: &str| files.path().join(name);
        for directory in ["plugins", "tls"] {
            fs::create_dir(at(directory))?;
        }
        chain.bundle(plugins, &at("plugins"))?;
        fs::write(at("kubeconfig"), kubeconfig(forbidding()?))?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        fs::write(at("tls/tls.crt"), made.cert.pem())?;
        fs::write(at("tls/tls.key"), made.signing_key.serialize_pem())?;
        let mut command = Command::new(podloom);
        command
            .args(["run", "--controllers", "none", "--webhook", "127.0.0.1:0"])
            .args(["--http", "127.0.0.1:0", "--log-format", "json", "--log"])
            .args([
                "info,podloom_browser=off,podloom_engine=off",
                "--allow-unread-namespaces",
            ])
            .arg("--plugins")
            .arg(at("plugins"))
            .env("KUBECONFIG", at("kubeconfig"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if tls {
            command.arg("--tls-dir").arg(at("tls"));
        } else {
            command.arg("--webhook-without-tls");
        }
        let mut process = command
            .spawn()
            .with_context(|| podloom.display().to_string())?;
        let log = process.stderr.take().context("the log is piped")?;
        let (http, address) = addresses(BufReader::new(log))?;
        let served = Self {
            process,
            address,
            _files: files,
        };
        await_ready(http)?;
        Ok(served)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The addresses of its HTTP server and of the webhook, from its log. The rest of the log is read away, so that it can go on logging.
fn addresses(mut log: impl BufRead + Send + 'static) -> Result<(SocketAddr, SocketAddr)> {
    let (mut http, mut webhook) = (None, None);
    let mut line = String::new();
    loop {
        line.clear();
        if log.read_line(&mut line)? == 0 {
            bail!("the operator ended before it served the webhook");
        }
        let read: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = |field: &str| read[field].as_str()?.parse().ok();
        http = http.or_else(|| address("http"));
        webhook = webhook.or_else(|| address("webhook"));
        if let (Some(http), Some(webhook)) = (http, webhook) {
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok((http, webhook));
        }
    }
}

fn await_ready(address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    loop {
        match podloom_tests::get(address, "/readyz/webhook") {
            // Whatever rights are missing: there is no cluster.
            Ok(answer) if answer.body.contains("[+]chain ok") => return Ok(()),
            _ if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
            Ok(answer) => bail!("the operator is not ready: {}", answer.body),
            Err(error) => return Err(error.into()),
        }
    }
}
