//! Runs a plugin on one pod, several times.

use std::sync::Arc;
use std::time::Duration;

use podloom_mutation::{MutatedPod, PluginRun, PodRejection, RejectedPod};
use podloom_mutators::{Chain, Plugin};
use serde_json::Value;

use super::coverage;
use crate::explain;
use crate::render::pod::Subject;

/// How many calls are timed. Odd, so that one of them is the median.
pub(super) const CALLS: usize = 21;

/// The results of a plugin on one pod.
pub(super) struct Trial {
    pub(super) pod: Value,
    pub(super) run: PluginRun,
    /// For each write of the run, which of the paths that the plugin asks for, or is granted, cover it.
    pub(super) covering: Vec<Vec<String>>,
    pub(super) is_deterministic: bool,
    /// The paths that a second run over the result wrote, or why it was rejected.
    pub(super) again: Result<Vec<String>, String>,
    pub(super) median: Duration,
}

/// Runs a chain of one plugin on a pod.
pub(super) fn of(chain: &Chain, subject: &Subject) -> Result<Trial, RejectedPod> {
    let request = Arc::new(subject.request.clone());
    let call = |pod: &Value| chain.mutate(pod.clone(), Arc::clone(&request));
    let first = call(&subject.pod)?;
    let mut is_deterministic = true;
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let next = call(&subject.pod);
        is_deterministic &= next.as_ref().is_ok_and(|next| next.pod == first.pod);
        let runs = next.iter().flat_map(|next| &next.runs);
        times.extend(runs.map(|run| run.duration));
    }
    times.sort_unstable();
    let again = call(&first.pod)
        .map(|again| {
            let writes = again.runs.into_iter().flat_map(|run| run.writes);
            writes.map(|write| write.path).collect()
        })
        .map_err(|rejected| rejected.to_string());
    let MutatedPod { pod, runs, .. } = first;
    let run = runs
        .into_iter()
        .next()
        .ok_or_else(|| PodRejection::Broken("the chain of one plugin ran none".to_owned()))?;
    let plugins = chain.plugins().iter();
    let paths: Vec<String> = plugins
        .flat_map(|plugin| plugin.description.writes.iter().chain(plugin.allow.iter()))
        .cloned()
        .collect();
    Ok(Trial {
        pod,
        covering: coverage::covering(&subject.pod, &run.writes, &paths),
        run,
        is_deterministic,
        again,
        median: times.get(times.len() / 2).copied().unwrap_or_default(),
    })
}

impl Trial {
    pub(super) fn is_idempotent(&self) -> bool {
        self.again.as_ref().is_ok_and(Vec::is_empty)
    }

    /// The errors of a plugin that violates its contract: it must be deterministic, idempotent unless its chain says otherwise, and
    /// ask for every write.
    pub(super) fn violations(&self, plugin: &Plugin, subject: &Subject) -> Vec<String> {
        let mut broken = Vec::new();
        if !self.is_deterministic {
            broken.push(
                "the plugin is not deterministic: equal pods gave different results".to_owned(),
            );
        }
        match &self.again {
            Ok(paths) if paths.is_empty() || !plugin.idempotent => {}
            Ok(paths) => broken.push(format!(
                "the plugin is not idempotent: run again over its own result it writes {}",
                paths.join(", ")
            )),
            Err(reason) => broken.push(format!("run again over its own result: {reason}")),
        }
        // With a selector, a write may be denied even if it was asked for: plugins may not change labels that the selector matches.
        if self.run.refused_writes > 0 && subject.request.selector.is_empty() {
            broken.push(format!(
                "the plugin tried {} that it does not ask for; add `.write(...)` with the paths in its `needs`",
                explain::count(self.run.refused_writes, "write")
            ));
        }
        let asked = &plugin.description.writes;
        let writes = self.run.writes.iter().zip(&self.covering);
        let beyond: Vec<&str> = writes
            .filter(|(_, covering)| !asked.iter().any(|asked| covering.contains(asked)))
            .map(|(write, _)| write.path.as_str())
            .collect();
        if !beyond.is_empty() {
            broken.push(format!(
                "the plugin writes paths that it does not ask for; add `.write(...)` in its `needs` for: {}",
                beyond.join(", ")
            ));
        }
        broken
    }
}
