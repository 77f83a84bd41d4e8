//! The state that the page shows, as JSON: names, versions, grants, paths and counts; no configuration and nothing of pods.

use std::collections::BTreeMap;

use podloom_mutators::{Chain, Plugin};
use serde_json::{Value, json};

use super::Console;
use super::samples::{Sample, Samples};
use crate::mutator::RecentPod;
use crate::run::chain_state::{self, timestamp};
use crate::run::checks::{checks, is_ready};
use crate::run::history::Attempt;
use crate::run::state::{OperatorState, Role};

const OBJECTS: &str = "podloom_objects";
const CALLS: &str = "podloom_plugin_call_duration_seconds_bucket";
const DRIFT: &str = "podloom_drift_pods";
const LOOKS: &str = "podloom_drift_looks_total";

/// How much text the paths of one list of grants may take, in bytes. The rest is only counted.
const GRANTS_BYTES: usize = 4096;
/// How many namespaces with drift are shown.
const NAMESPACES: usize = 10;

pub(super) fn of(console: &Console) -> Value {
    let (state, history) = (&console.state, &console.history);
    let samples = Samples::read(&console.registry, &[OBJECTS, CALLS, DRIFT, LOOKS]);
    let serving = state.slot.serving();
    let chain = serving.chain.as_deref();
    let candidate = state.candidate.as_ref();
    let checks = checks(state);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "replica": history.replica,
        "ready": is_ready(&checks),
        "checks": checks.iter().map(|check| json!({
            "name": check.name,
            "passed": check.result.is_ok(),
            "text": check.result.as_ref().unwrap_or_else(|reason| reason),
        })).collect::<Value>(),
        "needsChain": state.needs_chain(),
        "chain": {
            "digest": chain.map(Chain::digest),
            "since": serving.since.and_then(timestamp),
            "error": chain_state::of(&serving)["lastError"],
            "plugins": chain.into_iter().flat_map(Chain::plugins).map(plugin).collect::<Value>(),
        },
        "reloads": history.attempts().iter().map(attempt).collect::<Value>(),
        "pods": history.pods.latest().iter().map(pod).collect::<Value>(),
        "latency": chain.map(|chain| latency(chain, &samples)).unwrap_or_default(),
        "objects": objects(state, &samples),
        "candidate": candidate.map(|candidate| candidate.answer(&serving)),
        "drift": drift(&samples),
    })
}

fn plugin(plugin: &Plugin) -> Value {
    json!({
        "name": plugin.name,
        "version": plugin.description.version,
        "sha256": plugin.sha256,
        "allow": paths(&plugin.allow),
        "read": paths(&plugin.read),
        "failurePolicy": plugin.failure_policy.as_str(),
    })
}

/// A plugin may have many paths, and long ones.
fn paths(paths: &[String]) -> Value {
    let mut room = GRANTS_BYTES;
    let shown = paths.iter().take_while(|path| {
        let left = room.checked_sub(path.len() + 1);
        room = left.unwrap_or_default();
        left.is_some()
    });
    let shown: Vec<&String> = shown.collect();
    json!({ "more": paths.len() - shown.len(), "paths": shown })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "at": timestamp(attempt.at),
        "outcome": attempt.outcome,
        "chain": attempt.chain,
        "milliseconds": attempt.took.map(|took| took.as_secs_f64() * 1000.0),
        "compiled": attempt.compiled,
        "error": attempt.error,
    })
}

fn pod(pod: &RecentPod) -> Value {
    json!({
        "number": pod.number,
        "at": timestamp(pod.at),
        "kind": pod.kind,
        "namespace": pod.namespace,
        "name": pod.name,
        "dryRun": pod.dry_run,
        "verdict": pod.verdict,
        "milliseconds": pod.took.as_secs_f64() * 1000.0,
        "plugins": pod.runs.iter().map(|run| json!({
            "name": run.plugin,
            "outcome": run.outcome,
            "writes": run.writes,
            "refusedWrites": run.refused_writes,
            "paths": run.paths,
        })).collect::<Value>(),
    })
}

/// How many calls of each plugin took how long, since the operator started. Each bucket has the calls that took no longer than it, in
/// seconds, and longer than the one before; the last one has no limit.
fn latency(chain: &Chain, samples: &Samples) -> Value {
    let plugin = |plugin: &Plugin| {
        let calls = samples.of(CALLS);
        let calls = calls.filter(|bucket| bucket.label("plugin") == plugin.name);
        let mut before = 0;
        let buckets = calls.map(|bucket| {
            let calls = bucket.count().saturating_sub(before);
            before = bucket.count();
            json!({ "to": bucket.label("le").parse::<f64>().ok().filter(|to| to.is_finite()), "calls": calls })
        });
        json!({ "plugin": plugin.name, "buckets": buckets.collect::<Value>() })
    };
    chain.plugins().iter().map(plugin).collect()
}

/// The objects of each controller of an enabled duty by phase. Where another replica works, this one has none.
fn objects(state: &OperatorState, samples: &Samples) -> Value {
    let mut controllers: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for sample in samples.of(OBJECTS) {
        let phases = controllers.entry(sample.label("controller")).or_default();
        phases.push(json!({ "phase": sample.label("phase"), "count": sample.count() }));
    }
    let objects = controllers.into_iter().filter_map(|(controller, phases)| {
        let duty = state.duties.iter().find(|duty| {
            let mut kinds = duty.row.kinds.iter();
            kinds.any(|kind| kind.plural.strip_suffix('s') == Some(controller))
        });
        let works = matches!(*duty?.role.borrow(), Role::Leader | Role::Alone);
        Some(json!({ "controller": controller, "works": works, "phases": phases }))
    });
    objects.collect()
}

/// What the last look for drift has found; none if this operator never looks.
fn drift(samples: &Samples) -> Value {
    let looks: BTreeMap<&str, u64> = samples
        .of(LOOKS)
        .map(|looks| (looks.label("outcome"), looks.count()))
        .collect();
    if looks.is_empty() {
        return Value::Null;
    }
    let mut all = Counts::default();
    let mut namespaces: BTreeMap<&str, Counts> = BTreeMap::new();
    for sample in samples.of(DRIFT) {
        all.add(sample);
        namespaces
            .entry(sample.label("namespace"))
            .or_default()
            .add(sample);
    }
    let mut namespaces: Vec<(&str, Counts)> = namespaces.into_iter().collect();
    namespaces.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.rank()));
    let rows = namespaces.iter().take(NAMESPACES).map(|(name, counts)| {
        let mut row = counts.show();
        row["namespace"] = json!(name);
        row
    });
    json!({
        "looks": looks,
        "all": all.show(),
        "namespaces": rows.collect::<Value>(),
        "moreNamespaces": namespaces.len().saturating_sub(NAMESPACES),
    })
}

/// How many pods missed the chain, were changed after it, or passed an older one.
#[derive(Clone, Copy, Default)]
struct Counts {
    missed: u64,
    changed: u64,
    older: u64,
}

impl Counts {
    fn add(&mut self, sample: &Sample) {
        let count = match sample.label("result") {
            "missed" => &mut self.missed,
            "changed" => &mut self.changed,
            _ => &mut self.older,
        };
        *count += sample.count();
    }

    const fn rank(&self) -> (u64, u64) {
        (self.missed.saturating_add(self.changed), self.older)
    }

    fn show(&self) -> Value {
        json!({ "missed": self.missed, "changed": self.changed, "older": self.older })
    }
}
