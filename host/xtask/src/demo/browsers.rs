//! Sessions as they come and go.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Cluster, NAMESPACE, screen};
use crate::run;

/// How often the sessions are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A session that no BrowserConfig serves, to show what its user sees.
const UNSERVED: &str = r#"{
    "apiVersion": "selenosis.io/v1",
    "kind": "Browser",
    "metadata": { "name": "unserved", "namespace": "shop-tests" },
    "spec": { "browserName": "chrome", "browserVersion": "1.0" }
}"#;

/// A session that ran.
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) started_in: Duration,
    /// Which plugin wrote how much.
    pub(crate) plugins: String,
}

/// Shows each change of phase until all sessions run.
pub(crate) fn until_running(
    kubectl: impl Fn() -> Command,
    patience: Duration,
) -> Result<Vec<Session>> {
    let start = Instant::now();
    let mut phases: BTreeMap<String, String> = BTreeMap::new();
    let mut running: BTreeMap<String, Session> = BTreeMap::new();
    while start.elapsed() < patience {
        let browsers = list(kubectl())?;
        for browser in &browsers {
            let name = text(browser, "/metadata/name");
            let phase = text(browser, "/status/phase");
            if phases.get(&name) == Some(&phase) || phase.is_empty() {
                continue;
            }
            let address = text(browser, "/status/podIP");
            screen::step(
                start.elapsed().as_millis(),
                &format!(
                    "{name:<12} {phase:<10} {address} {}",
                    text(browser, "/status/message")
                ),
            );
            if phase == "Running" {
                running.insert(
                    name.clone(),
                    Session {
                        name: name.clone(),
                        address,
                        started_in: start.elapsed(),
                        plugins: plugins(browser),
                    },
                );
            }
            phases.insert(name, phase);
        }
        if !browsers.is_empty() && running.len() == browsers.len() {
            return Ok(running.into_values().collect());
        }
        thread::sleep(LOOK);
    }
    bail!("not all sessions run after {} s", patience.as_secs())
}

/// Creates a Browser that no BrowserConfig serves, and shows its end: the operator reports why, and deletes it.
pub(crate) fn fail_one(cluster: &Cluster) -> Result<()> {
    apply(cluster, UNSERVED)?;
    let start = Instant::now();
    let mut shown = String::new();
    while start.elapsed() < Duration::from_secs(20) {
        let output = run::output(cluster.kubectl().args([
            "get",
            "browser",
            "unserved",
            "--namespace",
            NAMESPACE,
            "--ignore-not-found",
            "--output",
            "json",
        ]))?;
        if output.trim().is_empty() {
            break;
        }
        let browser: Value = serde_json::from_str(&output)?;
        let condition = browser
            .pointer("/status/conditions/0/message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !condition.is_empty() && condition != shown {
            screen::step(
                start.elapsed().as_millis(),
                &format!("{}: {condition}", text(&browser, "/status/phase")),
            );
            condition.clone_into(&mut shown);
        }
        thread::sleep(LOOK);
    }
    screen::line("the failed session was taken away; its Events stay:");
    run::succeed(cluster.kubectl().args([
        "events",
        "--namespace",
        NAMESPACE,
        "--for",
        "browser/unserved",
    ]))
}

/// Deletes all sessions and waits until they and their pods are gone.
pub(crate) fn delete_all(cluster: &Cluster, examples: &Path, patience: Duration) -> Result<()> {
    let start = Instant::now();
    let wait = format!("--timeout={}s", patience.as_secs());
    run::succeed(cluster.kubectl().args([
        "delete",
        "--filename",
        &examples.join("browsers.yaml").to_string_lossy(),
        &wait,
    ]))?;
    let pods = run::output(cluster.get_pods().args(["--output", "name"]))?;
    if !pods.trim().is_empty() {
        bail!("pods are left over: {pods}");
    }
    screen::step(
        start.elapsed().as_millis(),
        "all sessions and their pods are gone",
    );
    Ok(())
}

fn list(mut kubectl: Command) -> Result<Vec<Value>> {
    let output = run::output(kubectl.args([
        "get",
        "browsers",
        "--namespace",
        NAMESPACE,
        "--output",
        "json",
    ]))?;
    let list: Value = serde_json::from_str(&output)?;
    let items = list.get("items").and_then(Value::as_array);
    items.cloned().context("kubectl printed no list")
}

fn plugins(browser: &Value) -> String {
    let plugins = browser
        .pointer("/status/mutations/plugins")
        .and_then(Value::as_array);
    let written: Vec<String> = plugins
        .into_iter()
        .flatten()
        .map(|plugin| {
            let writes = plugin
                .get("writes")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            format!("{} {writes}", text(plugin, "/name"))
        })
        .collect();
    format!("writes: {}", written.join(", "))
}

fn text(object: &Value, pointer: &str) -> String {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Applies a manifest.
pub(crate) fn apply(cluster: &Cluster, manifest: &str) -> Result<()> {
    feed(cluster.kubectl().args(["apply", "-f", "-"]), manifest)
}

/// Deletes what a manifest names, and waits until it is gone.
pub(crate) fn delete(cluster: &Cluster, manifest: &str) -> Result<()> {
    feed(cluster.kubectl().args(["delete", "-f", "-"]), manifest)
}

/// Runs a program with something to read.
fn feed(command: &mut Command, input: &str) -> Result<()> {
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(stdin) = &mut child.stdin {
        stdin.write_all(input.as_bytes())?;
    }
    drop(child.stdin.take());
    let status = child.wait()?;
    if !status.success() {
        bail!("{} failed ({status})", run::display(command));
    }
    Ok(())
}
