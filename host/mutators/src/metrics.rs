//! Metrics of plugins.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_turns::lock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::chain::{Chain, Mutation, Rejected};
use crate::loader::Reload;
use crate::plugin::Plugin;
use crate::run::{PluginRun, RunOutcome};
use crate::sandbox::CallFailure;

/// From 10 µs to 82 ms, doubling.
const CALL_BUCKETS: (f64, f64, u16) = (0.000_01, 2.0, 14);
/// From 10 ms to 40 s, doubling.
const COMPILE_BUCKETS: (f64, f64, u16) = (0.01, 2.0, 13);

/// Metrics of plugins; cheap to clone, registered once.
#[derive(Clone, Debug)]
pub struct PluginMetrics {
    duration: Family<ByPlugin, Histogram, fn() -> Histogram>,
    calls: Family<ByOutcome, Counter>,
    traps: Family<ByReason, Counter>,
    denied_writes: Family<ByPlugin, Counter>,
    reads: Family<ByPlugin, Counter>,
    denied_reads: Family<ByPlugin, Counter>,
    compiling: Family<ByPlugin, Histogram, fn() -> Histogram>,
    loads: Family<ByOutcome, Counter>,
    info: Family<Info, Gauge>,
    /// The label sets in `info`.
    published: Arc<Mutex<BTreeSet<Info>>>,
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Info {
    plugin: String,
    version: String,
    sha256: String,
}

impl PluginMetrics {
    /// Registers all metrics of plugins. Call it once: a second set would be exported beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let new_histogram: fn() -> Histogram = || {
            let (first, factor, count) = CALL_BUCKETS;
            Histogram::new(exponential_buckets(first, factor, count))
        };
        let new_slow_histogram: fn() -> Histogram = || {
            let (first, factor, count) = COMPILE_BUCKETS;
            Histogram::new(exponential_buckets(first, factor, count))
        };
        let metrics = Self {
            compiling: Family::new_with_constructor(new_slow_histogram),
            loads: Family::default(),
            duration: Family::new_with_constructor(new_histogram),
            calls: Family::default(),
            traps: Family::default(),
            denied_writes: Family::default(),
            reads: Family::default(),
            denied_reads: Family::default(),
            info: Family::default(),
            published: Arc::default(),
        };
        registry.register_with_unit(
            "plugin_call_duration",
            "How long a call of a plugin took, with making and dropping its sandbox",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "plugin_calls",
            "Attempts on pods that came to a plugin, also for pods that were rejected",
            metrics.calls.clone(),
        );
        registry.register(
            "plugin_traps",
            "Calls in which a plugin failed",
            metrics.traps.clone(),
        );
        metrics.register_accesses(registry);
        registry.register_with_unit(
            "plugin_compile",
            "How long compiling a plugin took",
            Unit::Seconds,
            metrics.compiling.clone(),
        );
        registry.register(
            "plugin_loads",
            "What became of plugins when a chain was loaded",
            metrics.loads.clone(),
        );
        registry.register(
            "plugin_info",
            "The plugins that serve",
            metrics.info.clone(),
        );
        metrics
    }

    fn register_accesses(&self, registry: &mut Registry) {
        registry.register(
            "plugin_writes_denied",
            "Writes that a plugin tried and was not granted",
            self.denied_writes.clone(),
        );
        registry.register(
            "plugin_reads",
            "Times that a plugin read something of a pod",
            self.reads.clone(),
        );
        registry.register(
            "plugin_reads_denied",
            "Reads that a plugin tried and was not granted",
            self.denied_reads.clone(),
        );
    }

    /// Counts what each plugin did with a pod, also with one that was rejected.
    pub fn mutated(&self, result: &Result<Mutation, Rejected>) {
        let runs = match result {
            Ok(mutation) => &mutation.runs,
            Err(rejected) => &rejected.runs,
        };
        runs.iter().for_each(|run| self.ran(run));
    }

    /// Counts the plugins of an attempt to load a chain, and updates which ones serve.
    pub fn reloaded(&self, reload: &Reload) {
        match reload {
            Reload::Swapped { chain, .. } => {
                for plugin in chain.plugins() {
                    self.loaded(plugin);
                }
                self.serves(chain);
            }
            Reload::Restored { .. } => {}
            Reload::Refused { error, .. } => {
                if let Some(plugin) = error.plugin() {
                    self.counted_load(plugin, "refused");
                }
            }
        }
    }

    fn loaded(&self, plugin: &Plugin) {
        let Some(took) = plugin.compiled_in else {
            return self.counted_load(&plugin.name, "kept");
        };
        self.counted_load(&plugin.name, "compiled");
        let labels = ByPlugin {
            plugin: plugin.name.clone(),
        };
        let histogram = self.compiling.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn counted_load(&self, plugin: &str, outcome: &'static str) {
        let labels = ByOutcome {
            plugin: plugin.to_owned(),
            outcome,
        };
        self.loads.get_or_create(&labels).inc();
    }

    /// Publishes the plugins of this chain in place of the earlier ones.
    fn serves(&self, chain: &Chain) {
        let plugins = chain.plugins().iter().map(|plugin| Info {
            plugin: plugin.name.clone(),
            version: plugin.description.version.clone(),
            sha256: plugin.sha256.clone(),
        });
        let serving: BTreeSet<Info> = plugins.collect();
        for info in &serving {
            self.info.get_or_create(info).set(1);
        }
        // Old ones are removed last, so that a scrape in between does not find none.
        let mut published = lock(&self.published);
        for info in published.difference(&serving) {
            self.info.remove(info);
        }
        *published = serving;
    }

    fn ran(&self, run: &PluginRun) {
        self.called(&run.plugin, run.outcome.as_str());
        if let RunOutcome::Ignored(failure) | RunOutcome::Failed(failure) = &run.outcome {
            self.trapped(&run.plugin, failure);
        }
        let plugin = || ByPlugin {
            plugin: run.plugin.clone(),
        };
        if run.duration > Duration::ZERO {
            let seconds = run.duration.as_secs_f64();
            self.duration.get_or_create(&plugin()).observe(seconds);
        }
        for (family, count) in [
            (&self.denied_writes, run.refused_writes),
            (&self.reads, run.reads),
            (&self.denied_reads, run.refused_reads),
        ] {
            if count > 0 {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                family.get_or_create(&plugin()).inc_by(count);
            }
        }
    }

    fn called(&self, plugin: &str, outcome: &'static str) {
        let labels = ByOutcome {
            plugin: plugin.to_owned(),
            outcome,
        };
        self.calls.get_or_create(&labels).inc();
    }

    fn trapped(&self, plugin: &str, failure: &CallFailure) {
        let labels = ByReason {
            plugin: plugin.to_owned(),
            reason: failure.reason(),
        };
        self.traps.get_or_create(&labels).inc();
    }
}
