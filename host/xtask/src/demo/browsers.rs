//! Sessions as they come and go.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::operator::{Operator, Volume};
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

/// How long a changed bundle may take to serve.
const PATIENCE: Duration = Duration::from_secs(30);
/// The label that only pods made by the new chain have.
const LABEL: &str = "shown-by";

/// A session that is started after the swap.
const NEXT: &str = r#"{
    "apiVersion": "selenosis.io/v1",
    "kind": "Browser",
    "metadata": { "name": "after-swap", "namespace": "shop-tests" },
    "spec": { "browserName": "chrome", "browserVersion": "139.0" }
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
                start.elapsed(),
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
    cluster.apply(UNSERVED)?;
    let start = Instant::now();
    let mut shown = String::new();
    while start.elapsed() < Duration::from_secs(20) {
        let get = [
            "get",
            "browser",
            "unserved",
            "--ignore-not-found",
            "--output=json",
        ];
        let output = run::output(cluster.kubectl_in(NAMESPACE).args(get))?;
        if output.trim().is_empty() {
            break;
        }
        let browser: Value = serde_json::from_str(&output)?;
        let condition = text(&browser, "/status/conditions/0/message");
        if !condition.is_empty() && condition != shown {
            screen::step(
                start.elapsed(),
                &format!("{}: {condition}", text(&browser, "/status/phase")),
            );
            shown = condition;
        }
        thread::sleep(LOOK);
    }
    screen::line("the failed session was taken away; its Events stay:");
    let events = ["events", "--for", "browser/unserved"];
    run::succeed(cluster.kubectl_in(NAMESPACE).args(events))
}

/// Deletes all sessions and waits until they and their pods are gone.
pub(crate) fn delete_all(cluster: &Cluster, examples: &Path, patience: Duration) -> Result<()> {
    let start = Instant::now();
    let wait = format!("--timeout={}s", patience.as_secs());
    let file = examples.join("browsers.yaml");
    let mut delete = cluster.kubectl();
    run::succeed(delete.args(["delete", &wait, "--filename"]).arg(file))?;
    let pods = run::output(cluster.get_pods().args(["--output", "name"]))?;
    if !pods.trim().is_empty() {
        bail!("pods are left over: {pods}");
    }
    screen::step(start.elapsed(), "all sessions and their pods are gone");
    Ok(())
}

fn list(mut kubectl: Command) -> Result<Vec<Value>> {
    let get = ["get", "browsers", "--namespace", NAMESPACE, "--output=json"];
    let output = run::output(kubectl.args(get))?;
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

/// Swaps the bundle and shows that the next pod is another one, and that those that run are as they were.
pub(crate) fn reload(cluster: &Cluster, operator: &Operator, volume: &Volume) -> Result<Duration> {
    let (chain, running) = (chain(operator)?, pods(cluster)?);
    let swapped = Instant::now();
    volume.add_label()?;
    let new = until(operator, |plugins| {
        let now = plugins.get("chain")?.as_str()?;
        (now != chain).then(|| now.to_owned())
    })?;
    let took = swapped.elapsed();
    screen::step(
        took,
        &format!("chain {new:.12} serves in place of {chain:.12}"),
    );
    cluster.apply(NEXT)?;
    until_running(|| cluster.kubectl(), PATIENCE)?;
    run::succeed(cluster.get_pods().args(["--label-columns", LABEL]))?;
    let now = pods(cluster)?;
    if !running.iter().all(|pod| now.contains(pod)) {
        bail!("running pods were changed: {running:?} became {now:?}");
    }
    screen::line(
        "the pod that was made after the swap has the label; those that run were not touched.",
    );

    cluster.delete(NEXT)?;

    volume.truncate_plugin()?;
    let message = until(operator, |plugins| {
        let message = plugins.pointer("/lastError/message")?.as_str()?;
        Some(message.to_owned())
    })?;
    screen::line("then half of a plugin's file goes missing, and the last good chain goes on:");
    screen::line(&message);
    volume.add_label()?;
    until(operator, |plugins| {
        plugins.get("lastError")?.is_null().then_some(())
    })?;
    Ok(took)
}

fn chain(operator: &Operator) -> Result<String> {
    let plugins = operator.plugins()?;
    let chain = plugins.get("chain").and_then(Value::as_str);
    Ok(chain.context("no chain serves")?.to_owned())
}

fn until<T>(operator: &Operator, seen: impl Fn(&Value) -> Option<T>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        operator.check_alive()?;
        if let Some(found) = seen(&operator.plugins()?) {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(5));
    }
    operator.print_log();
    bail!(
        "the changed plugins do not serve after {} s",
        PATIENCE.as_secs()
    )
}

/// Each session's pod: name, UID and what is in it.
fn pods(cluster: &Cluster) -> Result<Vec<(String, String, Value)>> {
    let output = run::output(cluster.get_pods().args(["--output", "json"]))?;
    let list: Value = serde_json::from_str(&output)?;
    let items = list.get("items").and_then(Value::as_array);
    let pod = |pod: &Value| {
        (
            text(pod, "/metadata/name"),
            text(pod, "/metadata/uid"),
            pod.get("spec").cloned().unwrap_or_default(),
        )
    };
    Ok(items.into_iter().flatten().map(pod).collect())
}
