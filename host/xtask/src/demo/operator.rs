//! The operator as a process beside the demo.

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::http::{self, Answer};
use super::screen;

/// How long it may take to be ready; it compiles the plugins first.
const START: Duration = Duration::from_mins(1);
/// How long one thing may take while it runs. A dead relay is asked three times, with pauses, before it counts as lost.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the cluster is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How many of the last lines of its log an error repeats.
const LOG_LINES: usize = 15;

/// A running operator; dropping this stops it.
pub(crate) struct Operator {
    pub(crate) address: SocketAddr,
    webhook: Option<SocketAddr>,
    pub(crate) log: PathBuf,
    child: RefCell<Child>,
}

impl Operator {
    /// Starts it with the plugins of a directory, and waits until it is ready.
    pub(crate) fn start(binary: &Path, plugins: &Path, kubeconfig: &Path) -> Result<Self> {
        Self::start_with(binary, plugins, kubeconfig, ("operator.log", &[]))
    }

    /// Starts it with a log of this name and with more arguments.
    pub(crate) fn start_with(
        binary: &Path,
        plugins: &Path,
        kubeconfig: &Path,
        (log, more): (&str, &[&str]),
    ) -> Result<Self> {
        Self::spawn(binary, plugins, kubeconfig, (log, more), None)
    }

    /// Starts one that only serves the admission webhooks.
    pub(crate) fn start_webhook(binary: &Path, plugins: &Path, kubeconfig: &Path) -> Result<Self> {
        let webhook = http::free_address()?;
        let (address, host) = (webhook.to_string(), webhook.ip().to_string());
        let more = [
            "--controllers",
            "none",
            "--webhook",
            &address,
            "--webhook-host",
            &host,
        ];
        let named = ("webhook.log", &more[..]);
        Self::spawn(binary, plugins, kubeconfig, named, Some(webhook))
    }

    fn spawn(
        binary: &Path,
        plugins: &Path,
        kubeconfig: &Path,
        (log, more): (&str, &[&str]),
        webhook: Option<SocketAddr>,
    ) -> Result<Self> {
        let log = plugins.with_file_name(log);
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let address = http::free_address()?;
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--plugins")
            .arg(plugins)
            .args(["--http", &address.to_string()])
            .args(more);
        let child = command
            .env("KUBECONFIG", kubeconfig)
            .stderr(output)
            .spawn()
            .with_context(|| binary.display().to_string())?;
        let operator = Self {
            address,
            webhook,
            log,
            child: RefCell::new(child),
        };
        operator.until_ready()?;
        Ok(operator)
    }

    /// Where the API server reaches a path of its webhooks.
    pub(crate) fn webhook_url(&self, path: &str) -> Result<String> {
        let address = self.webhook.context("it serves no webhooks")?;
        Ok(format!("https://{address}{path}"))
    }

    fn until_ready(&self) -> Result<()> {
        let start = Instant::now();
        let mut last_answer = String::new();
        while start.elapsed() < START {
            self.check_alive()?;
            match self.ask("/readyz") {
                Ok(answer) if answer.status == 200 => return Ok(()),
                Ok(answer) => last_answer = answer.body,
                // It does not listen yet.
                Err(_) => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.print_log();
        bail!(
            "the operator is not ready after {} s: {last_answer}",
            START.as_secs()
        )
    }

    fn ask(&self, path: &str) -> Result<Answer> {
        http::send(self.address, &format!("GET {path}"), "", "")
    }

    /// What it reports about the plugins that serve.
    pub(crate) fn plugins(&self) -> Result<Value> {
        let answer = self.ask("/plugins")?;
        serde_json::from_str(&answer.body).with_context(|| answer.body.clone())
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            self.check_alive()?;
            if is_so()? {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        self.print_log();
        bail!("it took longer than {} s", PATIENCE.as_secs())
    }

    /// Fails if it has ended.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if let Some(status) = self.child.borrow_mut().try_wait()? {
            self.print_log();
            bail!("the operator ended ({status})");
        }
        Ok(())
    }

    /// Prints the end of its log.
    pub(crate) fn print_log(&self) {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        screen::line(&format!("the end of {}:", self.log.display()));
        for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES)) {
            screen::line(line);
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _already_ended = child.kill();
        let _already_ended = child.wait();
    }
}
