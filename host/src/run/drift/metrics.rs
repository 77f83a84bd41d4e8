//! Metrics of drift.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use podloom_metrics::{By, Scraped, Shown, gauges, metrics};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::drift::Counts;

/// How many namespaces are shown by name.
const NAMESPACES: usize = 200;
/// Stands for all others.
const OTHER: &str = "other";

metrics! {
    /// Metrics of drift.
    pub(super) struct DriftMetrics(latest: Scraped<Latest>) {
        looks: By<1> = "drift_looks", "Looks for pods that missed the chain or were changed after it; partial if something could not be read", By::new(["outcome"]).from_zero([["complete"], ["partial"], ["failed"]]);
    }
}

/// What the last look at the cluster found, by namespace; nothing while another replica looks.
pub(super) type Latest = BTreeMap<String, Counts>;

impl DriftMetrics {
    pub(super) fn collected(registry: &mut Registry) -> Self {
        let latest = Scraped::register(registry, write);
        Self::register(registry, latest)
    }

    /// What is shown until the result is dropped.
    pub(super) fn shown(&self) -> Shown<Latest> {
        self.latest.shown()
    }

    /// Shows what a look has found.
    pub(super) fn show(&self, counts: Vec<(String, Counts)>, is_partial: bool) {
        self.latest.set(bounded(counts));
        self.looked(if is_partial { "partial" } else { "complete" });
    }

    /// A look failed: what the last one found is still shown.
    pub(super) fn failed(&self) {
        self.looked("failed");
    }

    fn looked(&self, outcome: &'static str) {
        self.looks.of([outcome]).inc();
    }
}

/// The namespaces with most pods that missed the chain or were changed, and the sum of all others.
fn bounded(counts: Vec<(String, Counts)>) -> Latest {
    let mut counts = counts;
    counts.retain(|(_, it)| *it != Counts::default());
    counts.sort_by(|(name, a), (other, b)| {
        let rank = |it: &Counts| Reverse((it.missed.saturating_add(it.changed), it.older));
        (rank(a), name).cmp(&(rank(b), other))
    });
    let mut shown = Latest::new();
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

fn write(latest: Option<&Latest>, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let series = latest
        .into_iter()
        .flatten()
        .flat_map(|(namespace, counts)| {
            let Counts {
                missed,
                changed,
                older,
            } = *counts;
            [("missed", missed), ("changed", changed), ("older", older)].map(|(result, pods)| {
                let labels = [("namespace", namespace.as_str()), ("result", result)];
                (labels, pods)
            })
        });
    let help =
        "Pods that missed the chain, that were changed after it, or that passed an older one";
    gauges(&mut encoder, "drift_pods", help, series)
}
