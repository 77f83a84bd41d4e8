//! Metrics of drift.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::drift::Counts;

/// How many namespaces are shown by name.
const NAMESPACES: usize = 200;
/// Stands for all others.
const OTHER: &str = "other";

/// Metrics of drift.
#[derive(Clone)]
pub(super) struct DriftMetrics {
    latest: Latest,
    looks: Family<ByOutcome, Counter>,
}

/// What the last look at the cluster found, by namespace; empty while another replica looks.
#[derive(Clone, Debug, Default)]
struct Latest(Arc<Mutex<BTreeMap<String, Counts>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

/// Forgets what was found when it is dropped.
pub(super) struct Shown(Latest);

impl Drop for Shown {
    fn drop(&mut self) {
        lock(&self.0).clear();
    }
}

impl DriftMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            latest: Latest::default(),
            looks: Family::default(),
        };
        for outcome in ["complete", "partial", "failed"] {
            drop(metrics.looks.get_or_create(&ByOutcome { outcome }));
        }
        registry.register_collector(Box::new(metrics.latest.clone()));
        registry.register(
            "drift_looks",
            "Looks for pods that missed the chain or were changed after it; partial if something could not be read",
            metrics.looks.clone(),
        );
        metrics
    }

    /// What is shown until the result is dropped.
    pub(super) fn shown(&self) -> Shown {
        Shown(self.latest.clone())
    }

    /// Shows what a look has found.
    pub(super) fn show(&self, counts: Vec<(String, Counts)>, is_partial: bool) {
        *lock(&self.latest.0) = bounded(counts);
        self.looked(if is_partial { "partial" } else { "complete" });
    }

    /// A look failed: what the last one found is still shown.
    pub(super) fn failed(&self) {
        self.looked("failed");
    }

    fn looked(&self, outcome: &'static str) {
        self.looks.get_or_create(&ByOutcome { outcome }).inc();
    }
}

/// The namespaces with most pods that missed the chain or were changed, and the sum of all others.
fn bounded(counts: Vec<(String, Counts)>) -> BTreeMap<String, Counts> {
    let mut counts = counts;
    counts.retain(|(_, it)| *it != Counts::default());
    counts.sort_by(|(name, a), (other, b)| {
        let rank = |it: &Counts| Reverse((it.missed.saturating_add(it.changed), it.older));
        (rank(a), name).cmp(&(rank(b), other))
    });
    let mut shown: BTreeMap<String, Counts> = BTreeMap::new();
    for (index, (name, counts)) in counts.into_iter().enumerate() {
        let name = match index < NAMESPACES {
            true => name,
            false => OTHER.to_owned(),
        };
        let sum = shown.entry(name).or_default();
        sum.missed += counts.missed;
        sum.changed += counts.changed;
        sum.older += counts.older;
    }
    shown
}

impl Latest {}

impl Collector for Latest {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut pods = encoder.encode_descriptor(
            "drift_pods",
            "Pods that missed the chain, that were changed after it, or that passed an older one",
            None,
            MetricType::Gauge,
        )?;
        for (namespace, counts) in &*lock(&self.0) {
            let Counts {
                missed,
                changed,
                older,
            } = *counts;
            for (result, pods_of) in [("missed", missed), ("changed", changed), ("older", older)] {
                let labels = [("namespace", namespace.as_str()), ("result", result)];
                ConstGauge::new(pods_of).encode(pods.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
