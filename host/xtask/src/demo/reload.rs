//! Plugins change while sessions run.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::operator::Operator;
use super::volume::Volume;
use super::{Cluster, browsers, screen};
use crate::run;

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

/// Swaps the bundle and shows that the next pod is another one, and that those that run are as they were.
pub(crate) fn show(cluster: &Cluster, operator: &Operator, volume: &Volume) -> Result<Duration> {
    let (chain, running) = (chain(operator)?, pods(cluster)?);
    let swapped = Instant::now();
    volume.add_label()?;
    let new = until(operator, |plugins| {
        let now = plugins.get("chain")?.as_str()?;
        (now != chain).then(|| now.to_owned())
    })?;
    let took = swapped.elapsed();
    screen::step(
        took.as_millis(),
        &format!("chain {new:.12} serves in place of {chain:.12}"),
    );
    browsers::apply(cluster, NEXT)?;
    browsers::until_running(|| cluster.kubectl(), PATIENCE)?;
    run::succeed(cluster.get_pods().args(["--label-columns", LABEL]))?;
    let now = pods(cluster)?;
    if !running.iter().all(|pod| now.contains(pod)) {
        bail!("running pods were changed: {running:?} became {now:?}");
    }
    screen::line(
        "the pod that was made after the swap has the label; those that run were not touched.",
    );

    browsers::delete(cluster, NEXT)?;

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
    let text = |pod: &Value, field: &str| {
        let value = pod.pointer(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let pod = |pod: &Value| {
        (
            text(pod, "/metadata/name"),
            text(pod, "/metadata/uid"),
            pod.get("spec").cloned().unwrap_or_default(),
        )
    };
    Ok(items.into_iter().flatten().map(pod).collect())
}
