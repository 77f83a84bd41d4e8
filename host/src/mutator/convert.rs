//! What the chain says about a pod, in the words of the controllers.

use podloom_controllers::{Change, Note, PluginOutcome, PluginRun, PodRejection, Write};
use podloom_mutators::{CallFailure, RejectionCause};

use super::Values;

pub(super) fn rejection(cause: RejectionCause) -> PodRejection {
    match cause {
        RejectionCause::Denied { plugin, reason } => {
            PodRejection::Denied(format!("{plugin}: {reason}"))
        }
        RejectionCause::Failed {
            plugin,
            failure: failure @ CallFailure::Overdue,
        } => PodRejection::Overdue(format!("{plugin}: {failure}")),
        RejectionCause::Failed {
            plugin,
            failure: failure @ CallFailure::NamespaceUnread,
        } => PodRejection::Unread(format!("{plugin}: {failure}")),
        RejectionCause::Failed { plugin, failure } => {
            PodRejection::Broken(format!("{plugin}: {failure}"))
        }
        RejectionCause::NotAPod(_) => PodRejection::Broken(cause.to_string()),
        RejectionCause::TooManyContainers(_) => PodRejection::Denied(cause.to_string()),
    }
}

pub(super) fn convert_runs(
    runs: Vec<podloom_mutators::PluginRun>,
    values: Values,
) -> Vec<PluginRun> {
    runs.into_iter()
        .map(|run| convert_run(run, values))
        .collect()
}

/// Converts what a plugin did into the type that the controllers know.
pub(crate) fn convert_run(run: podloom_mutators::PluginRun, values: Values) -> PluginRun {
    use podloom_mutators::RunOutcome as Of;
    let writes = run.writes.into_iter().map(|write| Write {
        path: write.path,
        change: (values == Values::Shown).then_some(Change {
            old: write.old,
            new: write.new,
        }),
    });
    let notes = run.notes.into_iter().map(|note| match note.severity {
        podloom_mutators::Severity::Warning => Note::warning(note.text),
        podloom_mutators::Severity::Normal => Note::normal(note.text),
    });
    PluginRun {
        plugin: run.plugin,
        version: run.version,
        outcome: match run.outcome {
            Of::Mutated => PluginOutcome::Mutated,
            Of::Unchanged => PluginOutcome::Unchanged,
            Of::Skipped(dimension) => PluginOutcome::Skipped(dimension.as_str()),
            Of::Ignored(failure) => PluginOutcome::Ignored(failure.to_string()),
            Of::Denied(reason) => PluginOutcome::Denied(reason),
            Of::Failed(failure) => PluginOutcome::Failed(failure.to_string()),
        },
        writes: writes.collect(),
        refused_writes: run.refused_writes,
        refused_reads: run.refused_reads,
        notes: notes.collect(),
    }
}
