//! Metrics of plugins.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_metrics::{Histograms, metrics};
use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod, runs};
use podloom_turns::lock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::chain::Chain;
use crate::loader::Reload;
use crate::plugin::Plugin;

/// From 10 µs to 82 ms, doubling.
const CALL_BUCKETS: Histograms = Histograms(0.000_01, 2.0, 14);
/// From 10 ms to 40 s, doubling.
const COMPILE_BUCKETS: Histograms = Histograms(0.01, 2.0, 13);

/// Labels: their names and values.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// The label with the name of a plugin.
fn plugin(name: &str) -> (&'static str, Cow<'static, str>) {
    ("plugin", Cow::Owned(name.to_owned()))
}

metrics! {
    /// Metrics of plugins; cheap to clone, registered once.
    #[derive(Debug)]
    pub struct PluginMetrics {
        duration: Family<Labels<1>, Histogram, Histograms> = "plugin_call_duration" Seconds, "How long a call of a plugin took, with making and dropping its sandbox", Family::new_with_constructor(CALL_BUCKETS);
        calls: Family<Labels<2>, Counter> = "plugin_calls", "Attempts on pods that came to a plugin, also for pods that were rejected";
        traps: Family<Labels<2>, Counter> = "plugin_traps", "Calls in which a plugin failed";
        denied_writes: Family<Labels<1>, Counter> = "plugin_writes_denied", "Writes that a plugin tried and was not granted";
        reads: Family<Labels<1>, Counter> = "plugin_reads", "Times that a plugin read something of a pod";
        denied_reads: Family<Labels<1>, Counter> = "plugin_reads_denied", "Reads that a plugin tried and was not granted";
        compiling: Family<Labels<1>, Histogram, Histograms> = "plugin_compile" Seconds, "How long compiling a plugin took", Family::new_with_constructor(COMPILE_BUCKETS);
        loads: Family<Labels<2>, Counter> = "plugin_loads", "What became of plugins when a chain was loaded";
        info: Family<Labels<3>, Gauge> = "plugin_info", "The plugins that serve";
        /// The label sets in `info`.
        published: Arc<Mutex<BTreeSet<Labels<3>>>>;
    }
}

impl PluginMetrics {
    /// Counts what each plugin did with a pod, also with one that was rejected.
    pub fn mutated(&self, result: &Result<MutatedPod, RejectedPod>) {
        runs(result).iter().for_each(|run| self.ran(run));
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
                if let Some(plugin) = &error.plugin {
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
        let histogram = self.compiling.get_or_create(&[self::plugin(&plugin.name)]);
        histogram.observe(took.as_secs_f64());
    }

    fn counted_load(&self, name: &str, outcome: &'static str) {
        let labels = [plugin(name), ("outcome", outcome.into())];
        self.loads.get_or_create(&labels).inc();
    }

    /// Publishes the plugins of this chain in place of the earlier ones.
    fn serves(&self, chain: &Chain) {
        let plugins = chain.plugins().iter().map(|it| {
            let version = it.description.version.clone();
            let sha256 = it.sha256.clone();
            [
                plugin(&it.name),
                ("version", version.into()),
                ("sha256", sha256.into()),
            ]
        });
        let serving: BTreeSet<Labels<3>> = plugins.collect();
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
        let plugin = || plugin(&run.plugin);
        let called = [plugin(), ("outcome", run.outcome.as_str().into())];
        self.calls.get_or_create(&called).inc();
        if let PluginOutcome::Ignored(failure) | PluginOutcome::Failed(failure) = &run.outcome {
            let trapped = [plugin(), ("reason", failure.reason().into())];
            self.traps.get_or_create(&trapped).inc();
        }
        if run.duration > Duration::ZERO {
            let seconds = run.duration.as_secs_f64();
            self.duration.get_or_create(&[plugin()]).observe(seconds);
        }
        for (family, count) in [
            (&self.denied_writes, run.refused_writes),
            (&self.reads, run.reads),
            (&self.denied_reads, run.refused_reads),
        ] {
            if count > 0 {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                family.get_or_create(&[plugin()]).inc_by(count);
            }
        }
    }
}
