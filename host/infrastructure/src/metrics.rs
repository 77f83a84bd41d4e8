//! What is measured of infrastructures. No label is the name of an object.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use podloom_api::{ClusterObject, ClusterState, OperationKind};
use podloom_engine::cache::Cache;
use podloom_engine::metrics::{NONE, Objects, UNREADABLE};
use podloom_engine::outbound::OutboundMetrics;
use podloom_engine::readable::Readable;
use podloom_metrics::{By, Counted, Histograms, Scraped, Shown, Values, gauges, metrics};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::im::ImMetrics;

/// From one second to about nine hours, doubling.
const BUCKETS: Histograms = Histograms(1.0, 2.0, 16);

/// How a provider is counted that is ready.
pub(crate) const READY: &str = "Ready";
/// How one is counted that is not, or of which that is not known.
pub(crate) const NOT_READY: &str = "NotReady";

metrics! {
    /// Metrics of the duty; cheap to clone, registered once.
    pub struct InfrastructureMetrics(pub(crate) im: ImMetrics, pub(crate) outbound: OutboundMetrics, clusters: Scraped<Clusters>) {
        operations: By<1, Histogram, Histograms> = "cluster_operation_duration" Seconds, "Duration of operations on the infrastructures of Clusters, from the request until they are configured or deleted", By::histograms(["operation"], BUCKETS);
        drift: Counted<DriftKind> = "im_drift", "Infrastructures that were found to differ from what was known, by what differs";
        orphans: Gauge = "im_orphaned_infrastructures", "Infrastructures that were made for Clusters which do not exist any more";
    }
}

/// What is different from what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriftKind {
    /// The state of the infrastructure.
    State,
    /// The machines or their states.
    Machines,
    /// There is none any more.
    Vanished,
}

impl Values for DriftKind {
    const LABEL: &'static str = "kind";
    const ALL: &'static [Self] = &[Self::State, Self::Machines, Self::Vanished];

    fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Machines => "machines",
            Self::Vanished => "vanished",
        }
    }
}

type Clusters = Cache<Readable<ClusterObject>>;

/// Stops counting when it is dropped, since the caches of stopped controllers are stale.
pub(crate) struct Counting {
    _clusters: Shown<Clusters>,
    orphans: Gauge,
}

impl InfrastructureMetrics {
    /// Registers all of them, and declares the phases.
    pub fn declared(registry: &mut Registry, objects: &Objects, outbound: OutboundMetrics) -> Self {
        declare(objects);
        let clusters = Scraped::register(registry, write);
        let im = ImMetrics::register(registry, outbound.clone());
        Self::register(registry, im, outbound, clusters)
    }

    /// Records an operation that has ended.
    pub(crate) fn operated(&self, operation: OperationKind, took: Duration) {
        let operation = self.operations.of([operation.as_str()]);
        operation.observe(took.as_secs_f64());
    }

    /// Counts a difference.
    pub(crate) fn drifted(&self, kind: DriftKind) {
        self.drift.count(kind, 1);
    }

    /// Sets the number of infrastructures without a Cluster.
    pub(crate) fn orphaned(&self, count: usize) {
        self.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts the Clusters in a cache until the returned value is dropped.
    #[must_use]
    pub(crate) fn count(&self, clusters: Clusters) -> Counting {
        self.clusters.set(clusters);
        Counting {
            _clusters: self.clusters.shown(),
            orphans: self.orphans.clone(),
        }
    }
}

/// Declares the phases in which objects are counted: states, or whether they are ready.
fn declare(objects: &Objects) {
    let none = [NONE, UNREADABLE];
    let of = |phases: &[&'static str]| none.iter().chain(phases).copied().collect::<Vec<_>>();
    objects.declare("cluster", of(&ClusterState::ALL.map(ClusterState::as_str)));
    for cloud in ["cloud", "globalcloud"] {
        objects.declare(cloud, of(&["ONLINE", "OFFLINE"]));
    }
    for provider in ["infrastructureprovider", "globalinfrastructureprovider"] {
        objects.declare(provider, of(&[READY, NOT_READY]));
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.orphans.set(0);
    }
}

/// Writes the number of Clusters in each state.
fn write(caches: Option<&Clusters>, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let states = ClusterState::ALL.map(|state| (state.as_str(), 0_i64));
    let mut counts = BTreeMap::from(states);
    for cluster in caches.into_iter().flat_map(Cache::all) {
        let status = cluster.0.as_ref().ok().and_then(|it| it.status.as_ref());
        if let Some(state) = status.and_then(|status| status.state) {
            *counts.entry(state.as_str()).or_insert(0) += 1;
        }
    }
    let series = counts
        .into_iter()
        .map(|(state, count)| ([("state", state)], count));
    gauges(&mut encoder, "clusters", "Clusters, by state", series)
}
