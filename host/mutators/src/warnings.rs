//! What is probably a mistake in a chain, though the chain can serve.

use std::fmt;
use std::sync::Arc;

use podloom_mutation::PodRequest;
use podloom_pod_path::Write;
use serde_json::Value;

use crate::chain::{Chain, Pass};
use crate::manifest::MANIFEST;
use crate::plugin::{Plugin, message};
use crate::proof;
use crate::request::{RunMode, Until};
use crate::text::first;

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

impl ChainWarning {
    fn of(plugin: &Plugin, message: String) -> Self {
        Self {
            plugin: plugin.name.clone(),
            line: plugin.line,
            message,
        }
    }
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
            let messages = first(messages, MOST).into_iter();
            messages.map(|message| ChainWarning::of(plugin, message))
        });
        of_each.collect()
    }

    fn unknown_writes(&self, plugin: &Plugin, until: Until) -> Vec<String> {
        let samples = proof::samples(until);
        let runs = samples
            .map(|(mode, pod)| self.run(plugin, &mut Pass::new(mode, pod, proof::request())));
        let mut messages = Vec::new();
        for run in runs {
            let unknown = run.writes.iter().flat_map(Write::unknown_fields);
            messages.extend(unknown.map(|unknown| message("it writes", &unknown)));
        }
        messages
    }
}

/// The places where plugins deny, as they name them, that no pod has met so far: a rule that never applies looks like one that always
/// passes.
pub struct Denials<'c> {
    chain: &'c Chain,
    /// By the plugins of the chain, in order.
    left: Vec<Vec<String>>,
}

impl<'c> Denials<'c> {
    /// Tries each plugin alone on the sample pods, whatever `match` says.
    pub fn of(chain: &'c Chain) -> Self {
        let left = chain.plugins.iter().map(|plugin| plugin.denials.clone());
        let mut denials = Self {
            chain,
            left: left.collect(),
        };
        for (mode, pod) in proof::samples(Until::DONE) {
            denials.run(mode, &pod, &proof::request());
        }
        denials
    }

    /// Tries each plugin alone on a pod that it selects.
    pub fn try_pod(&mut self, pod: &Value, request: &Arc<PodRequest>) {
        self.run(RunMode::Serve, pod, request);
    }

    fn run(&mut self, mode: RunMode, pod: &Value, request: &Arc<PodRequest>) {
        let plugins = self.chain.plugins.iter().zip(&mut self.left);
        for (plugin, left) in plugins.filter(|(_, left)| !left.is_empty()) {
            let mut pass = Pass::new(mode, pod.clone(), Arc::clone(request));
            let run = self.chain.run(plugin, &mut pass);
            left.retain(|denial| !run.denials.contains(denial));
        }
    }

    /// A warning for each denial that no pod has met.
    pub fn warnings(&self) -> Vec<ChainWarning> {
        let plugins = self.chain.plugins.iter().zip(&self.left);
        let warnings = plugins.flat_map(|(plugin, left)| {
            let denials = left.iter().take(MOST);
            denials.map(|denial| {
                let message = format!(
                    "none of the pods met its {denial}; try it on one that it must deny, with --pods FILE"
                );
                ChainWarning::of(plugin, message)
            })
        });
        warnings.collect()
    }
}
