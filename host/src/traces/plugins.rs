//! The steps of a chain.

use podloom_controllers::TRACES;
use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod, runs};
use tracing::Level;

/// Adds the calls of plugins that have just ended to the trace. They come one after another, so each began when the one before ended.
pub(crate) fn ran(result: &Result<MutatedPod, RejectedPod>) {
    if !tracing::enabled!(target: TRACES, Level::TRACE) {
        return;
    }
    let runs = runs(result);
    let seconds = |run: &PluginRun| run.duration.as_secs_f64();
    let mut ago: f64 = runs.iter().map(seconds).sum();
    for run in runs.iter().filter(|run| !run.duration.is_zero()) {
        ago -= seconds(run);
        let error = match &run.outcome {
            PluginOutcome::Ignored(failure) | PluginOutcome::Failed(failure) => {
                Some(failure.reason())
            }
            _ => None,
        };
        let step = format!("plugin {}", run.plugin);
        tracing::trace!(
            target: TRACES,
            step = step.as_str(),
            seconds = seconds(run),
            ago = ago.max(0.0),
            plugin = run.plugin.as_str(),
            version = run.version.as_str(),
            outcome = run.outcome.as_str(),
            reads = run.reads,
            writes = run.writes.len(),
            error
        );
    }
}
