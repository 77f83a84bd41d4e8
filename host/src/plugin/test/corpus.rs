//! Runs a plugin on the pods of a corpus, of which only the count and the violations are shown.

use std::path::Path;

use podloom_mutation::{PluginOutcome, PodRejection};
use podloom_mutators::Chain;

use super::trial;
use crate::error::{CommandError, Diagnostic};
use crate::explain::count;
use crate::feed::{self, FoundPod};

/// How a plugin did on a corpus.
#[derive(Default)]
pub(super) struct Tally {
    pods: usize,
    changed: usize,
    /// A valid outcome.
    denied: usize,
    pub(super) errors: Vec<Diagnostic>,
}

/// Runs a chain of one plugin on each pod.
pub(super) fn try_all(
    chain: &Chain,
    directory: &Path,
    namespace: &str,
) -> Result<Tally, CommandError> {
    let mut tally = Tally::default();
    for pod in feed::corpus(directory, namespace)? {
        let FoundPod { name, subject, .. } = pod?;
        tally.pods += 1;
        let broken = |message: String| Diagnostic::new(format!("{name}: {message}"));
        match trial::of(chain, &subject) {
            Ok(trial) => {
                let is_changed = trial.run.outcome == PluginOutcome::Mutated;
                tally.changed += usize::from(is_changed);
                let plugins = chain.plugins().iter();
                let found = plugins.flat_map(|plugin| trial.violations(plugin, &subject));
                tally.errors.extend(found.map(broken));
            }
            Err(rejected) => match rejected.rejection {
                PodRejection::Denied(_) => tally.denied += 1,
                _ => tally.errors.push(broken(rejected.to_string())),
            },
        }
    }
    match tally.pods {
        0 => Err(feed::no_pod(&[])),
        _ => Ok(tally),
    }
}

impl Tally {
    /// One line.
    pub(super) fn line(&self, directory: &Path) -> String {
        let Self {
            pods,
            changed,
            denied,
            errors,
        } = self;
        let broken = match errors.len() {
            0 => String::new(),
            many => format!(", {}", count(many, "error")),
        };
        format!(
            "corpus {}: {}, {changed} changed, {denied} denied{broken}\n",
            directory.display(),
            count(*pods, "pod"),
        )
    }
}
