//! What is probably a mistake in a chain, though the chain can serve.

use std::fmt;

use podloom_pod_path::Write;
use serde_json::Value;

use crate::chain::{Chain, Passing};
use crate::manifest::MANIFEST;
use crate::plugin::{Plugin, message};
use crate::proof;
use crate::text::first;
use crate::until::Until;

/// How many warnings about one plugin are told.
const MOST: usize = 20;

/// A probable mistake in a chain that can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainWarning {
    /// The plugin.
    pub plugin: String,
    /// The line of the manifest that lists it.
    pub line: u64,
    /// What is probably wrong.
    pub message: String,
}

impl fmt::Display for ChainWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plugin,
            line,
            message,
        } = self;
        write!(f, "{MANIFEST}:{line}: plugin {plugin}: {message}")
    }
}

impl Chain {
    /// The probable mistakes in the manifest, in what its plugins ask for, and in what they write on sample pods.
    pub fn warnings(&self) -> Vec<ChainWarning> {
        self.warnings_until(Until::DONE)
    }

    /// As [`Self::warnings`], in bounded time; what was not tried in it is not warned of.
    pub(crate) fn warnings_until(&self, until: Until) -> Vec<ChainWarning> {
        let of_each = self.plugins.iter().flat_map(|plugin| {
            let mut messages = plugin.warnings.clone();
            for message in self.unknown_writes(plugin, until) {
                if !messages.contains(&message) {
                    messages.push(message);
                }
            }
            first(messages, MOST)
                .into_iter()
                .map(|message| ChainWarning {
                    plugin: plugin.name.clone(),
                    line: plugin.line,
                    message,
                })
        });
        of_each.collect()
    }

    fn unknown_writes(&self, plugin: &Plugin, until: Until) -> Vec<String> {
        let samples = proof::samples(until);
        let runs = samples.map(|(mode, pod): (_, Value)| {
            self.run(mode, plugin, &mut Passing::new(pod), &proof::request())
        });
        runs.flat_map(|run| unknown_in(&run.writes)).collect()
    }
}

/// The unknown fields in writes, as messages.
fn unknown_in(writes: &[Write]) -> Vec<String> {
    let unknown = writes.iter().flat_map(Write::unknown_fields);
    unknown
        .map(|unknown| message("it writes", &unknown))
        .collect()
}
