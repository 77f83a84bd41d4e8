//! Remembers the latest pods that came to the chain, for people who look at the console. It keeps names, paths and counts, never values,
//! and only so much of them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use podloom_mutation::{MutatedPod, PluginRun, PodRejection, PodRequest, RejectedPod, runs};

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
pub(crate) struct RecentPods(Mutex<Passed>);

#[derive(Default)]
struct Passed {
    /// How many there were in all.
    count: u64,
    pods: VecDeque<RecentPod>,
}

/// A pod that came to the chain.
#[derive(Clone, Debug)]
pub(crate) struct RecentPod {
    /// The how manieth pod it was, from 1.
    pub(crate) number: u64,
    /// When it came.
    pub(crate) at: SystemTime,
    /// The kind of the object that it is made for.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    /// The name of that object; empty if the API server will make one.
    pub(crate) name: String,
    pub(crate) dry_run: bool,
    /// What became of it, in one word.
    pub(crate) verdict: &'static str,
    /// How long it took, with waiting.
    pub(crate) took: Duration,
    /// What each plugin did, in order.
    pub(crate) runs: Vec<RecentRun>,
}

/// What one plugin did with a pod.
#[derive(Clone, Debug)]
pub(crate) struct RecentRun {
    pub(crate) plugin: String,
    /// How its run ended, in one word.
    pub(crate) outcome: &'static str,
    pub(crate) writes: usize,
    /// How many writes failed because they were not granted.
    pub(crate) refused_writes: usize,
    /// The first of the paths that it wrote, each once.
    pub(crate) paths: Vec<String>,
}

/// A pod that passes the chain now.
pub(super) struct Passing {
    pod: RecentPod,
    began: Instant,
}

impl Passing {
    pub(super) fn begin(request: &PodRequest) -> Self {
        Self {
            pod: RecentPod {
                number: 0,
                at: SystemTime::now(),
                kind: request.kind,
                namespace: short(&request.namespace).into_owned(),
                name: short(&request.name).into_owned(),
                dry_run: request.dry_run,
                verdict: "broken",
                took: Duration::ZERO,
                runs: Vec::new(),
            },
            began: Instant::now(),
        }
    }
}

impl RecentPods {
    /// The latest first.
    pub(crate) fn latest(&self) -> Vec<RecentPod> {
        let passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.pods.iter().rev().cloned().collect()
    }

    /// Remembers what became of a pod; none if the chain panicked.
    pub(super) fn add(&self, passing: Passing, result: Option<&Result<MutatedPod, RejectedPod>>) {
        let mut pod = passing.pod;
        pod.took = passing.began.elapsed();
        if let Some(result) = result {
            pod.verdict = match result {
                Ok(_) => "allowed",
                Err(rejected) => verdict(&rejected.rejection),
            };
            let mut room = PATHS_BYTES;
            pod.runs = runs(result)
                .iter()
                .map(|run| recent(run, &mut room))
                .collect();
        }
        let mut passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.count += 1;
        pod.number = passed.count;
        if passed.pods.len() == PODS {
            passed.pods.pop_front();
        }
        passed.pods.push_back(pod);
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
            paths.push(path.into_owned());
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

fn short(text: &str) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(TEXT_BYTES)) {
        Some(start) if start.len() < text.len() => format!("{start}...").into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests;
