//! An operator that serves nothing but the webhook.
//!
//! In its cluster it may do nothing but read a ChainRollout, if there is one.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hyper::body::Bytes;
use podloom_tests::MountedBundle;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::chains::Files;
use crate::client::Target;

/// How long the operator may take until it answers.
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

/// A cluster in which the operator may do nothing: it then serves the webhook and asks for nothing more. Of this ChainRollout it gets a
/// list; null is none.
fn forbidding(rollout: Value) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            // One read is enough: only the first line matters.
            let read = stream.read(&mut request).unwrap_or_default();
            let line = String::from_utf8_lossy(request.get(..read).unwrap_or_default());
            let line = line.lines().next().unwrap_or_default();
            let _ = stream.write_all(answer(line, &rollout).as_bytes());
            if line.contains("watch=") {
                // Nothing ever changes.
                std::mem::forget(stream);
            }
        }
    });
    Ok(address)
}

/// The answer to a request, by its first line.
fn answer(line: &str, rollout: &Value) -> String {
    let is_read = line.starts_with("GET") && line.contains("/chainrollouts?") && !rollout.is_null();
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "forbidden",
    });
    let list = json!({
        "kind": "ChainRolloutList", "apiVersion": "chain.podloom.dev/v1alpha1", "metadata": { "resourceVersion": "1" },
        "items": [rollout],
    });
    let head = |code: &str| format!("HTTP/1.1 {code}\r\ncontent-type: application/json\r\n");
    let whole = |code: &str, body: &Value| {
        let body = body.to_string();
        let length = body.len();
        format!(
            "{}content-length: {length}\r\nconnection: close\r\n\r\n{body}",
            head(code)
        )
    };
    match is_read {
        false => whole("403 Forbidden", &status),
        // A list as a stream is an option that this cluster does not know.
        true if line.contains("sendInitialEvents") => whole("400 Bad Request", &status),
        true if line.contains("watch=") => head("200 OK") + "transfer-encoding: chunked\r\n\r\n",
        true => whole("200 OK", &list),
    }
}

/// Writes a certificate and its key into a directory, under the names of a Secret.
pub(crate) fn certificate(directory: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(directory.join("tls.crt"), made.cert.pem())?;
    fs::write(directory.join("tls.key"), made.signing_key.serialize_pem())?;
    Ok(())
}

/// A process that is killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running operator; dropping it kills it.
pub(crate) struct Served {
    process: Process,
    http: SocketAddr,
    webhook: SocketAddr,
    tls: bool,
    /// Its plugins.
    pub(crate) bundle: MountedBundle,
    _candidate: Option<MountedBundle>,
    /// Its kubeconfig and certificate.
    _files: TempDir,
}

impl Served {
    /// Starts it, and waits until it answers this review: it is asked again and again.
    pub(crate) async fn start(
        podloom: &Path,
        files: &Files,
        tls: bool,
        review: &Bytes,
    ) -> Result<Self> {
        Self::start_with(podloom, files, tls, review, None).await
    }

    /// The same with a candidate, and with the ChainRollout by which that serves.
    pub(crate) async fn start_with(
        podloom: &Path,
        files: &Files,
        tls: bool,
        review: &Bytes,
        candidate: Option<(&Files, &Value)>,
    ) -> Result<Self> {
        let begun = Instant::now();
        let served = Self::spawn(podloom, files, tls, candidate)?;
        let target = served.target()?;
        loop {
            match target.connections(1, review).await {
                Ok(_) => return Ok(served),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// Starts it, and waits until it listens.
    fn spawn(
        podloom: &Path,
        files: &Files,
        tls: bool,
        candidate: Option<(&Files, &Value)>,
    ) -> Result<Self> {
        let bundle = files.mount();
        let (candidate, rollout) = candidate.unzip();
        let candidate = candidate.map(Files::mount);
        let files = tempfile::tempdir()?;
        let at = |name: &str| files.path().join(name);
        fs::create_dir(at("tls"))?;
        fs::write(
            at("kubeconfig"),
            kubeconfig(forbidding(rollout.cloned().unwrap_or_default())?),
        )?;
        certificate(&at("tls"))?;
        let mut command = Command::new(podloom);
        command
            .args(["run", "--controllers", "none", "--webhook", "127.0.0.1:0"])
            .args(["--http", "127.0.0.1:0", "--log-format", "json", "--log"])
            .args([
                "info,podloom_browser=off,podloom_engine=off",
                "--allow-unread-namespaces",
            ])
            .arg("--plugins")
            .arg(bundle.path())
            .env("KUBECONFIG", at("kubeconfig"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(candidate) = &candidate {
            command.arg("--candidate").arg(candidate.path());
        }
        if rollout.is_some_and(|it| !it.is_null()) {
            command.arg("--rollout");
        }
        match tls {
            true => command.arg("--tls-dir").arg(at("tls")),
            false => command.arg("--webhook-without-tls"),
        };
        let spawned = command.spawn();
        let mut process = Process(spawned.with_context(|| podloom.display().to_string())?);
        let log = process.0.stderr.take().context("the log is piped")?;
        let (http, webhook) = addresses(BufReader::new(log))?;
        Ok(Self {
            process,
            http,
            webhook,
            tls,
            bundle,
            _candidate: candidate,
            _files: files,
        })
    }

    pub(crate) fn target(&self) -> Result<Target> {
        let scheme = if self.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/mutate/pods?timeout=5s", self.webhook);
        Target::of(&url.parse()?)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// What it answers here, as JSON.
    pub(crate) fn shows(&self, path: &str) -> Result<Value> {
        let answer = podloom_tests::get(self.http, path)?.body;
        serde_json::from_str(&answer).context(answer)
    }

    /// How many chains it has loaded.
    pub(crate) fn loads(&self) -> Result<f64> {
        let metrics = podloom_tests::get(self.http, "/metrics")?.body;
        let metric = "podloom_chain_reloads_total{outcome=\"success\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(metric));
        Ok(line.context("it has loaded no chain")?.parse()?)
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
        http = http.or_else(|| address("podloom.http"));
        webhook = webhook.or_else(|| address("podloom.webhook"));
        if let (Some(http), Some(webhook)) = (http, webhook) {
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok((http, webhook));
        }
    }
}
