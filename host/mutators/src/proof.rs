//! Tries a chain on sample pods before it serves: each plugin and the whole chain must be deterministic and idempotent.
//!
//! Plugins have no clock and no randomness, but a hash map keyed by addresses, or uninitialized memory, is enough to cause endless
//! rollouts. A denial is a valid outcome; a failure is not.

use std::sync::Arc;

use podloom_mutation::{CallFailure, PluginOutcome, PluginRun, PodRequest, RejectedPod};
use serde_json::Value;

use crate::chain::{Chain, Pass};
use crate::plugin::Plugin;
use crate::request::{RunMode, Until};
use crate::text::{self, one_line};

/// How many bytes of a plugin's reason are shown.
const WORDS: usize = 1000;

/// Typical pods: a minimal one, one with everything that plugins look at, and one that violates security rules.
const SAMPLES: [(&str, &str); 3] = [
    ("minimal", include_str!("proof/samples/minimal.json")),
    ("complete", include_str!("proof/samples/complete.json")),
    ("privileged", include_str!("proof/samples/privileged.json")),
];

/// How many sample pods there are.
pub const SAMPLE_PODS: usize = SAMPLES.len();

/// What a plugin, or the whole chain, did wrong on a sample pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProofFailure {
    /// The plugin; none for the whole chain.
    pub plugin: Option<String>,
    /// What it did wrong, and on which sample pod.
    pub message: String,
}

/// The result of a run: the pod and the written paths.
type SampleResult = Result<(Value, Vec<String>), RejectedPod>;

impl Chain {
    /// Runs each plugin and then the chain on sample pods, whatever `match` says. Empty if all is well; what shows on several
    /// sample pods is told once.
    pub fn prove(&self) -> Vec<ProofFailure> {
        self.prove_until(Until::DONE)
    }

    /// As [`Self::prove`], in bounded time; what was not tried in it is a failure.
    pub(crate) fn prove_until(&self, until: Until) -> Vec<ProofFailure> {
        let mut failures: Vec<ProofFailure> = Vec::new();
        for (sample, text) in SAMPLES {
            let (mode, pod) = sample_pod(sample, text, until);
            for plugin in &self.plugins {
                let name = Some(plugin.name.clone());
                if failures.iter().all(|failure| failure.plugin != name) {
                    let run = |pod: Value| self.run_alone(mode, plugin, pod);
                    let advice = "set `idempotent: false` if that is intended";
                    let problem = try_pod(&pod, run, plugin.idempotent, advice);
                    failures.extend(problem.map(|problem| failed(name, sample, &problem)));
                }
                // Plugins that were not tried are not reported one by one.
                if until.is_over() && !failures.is_empty() {
                    return failures;
                }
            }
            // The chain is tried only if each plugin alone is fine.
            if failures.is_empty() {
                let idempotent = self.plugins.iter().all(|plugin| plugin.idempotent);
                let run = |pod: Value| self.run_all(mode, pod);
                let advice = "make plugins that undo each other's writes agree";
                let problem = try_pod(&pod, run, idempotent, advice);
                failures.extend(problem.map(|problem| failed(None, sample, &problem)));
            }
        }
        failures
    }

    fn run_alone(&self, mode: RunMode, plugin: &Plugin, pod: Value) -> SampleResult {
        let mut pass = Pass::new(mode, pod, request());
        let runs = stop_at_failure(vec![self.run(plugin, &mut pass)])?;
        let writes = runs.into_iter().flat_map(|run| run.writes);
        Ok((pass.pod, writes.map(|write| write.path).collect()))
    }

    fn run_all(&self, mode: RunMode, pod: Value) -> SampleResult {
        let mutated = self.finish(self.admit(mode, pod, request())?)?;
        let runs = stop_at_failure(mutated.runs)?;
        let by_plugin = |run: &PluginRun| -> Vec<String> {
            run.writes
                .iter()
                .map(|write| format!("{} ({})", write.path, run.plugin))
                .collect()
        };
        Ok((mutated.pod, runs.iter().flat_map(by_plugin).collect()))
    }
}

fn failed(plugin: Option<String>, sample: &'static str, problem: &str) -> ProofFailure {
    let subject = match &plugin {
        Some(plugin) => format!("plugin {plugin}"),
        None => "the chain".to_owned(),
    };
    let message = format!("{subject} {problem} (sample pod {sample})");
    ProofFailure { plugin, message }
}

/// The sample pods with their names, and the request that they come with.
pub fn sample_pods() -> impl Iterator<Item = (&'static str, Value, Arc<PodRequest>)> {
    SAMPLES.iter().map(|(name, text)| {
        let (_, pod) = sample_pod(name, text, Until::DONE);
        (*name, pod, request())
    })
}

/// The sample pods, for runs that end by then.
pub(crate) fn samples(until: Until) -> impl Iterator<Item = (RunMode, Value)> {
    let samples = SAMPLES.iter();
    samples.map(move |(sample, text)| sample_pod(sample, text, until))
}

fn sample_pod(sample: &'static str, text: &str, until: Until) -> (RunMode, Value) {
    let pod = serde_json::from_str(text).expect("the samples are JSON: a test reads them");
    (RunMode::Prove { sample, until }, pod)
}

pub(crate) fn request() -> Arc<PodRequest> {
    Arc::new(PodRequest {
        kind: "Pod",
        name: "sample".to_owned(),
        namespace: "default".to_owned(),
        ..PodRequest::default()
    })
}

/// Rejects the pod after the first failure: a proof fails with each failure, even if it would not reject pods.
fn stop_at_failure(mut runs: Vec<PluginRun>) -> Result<Vec<PluginRun>, RejectedPod> {
    for (number, run) in runs.iter_mut().enumerate() {
        if let PluginOutcome::Ignored(failure) = &run.outcome {
            run.outcome = PluginOutcome::Failed(failure.clone());
        }
        if let Some(rejection) = run.rejection() {
            runs.truncate(number + 1);
            return Err(RejectedPod { rejection, runs });
        }
    }
    Ok(runs)
}

/// The failure of the plugin that rejected a pod; none if it was denied.
fn failure(rejected: &RejectedPod) -> Option<&CallFailure> {
    match &rejected.runs.last()?.outcome {
        PluginOutcome::Failed(failure) => Some(failure),
        _ => None,
    }
}

fn try_pod(
    pod: &Value,
    run: impl Fn(Value) -> SampleResult,
    idempotent: bool,
    advice: &str,
) -> Option<String> {
    let (once, again) = (run(pod.clone()), run(pod.clone()));
    let rejected = [&once, &again].map(|it| it.as_ref().err());
    if let Some(failure) = rejected.into_iter().flatten().find_map(failure) {
        let failure = one_line(&failure.to_string(), WORDS);
        return Some(format!("fails: {failure}"));
    }
    let result = match (once, again) {
        (Err(once), Err(again)) if once.rejection == again.rejection => return None,
        (Ok((once, _)), Ok((again, _))) if once == again => once,
        _ => {
            let problem = "is not deterministic: two runs on the same pod gave different results";
            return Some(problem.to_owned());
        }
    };
    if !idempotent {
        return None;
    }
    match run(result) {
        Ok((_, paths)) if paths.is_empty() => None,
        Ok((_, paths)) => {
            let paths = text::joined(&paths, ", ");
            Some(format!(
                "is not idempotent: run on its own result it writes {paths}; {advice}"
            ))
        }
        Err(rejected) => Some(match failure(&rejected) {
            Some(failure @ CallFailure::NoTimeLeft) => format!("fails: {failure}"),
            _ => {
                let reason = one_line(&rejected.to_string(), WORDS);
                format!("rejects its own result: {reason}")
            }
        }),
    }
}

#[cfg(test)]
mod tests;
