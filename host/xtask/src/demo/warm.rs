//! Sessions that take pods which wait for them, beside sessions that do not.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Built, Cluster, Live, NAMESPACE, PATIENCE, screen};
use crate::run;

/// How many sessions begin at once.
const SESSIONS: usize = 3;
const VERSION: &str = "139.0";
const CONFIG: &str = "chrome";
/// A line for each change of a Browser.
const CHANGES: &str =
    "--output=jsonpath={.metadata.name};{.status.phase};{.status.podName}{\"\\n\"}";
/// How many pods wait.
const READY: &str = "--output=jsonpath={.status.warm.ready}";

/// Starts sessions without pods that wait, and then with them.
pub(super) fn show(_: &Built, live: &mut Live) -> Result<()> {
    let cluster = &live.cluster;
    let cold = begin(cluster, "cold")?;
    let pool = format!(r#"{{"min": {SESSIONS}, "max": 5}}"#);
    keep(
        cluster,
        &format!(r#"{{"chrome": {{"{VERSION}": {pool}}}}}"#),
    )?;
    until_ready(cluster)?;
    let list = ["get", "browserconfig", CONFIG];
    run::succeed(cluster.kubectl_in(NAMESPACE).args(list))?;
    let warm = begin(cluster, "warm")?;
    for (cold, warm) in cold.iter().zip(&warm) {
        screen::line(&format!(
            "{} ran after {:>4} ms; {} after {:>4} ms, in {}",
            cold.name,
            cold.time.as_millis(),
            warm.name,
            warm.time.as_millis(),
            warm.pod
        ));
    }
    screen::line("the nodes here start a pod at once: on real ones, the first takes seconds");
    if warm.iter().all(|session| session.pod.is_empty()) {
        bail!("no session took a pod that waited");
    }
    keep(cluster, "null")?;
    let names = cold.iter().chain(&warm).map(|session| &session.name);
    run::succeed(
        cluster
            .kubectl_in(NAMESPACE)
            .args(["delete", "browsers"])
            .args(names),
    )
}

/// A session that runs.
struct Session {
    name: String,
    /// From when a watch showed the Browser until it showed that it runs.
    time: Duration,
    /// The pod that it took; empty if one was made for it.
    pod: String,
}

/// Starts sessions with these names.
fn begin(cluster: &Cluster, name: &str) -> Result<Vec<Session>> {
    let mut watch = cluster.kubectl_in(NAMESPACE);
    watch.args(["get", "browsers", "--watch", CHANGES]);
    let mut watch = watch.stdout(Stdio::piped()).spawn()?;
    let output = watch.stdout.take().context("kubectl has an output")?;
    let (sender, changes) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody waits any more.
            let _done = sender.send((Instant::now(), line));
        }
    });
    // So that it watches before they are created: it shows the sessions that there are.
    let first = changes.recv_timeout(PATIENCE);
    first.context("kubectl shows no session")?;
    let manifests: Vec<String> = (0..SESSIONS)
        .map(|number| {
            format!(
                "apiVersion: selenosis.io/v1\nkind: Browser\nmetadata: {{ name: {name}-{number}, namespace: {NAMESPACE} }}\n\
                 spec: {{ browserName: chrome, browserVersion: '{VERSION}' }}\n"
            )
        })
        .collect();
    cluster.apply(&manifests.join("---\n"))?;
    let sessions = until_all_run(&changes, name);
    let _already_ended = watch.kill();
    watch.wait()?;
    sessions
}

fn until_all_run(changes: &Receiver<(Instant, String)>, prefix: &str) -> Result<Vec<Session>> {
    let mut begun: HashMap<String, Instant> = HashMap::new();
    let mut sessions = Vec::new();
    while sessions.len() < SESSIONS {
        let (at, line) = changes
            .recv_timeout(PATIENCE)
            .context("the sessions do not run")?;
        let mut words = line.split(';').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (name, phase, pod) = (word(), word(), word());
        if !name.starts_with(prefix) {
            continue;
        }
        let since = *begun.entry(name.clone()).or_insert(at);
        let is_known = sessions.iter().any(|it: &Session| it.name == name);
        if phase == "Running" && !is_known {
            let time = at - since;
            sessions.push(Session { name, time, pod });
        }
    }
    Ok(sessions)
}

/// Has these pods wait.
fn keep(cluster: &Cluster, pools: &str) -> Result<()> {
    let patch = format!(r#"{{"spec": {{"warm": {pools}}}}}"#);
    let arguments = ["patch", "browserconfig", CONFIG, "--type=merge", "--patch"];
    run::succeed(
        cluster
            .kubectl_in(NAMESPACE)
            .args(arguments)
            .arg(patch)
            .stdout(Stdio::null()),
    )
}

fn until_ready(cluster: &Cluster) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let mut get = cluster.kubectl_in(NAMESPACE);
        let ready = get.args(["get", "browserconfig", CONFIG, READY]).output()?;
        if String::from_utf8_lossy(&ready.stdout).parse() == Ok(SESSIONS) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("the pods were not ready in {} s", PATIENCE.as_secs())
}
