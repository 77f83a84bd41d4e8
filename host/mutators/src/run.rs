//! What is known of a run before it begins, and how it is logged.

use podloom_mutation::{PluginOutcome, PluginRun};
use podloom_turns::Lines;

use crate::plugin::Plugin;
use crate::request::{PodFields, pod_event};

/// A run of a plugin that did nothing but end like this.
pub(crate) fn of(plugin: &Plugin, outcome: PluginOutcome) -> PluginRun {
    PluginRun {
        plugin: plugin.name.clone(),
        version: plugin.description.version.clone(),
        sha256: plugin.sha256.clone(),
        outcome,
        ..PluginRun::default()
    }
}

/// Logs paths and counts at debug, and values, which may be secret, at trace only.
pub(crate) fn log(run: &PluginRun, pod: PodFields<'_>, lines: Option<&Lines>) {
    let (plugin, outcome) = (run.plugin.as_str(), run.outcome.as_str());
    let ignored = "plugin failed and was ignored";
    if let PluginOutcome::Ignored(failure) = &run.outcome
        && pod.may_log(lines, plugin, ignored)
    {
        pod_event!(warn, pod, plugin, outcome, error = %failure, "{ignored}");
    }
    pod_event!(
        debug,
        pod,
        plugin,
        outcome,
        writes = run.writes.len(),
        refused = run.refused_writes,
        reads = run.reads,
        refused_reads = run.refused_reads,
        "plugin run"
    );
    if tracing::enabled!(tracing::Level::DEBUG) {
        for write in &run.writes {
            pod_event!(debug, pod, plugin, path = write.path, "plugin wrote");
            pod_event!(trace, pod, plugin, path = write.path, old = ?write.old, new = ?write.new, "plugin wrote");
        }
    }
}
