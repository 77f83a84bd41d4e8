//! Checks that nothing is lost, doubled or left over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use podloom_api::{Browser, Phase};
use serde_json::Value;
use tokio::time::{interval, sleep};

use crate::stage::Stage;

/// How long everything may take to settle once there are no more faults: a minute until silent connections are noticed, the longest
/// backoff, and the work itself.
const SETTLE: Duration = Duration::from_secs(150);
/// How often to check.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How much the memory of one process may grow from its first quiet point to the end.
const GROWTH_KIB: u64 = 24 * 1024;
/// How far apart in time a pod's creation and its creator's readiness may be.
const TOLERANCE: Duration = Duration::from_secs(3);

/// Waits until every Browser has what it needs.
pub(crate) async fn all_settle(stage: &Stage) {
    let begun = Instant::now();
    let mut ticks = interval(CHECK_INTERVAL);
    loop {
        ticks.tick().await;
        let unsettled = match unsettled(stage).await {
            Ok(unsettled) if unsettled.is_empty() => break,
            Ok(unsettled) => unsettled,
            Err(error) => vec![error.to_string()],
        };
        if begun.elapsed() > SETTLE {
            for what in unsettled.iter().take(5) {
                stage
                    .findings
                    .add(format!("not settled after {} s: {what}", SETTLE.as_secs()));
            }
            let more = unsettled.len().saturating_sub(5);
            if more > 0 {
                stage.findings.add(format!("not settled: {more} more"));
            }
            return;
        }
    }
    eprintln!(
        "soak: {} Browsers, all settled after {:.0} s",
        stage.ledger.alive().len(),
        begun.elapsed().as_secs_f64()
    );
}

/// The Browsers that lack something, each with its status.
async fn unsettled(stage: &Stage) -> kube::Result<Vec<String>> {
    let browsers = stage.scene.browsers().list(&ListParams::default()).await?;
    let pods = stage
        .scene
        .pods()
        .list_metadata(&ListParams::default())
        .await?;
    let pods: BTreeSet<String> = pods.items.iter().filter_map(ResourceExt::uid).collect();
    let describe = |browser: &Browser| {
        let status = serde_json::to_string(&browser.status).unwrap_or_default();
        let going = match browser.metadata.deletion_timestamp {
            Some(_) => " (being deleted)",
            None => "",
        };
        format!("{}{going}: {status}", browser.name_any())
    };
    let waiting = browsers
        .items
        .iter()
        .filter(|browser| waits(browser, &pods));
    Ok(waiting.map(describe).collect())
}

/// Whether a Browser still lacks what it needs: a running pod, and the one that its status names.
fn waits(browser: &Browser, pods: &BTreeSet<String>) -> bool {
    let status = browser.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    let pod_uid = status.and_then(|status| status.pod_uid.as_ref());
    let has_pod = pod_uid.is_some_and(|uid| pods.contains(uid));
    !(phase == Some(Phase::Running) && has_pod && browser.metadata.deletion_timestamp.is_none())
}

/// Waits until no Browser and no pod is left; `there` is the number of Browsers before.
pub(crate) async fn nothing_is_left(stage: &Stage, begun: Instant, there: usize) {
    loop {
        let all = ListParams::default();
        let browsers = stage.scene.browsers().list_metadata(&all).await;
        let pods = stage.scene.pods().list_metadata(&all).await;
        let left = match (browsers, pods) {
            (Ok(browsers), Ok(pods)) if browsers.items.is_empty() && pods.items.is_empty() => {
                eprintln!(
                    "soak: {there} Browsers deleted, and nothing is left after {:.1} s",
                    begun.elapsed().as_secs_f64()
                );
                return;
            }
            (Ok(browsers), Ok(pods)) => format!(
                "{} Browsers, {} pods",
                browsers.items.len(),
                pods.items.len()
            ),
            (Err(error), _) | (_, Err(error)) => format!("could not list what is left: {error}"),
        };
        if begun.elapsed() > SETTLE {
            let finding = format!("left over after {} s: {left}", SETTLE.as_secs());
            stage.findings.add(finding);
            return;
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Checks what can only be checked at the end.
pub(crate) fn judge(stage: &Stage) {
    memory(stage);
    match pods_made(stage) {
        Ok(made) if made.is_empty() => stage
            .findings
            .add("no pod was created, so the run proves nothing".to_owned()),
        Ok(made) => created_once_and_by_ready_replicas(stage, &made),
        Err(error) => stage.findings.add(format!("the audit log: {error}")),
    }
}

fn memory(stage: &Stage) {
    for replica in &stage.replicas {
        let memory = replica.memory();
        eprintln!(
            "soak: memory of {} at its quiet points since its last start: {:?} KiB",
            replica.name, memory
        );
        if let Some(grown) = grown(&memory) {
            stage.findings.add(format!("{} {grown}", replica.name));
        }
    }
}

/// How much a process has grown, if that is too much. The first measurement is after a warm-up.
fn grown(memory: &[u64]) -> Option<String> {
    let (first, last) = (memory.first()?, memory.last()?);
    (last.saturating_sub(*first) > GROWTH_KIB).then(|| format!("grew from {first} to {last} KiB"))
}

/// A pod's creation: its name, by whom and when.
struct PodCreation {
    name: String,
    user: String,
    at: Timestamp,
}

fn pods_made(stage: &Stage) -> std::io::Result<Vec<PodCreation>> {
    let mut made = Vec::new();
    for log in audit_logs(&stage.scene.cluster.plane.audit_log())? {
        for line in BufReader::new(File::open(log)?).lines() {
            let line = line?;
            if line.contains("\"create\"") {
                made.extend(pod_made(&line));
            }
        }
    }
    Ok(made)
}

/// The audit log, and the files into which the API server has rotated it: `audit-<time>.log` beside `audit.log`.
fn audit_logs(current: &Path) -> std::io::Result<Vec<PathBuf>> {
    let directory = current.parent().unwrap_or(Path::new("."));
    let mut logs = Vec::new();
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("audit") && name.ends_with(".log")) {
            logs.push(path);
        }
    }
    Ok(logs)
}

/// The creation of a pod in a line of the audit log, if it is one. The last line may be half written.
fn pod_made(line: &str) -> Option<PodCreation> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let is_made = entry["verb"] == "create"
        && entry["objectRef"]["resource"] == "pods"
        && entry["objectRef"].get("subresource").is_none()
        && entry["responseStatus"]["code"] == 201;
    if !is_made {
        return None;
    }
    Some(PodCreation {
        name: entry["objectRef"]["name"].as_str()?.to_owned(),
        user: entry["user"]["username"].as_str()?.to_owned(),
        at: entry["requestReceivedTimestamp"].as_str()?.parse().ok()?,
    })
}

fn created_once_and_by_ready_replicas(stage: &Stage, made: &[PodCreation]) {
    eprintln!("soak: {} pods were created", made.len());
    for doubled in doubled(made) {
        stage.findings.add(doubled);
    }
    let mut unready: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for pod in made {
        let maker = stage
            .replicas
            .iter()
            .find(|replica| replica.user == pod.user);
        let was_ready =
            maker.and_then(|maker| maker.was_ready(pod.at - TOLERANCE, pod.at + TOLERANCE));
        if was_ready == Some(false) {
            unready.entry(&pod.user).or_default().push(pod.at);
        }
    }
    for (user, times) in unready {
        let (first, count) = (times.first(), times.len());
        stage.findings.add(format!(
            "{user} created {count} pods while it was not ready, first {first:?}"
        ));
    }
}

/// Names with more than one pod. Names are never reused, so each must have one.
fn doubled(made: &[PodCreation]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in made {
        *by_name.entry(&pod.name).or_default() += 1;
    }
    let doubled = by_name.into_iter().filter(|(_, count)| *count > 1);
    doubled
        .map(|(name, count)| format!("{count} pods were created for {name}"))
        .collect()
}

#[cfg(test)]
mod tests;
