//! What plugins do, counted.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::chain::{Chain, Mutation, Outcome, PluginRun, Rejected};
use crate::sandbox::Failure;

/// From 10 µs to a tenth of a second, doubling.
const CALL_BUCKETS: (f64, f64, u16) = (0.000_01, 2.0, 14);

/// Metrics of plugins; cheap to clone, registered once.
#[derive(Clone, Debug)]
pub struct PluginMetrics {
    duration: Family<ByPlugin, Histogram, fn() -> Histogram>,
    calls: Family<ByOutcome, Counter>,
    traps: Family<ByReason, Counter>,
    denied_writes: Family<ByPlugin, Counter>,
    info: Family<Info, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlugin {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    plugin: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    plugin: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Info {
    plugin: String,
    version: String,
    sha256: String,
}

impl PluginMetrics {
    /// Registers all metrics of plugins. Call it once: a second set would be told beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let new_histogram: fn() -> Histogram = || {
            let (first, factor, count) = CALL_BUCKETS;
            Histogram::new(exponential_buckets(first, factor, count))
        };
        let metrics = Self {
            duration: Family::new_with_constructor(new_histogram),
            calls: Family::default(),
            traps: Family::default(),
            denied_writes: Family::default(),
            info: Family::default(),
        };
        registry.register_with_unit(
            "plugin_call_duration",
            "How long a call of a plugin took, with making and dropping its sandbox",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "plugin_calls",
            "Pods that came to a plugin",
            metrics.calls.clone(),
        );
        registry.register(
            "plugin_traps",
            "Calls in which a plugin failed",
            metrics.traps.clone(),
        );
        registry.register(
            "plugin_writes_denied",
            "Writes that a plugin tried and was not granted",
            metrics.denied_writes.clone(),
        );
        registry.register(
            "plugin_info",
            "The plugins that serve",
            metrics.info.clone(),
        );
        metrics
    }

    /// Counts what each plugin did with a pod, or which one refused it.
    pub fn mutated(&self, result: &Result<Mutation, Rejected>) {
        match result {
            Ok(mutation) => mutation.runs.iter().for_each(|run| self.ran(run)),
            Err(Rejected::Denied { plugin, .. }) => self.called(plugin, "denied"),
            Err(Rejected::Failed { plugin, failure }) => {
                self.called(plugin, "failed");
                self.trapped(plugin, failure);
            }
            Err(Rejected::NotAPod(_)) => {}
        }
    }

    /// Tells of the plugins of this chain, and no longer of those before.
    pub fn serves(&self, chain: &Chain) {
        self.info.clear();
        for plugin in chain.plugins() {
            let info = Info {
                plugin: plugin.name.clone(),
                version: plugin.description.version.clone(),
                sha256: plugin.sha256.clone(),
            };
            self.info.get_or_create(&info).set(1);
        }
    }

    fn ran(&self, run: &PluginRun) {
        self.called(&run.plugin, run.outcome.as_str());
        if let Outcome::Ignored(failure) = &run.outcome {
            self.trapped(&run.plugin, failure);
        }
        let plugin = || ByPlugin {
            plugin: run.plugin.clone(),
        };
        if run.duration > Duration::ZERO {
            let seconds = run.duration.as_secs_f64();
            self.duration.get_or_create(&plugin()).observe(seconds);
        }
        if run.refused_writes > 0 {
            let count = u64::try_from(run.refused_writes).unwrap_or(u64::MAX);
            self.denied_writes.get_or_create(&plugin()).inc_by(count);
        }
    }

    fn called(&self, plugin: &str, outcome: &'static str) {
        let labels = ByOutcome {
            plugin: plugin.to_owned(),
            outcome,
        };
        self.calls.get_or_create(&labels).inc();
    }

    fn trapped(&self, plugin: &str, failure: &Failure) {
        let labels = ByReason {
            plugin: plugin.to_owned(),
            reason: failure.reason(),
        };
        self.traps.get_or_create(&labels).inc();
    }
}
