//! Remembers the latest pods that came to the chain, for people who look at the console. It keeps names, paths and counts, never values,
//! and only so much of them.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

use jiff::Timestamp;
use podloom_mutation::{MutatedPod, PluginRun, PodRejection, PodRequest, RejectedPod, runs};
use podloom_turns::lock;
use serde::Serialize;

use crate::output;

/// How many pods are remembered.
const PODS: usize = 50;
/// How much text the paths of one pod may take, in bytes. The rest is only counted.
const PATHS_BYTES: usize = 4096;
/// The longest name or path, in bytes. Both may come from a pod that the API server has not checked yet.
const TEXT_BYTES: usize = 256;
/// What a path takes besides its text.
const PATH_COST: usize = 16;

/// The latest pods that came to the chain.
#[derive(Default)]
pub(crate) struct RecentPods(Mutex<VecDeque<RecentPod>>);

/// A pod that came to the chain, as the console shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecentPod {
    /// The how manieth pod it was, from 1.
    pub(crate) number: u64,
    /// When it came.
    at: String,
    /// The kind of the object that it is made for.
    kind: &'static str,
    namespace: String,
    /// The name of that object; empty if the API server will make one.
    pub(crate) name: String,
    dry_run: bool,
    /// What became of it, in one word.
    pub(crate) verdict: &'static str,
    /// How long it took, with waiting.
    milliseconds: f64,
    /// What each plugin did, in order.
    #[serde(rename = "plugins")]
    pub(crate) runs: Vec<RecentRun>,
}

/// What one plugin did with a pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecentRun {
    #[serde(rename = "name")]
    plugin: String,
    /// How its run ended, in one word.
    pub(crate) outcome: &'static str,
    pub(crate) writes: usize,
    /// How many writes failed because they were not granted.
    pub(crate) refused_writes: usize,
    /// The first of the paths that it wrote, each once.
    pub(crate) paths: Vec<String>,
}

impl RecentPod {
    /// A pod that passes the chain now.
    pub(super) fn of(request: &PodRequest) -> Self {
        Self {
            number: 0,
            at: Timestamp::now().to_string(),
            kind: request.kind,
            namespace: short(&request.namespace),
            name: short(&request.name),
            dry_run: request.dry_run,
            verdict: "broken",
            milliseconds: 0.0,
            runs: Vec::new(),
        }
    }
}

impl RecentPods {
    /// The latest first.
    pub(crate) fn latest(&self) -> Vec<RecentPod> {
        lock(&self.0).iter().rev().cloned().collect()
    }

    /// Remembers what became of a pod that came at this moment; none if the chain panicked.
    pub(super) fn add(
        &self,
        mut pod: RecentPod,
        began: Instant,
        result: Option<&Result<MutatedPod, RejectedPod>>,
    ) {
        pod.milliseconds = began.elapsed().as_secs_f64() * 1000.0;
        if let Some(result) = result {
            pod.verdict = match result {
                Ok(_) => "allowed",
                Err(rejected) => verdict(&rejected.rejection),
            };
            let mut room = PATHS_BYTES;
            let runs = runs(result).iter();
            pod.runs = runs.map(|run| recent(run, &mut room)).collect();
        }
        let mut pods = lock(&self.0);
        pod.number = pods.back().map_or(0, |latest| latest.number) + 1;
        if pods.len() == PODS {
            pods.pop_front();
        }
        pods.push_back(pod);
    }
}

/// Without the reason, which may quote values: who may forward a port need not be one who may read pods.
const fn verdict(rejection: &PodRejection) -> &'static str {
    match rejection {
        PodRejection::Denied(_) => "denied",
        PodRejection::Overdue(_) => "overdue",
        PodRejection::Broken(_)
        | PodRejection::Unread(_)
        | PodRejection::Invalid(_)
        | PodRejection::Forbidden(_) => "broken",
    }
}

/// Takes what its paths need of the room.
fn recent(run: &PluginRun, room: &mut usize) -> RecentRun {
    let mut paths: Vec<String> = Vec::new();
    for write in &run.writes {
        let cost = write.path.len().min(TEXT_BYTES) + PATH_COST;
        if *room < cost {
            break;
        }
        let path = short(&write.path);
        if paths.iter().all(|shown| *shown != path) {
            *room -= cost;
            paths.push(path);
        }
    }
    RecentRun {
        plugin: run.plugin.clone(),
        outcome: run.outcome.as_str(),
        writes: run.writes.len(),
        refused_writes: run.refused_writes,
        paths,
    }
}

fn short(text: &str) -> String {
    output::short(text, TEXT_BYTES, "...").into_owned()
}

#[cfg(test)]
mod tests;
