//! The real Prometheus as a process. It scrapes what a test names, and has the rules of `deploy/`.

use std::fmt::Write;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

use crate::http;
use crate::process::Process;
use crate::wait::eventually;

/// How many lines of its log a failed test shows.
const LOG_LINES: usize = 20;

/// A running Prometheus; dropping it kills it, and removes its data.
pub struct PrometheusServer {
    address: SocketAddr,
    files: TempDir,
    _process: Process,
}

/// A sample of an answer: the labels, and the value.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The labels.
    pub labels: Value,
    /// The value; it may be no number.
    pub value: f64,
}

impl PrometheusServer {
    /// Starts one that scrapes these addresses twice a second, in a namespace of this name as the Prometheus Operator does, and
    /// evaluates these rules. It waits until it has scraped them.
    pub async fn scraping(namespace: &str, addresses: &[SocketAddr], rules: &Path) -> Self {
        let programs = podloom_control_plane::prometheus();
        let programs = programs.unwrap_or_else(|error| panic!("{error}"));
        let files = TempDir::new().unwrap();
        let address = http::free_address();
        let configuration = files.path().join("prometheus.yml");
        fs::write(&configuration, text(namespace, addresses, rules)).unwrap();
        let log = File::create(files.path().join("log")).unwrap();
        let mut command = Command::new(programs.server);
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                files.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let server = Self {
            address,
            _process: Process::spawn(&mut command).unwrap(),
            files,
        };
        eventually("Prometheus has scraped", async || {
            let up = server.query("sum(up)")?;
            #[expect(clippy::cast_precision_loss, reason = "there are few addresses")]
            let is_all = up.iter().any(|it| it.value >= addresses.len() as f64);
            is_all
                .then_some(())
                .ok_or_else(|| format!("{up:?}\n{}", server.log()))
        })
        .await;
        server
    }

    /// Waits until it has scraped all addresses again, from now on.
    pub async fn scrapes(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        eventually("Prometheus scrapes again", async || {
            let last = self.query("min(timestamp(up))")?;
            let is_later = last.iter().any(|it| it.value > now.as_secs_f64());
            is_later.then_some(()).ok_or(format!("{last:?}"))
        })
        .await;
    }

    /// The answer to a query, as it is now.
    ///
    /// # Errors
    ///
    /// Fails if there is no answer, or the query is wrong.
    pub fn query(&self, query: &str) -> Result<Vec<Sample>, String> {
        let answer = self.get(&format!("/api/v1/query?query={}", escaped(query)))?;
        let samples = answer["result"].as_array().ok_or("there is no result")?;
        let sample = |it: &Value| {
            let value = it["value"][1].as_str()?;
            Some(Sample {
                labels: it["metric"].clone(),
                value: value.parse().ok()?,
            })
        };
        Ok(samples.iter().filter_map(sample).collect())
    }

    /// The rules that it evaluates: `name`, `health`, `lastError`, `state`.
    ///
    /// # Errors
    ///
    /// Fails if there is no answer.
    pub fn rules(&self) -> Result<Vec<Value>, String> {
        let answer = self.get("/api/v1/rules")?;
        let groups = answer["groups"].as_array().ok_or("there are no groups")?;
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        Ok(rules.flatten().cloned().collect())
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        let answer = http::get(self.address, path).map_err(|error| error.to_string())?;
        let body: Value = serde_json::from_str(&answer.body)
            .map_err(|error| format!("{error}: {}", answer.body))?;
        match body["status"].as_str() {
            Some("success") => Ok(body["data"].clone()),
            _ => Err(answer.body),
        }
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.files.path().join("log")).unwrap_or_default();
        podloom_control_plane::last_lines(&log, LOG_LINES)
    }
}

/// Its configuration, which is YAML, in JSON. The labels are those of a PodMonitor's target.
fn text(namespace: &str, addresses: &[SocketAddr], rules: &Path) -> String {
    let labels = serde_json::json!({ "namespace": namespace });
    let configuration = serde_json::json!({
        "global": { "scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s" },
        "rule_files": [rules],
        "scrape_configs": [{
            "job_name": "podloom",
            "static_configs": [{ "targets": addresses, "labels": labels }],
        }],
    });
    configuration.to_string()
}

/// A text as a part of a URL.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(char::from(byte)),
            _ => write!(escaped, "%{byte:02X}").unwrap(),
        }
    }
    escaped
}
