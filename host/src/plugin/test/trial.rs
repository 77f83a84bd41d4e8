//! Runs a plugin on one pod, several times.

use std::sync::Arc;
use std::time::Duration;

use podloom_mutation::{MutatedPod, PluginRun, PodRejection, RejectedPod, Write};
use podloom_mutators::{Chain, Plugin};
use podloom_pod_path::{Access, Grants, Transaction};
use serde_json::Value;

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
        covering: covering(&subject.pod, &run.writes, &paths),
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

// Which grants cover a write.
//
// The record of a write names an element by its index if the list has no merge key, but a grant names it by a selector.

/// For each write, the grants among these that cover it.
pub(super) fn covering(pod: &Value, writes: &[Write], grants: &[String]) -> Vec<Vec<String>> {
    let access = Arc::new(Access::unrestricted());
    let mut pod = Transaction::begin(pod.clone(), access, [].into());
    let mut covering = Vec::with_capacity(writes.len());
    for write in writes {
        let before = matching(&pod, &write.path, grants);
        repeat(&mut pod, write);
        let after = matching(&pod, &write.path, grants);
        let found = if is_new_element(write) {
            after
        } else if write.new.is_none() {
            before
        } else {
            // A write that changes the field of the selector is covered by neither name.
            before
                .into_iter()
                .filter(|grant| after.contains(grant))
                .collect()
        };
        covering.push(found);
    }
    covering
}

/// Whether a grant covers the path of a write, or another grant.
pub(super) fn covers(grant: &str, path: &str) -> bool {
    match (Grants::parse(&[grant]), granted(path)) {
        (Ok(grant), Some(path)) => grant.covers(&path).is_ok(),
        _ => false,
    }
}

fn matching(pod: &Transaction, path: &str, grants: &[String]) -> Vec<String> {
    let covering = grants
        .iter()
        .filter(|grant| covers(grant, path) || covers(grant, &with_selectors(pod, path, grant)));
    covering.cloned().collect()
}

/// The path with the selectors of a grant instead of indices, where both name the same element.
fn with_selectors(pod: &Transaction, path: &str, grant: &str) -> String {
    let mut named = String::with_capacity(path.len());
    let mut grant = grant.split('/').skip(1);
    for segment in path.split('/').skip(1) {
        let selector = grant.next().filter(|granted| granted.starts_with('['));
        let by_index = format!("{named}/{segment}");
        named = match selector {
            Some(selector) if is_index(segment) => {
                let by_selector = format!("{named}/{selector}");
                match (pod.get(&by_index), pod.get(&by_selector)) {
                    (Ok(Some(element)), Ok(Some(selected))) if element == selected => by_selector,
                    _ => by_index,
                }
            }
            _ => by_index,
        };
    }
    named
}

/// Repeats a write. It succeeded before, so what fails here changes only which later elements are found.
fn repeat(pod: &mut Transaction, write: &Write) {
    let path = &write.path;
    let _repeated = match &write.new {
        None => pod.remove(path).map(drop),
        Some(new) if is_new_element(write) => {
            let inserted = pod.insert(path, new.clone());
            // A missing list is made only by appending to it.
            inserted.or_else(|_| pod.set(&end_of_list(path), new.clone()))
        }
        Some(new) => pod.set(path, new.clone()),
    };
}

/// Whether a write inserted or appended an element that it names by its index.
fn is_new_element(write: &Write) -> bool {
    write.old.is_none() && write.new.is_some() && is_index(last(&write.path))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn end_of_list(path: &str) -> String {
    let list = path.strip_suffix(last(path)).unwrap_or(path);
    format!("{list}-")
}

/// A path as a grant: list indices become `*`, since grants have none.
fn granted(path: &str) -> Option<Grants> {
    let any = path
        .split('/')
        .map(|segment| if is_index(segment) { "*" } else { segment });
    let any = any.collect::<Vec<_>>().join("/");
    let parsed = Grants::parse(&[path]).or_else(|_| Grants::parse(&[any]));
    parsed.ok()
}

fn is_index(segment: &str) -> bool {
    segment.parse::<usize>().is_ok()
}

#[cfg(test)]
mod tests;
