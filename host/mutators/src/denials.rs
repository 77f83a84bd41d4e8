//! Which denials of the programs in a chain no pod has met: a rule that never applies looks like one that always passes.

use std::sync::Arc;

use podloom_mutation::PodRequest;
use serde_json::Value;

use crate::chain::{Chain, Passing};
use crate::plugin::Plugin;
use crate::proof;
use crate::request::RunMode;
use crate::until::Until;
use crate::warnings::ChainWarning;

/// How many are told of one plugin.
const MOST: usize = 20;

/// The places where plugins deny, as they name them, that no pod has met so far.
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
            let mut passing = Passing::new(pod.clone());
            let run = self.chain.run(mode, plugin, &mut passing, request);
            left.retain(|denial| !run.denials.contains(denial));
        }
    }

    /// A warning for each denial that no pod has met.
    pub fn warnings(&self) -> Vec<ChainWarning> {
        let plugins = self.chain.plugins.iter().zip(&self.left);
        let warnings = plugins.flat_map(|(plugin, left)| {
            let denials = left.iter().take(MOST);
            denials.map(|denial| unmet(plugin, denial))
        });
        warnings.collect()
    }
}

fn unmet(plugin: &Plugin, denial: &str) -> ChainWarning {
    let message = format!(
        "none of the pods met its {denial}; try it on one that it must deny, with --pods FILE"
    );
    ChainWarning {
        plugin: plugin.name.clone(),
        line: plugin.line,
        message,
    }
}
