//! What is measured of infrastructures. No label is the name of an object.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::runtime::reflector::Store;
use podloom_api::{ClusterObject, ClusterState, OperationKind};
use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::im::ImMetrics;
use crate::engine::metrics::Objects;
use crate::engine::readable::Readable;
use crate::outbound::OutboundMetrics;

/// From one second to about nine hours, doubling.
const BUCKETS: (f64, f64, u16) = (1.0, 2.0, 16);
/// How an object without a status is counted.
pub(crate) const NONE: &str = "None";
/// How one that our types cannot hold is counted.
pub(crate) const UNREADABLE: &str = "Unreadable";

/// How a provider is counted that is ready.
pub(crate) const READY: &str = "Ready";
/// How one is counted that is not, or of which that is not known.
pub(crate) const NOT_READY: &str = "NotReady";

/// Metrics of the duty; cheap to clone, registered once.
#[derive(Clone)]
pub(crate) struct InfrastructureMetrics {
    /// Requests to Infrastructure Managers.
    pub(crate) im: ImMetrics,
    /// All requests out of the cluster.
    pub(crate) outbound: OutboundMetrics,
    clusters: Clusters,
    operations: Family<Operation, Histogram, fn() -> Histogram>,
    drift: Family<Drift, Counter>,
    orphans: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Drift {
    kind: &'static str,
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

impl DriftKind {
    const ALL: [Self; 3] = [Self::State, Self::Machines, Self::Vanished];

    fn label(self) -> Drift {
        let kind = match self {
            Self::State => "state",
            Self::Machines => "machines",
            Self::Vanished => "vanished",
        };
        Drift { kind }
    }
}

type Stores = Arc<[Store<Readable<ClusterObject>>]>;

/// The caches to count at each scrape; none while the controllers do not run.
#[derive(Clone, Default)]
struct Clusters(Arc<Mutex<Option<Stores>>>);

/// Stops counting when it is dropped, since the caches of stopped controllers are stale.
pub(crate) struct Counted(InfrastructureMetrics);

impl InfrastructureMetrics {
    /// Registers all of them.
    pub(crate) fn register(
        registry: &mut Registry,
        objects: &Objects,
        outbound: OutboundMetrics,
    ) -> Self {
        declare(objects);
        let clusters = Clusters::default();
        registry.register_collector(Box::new(clusters.clone()));
        let operations = Family::new_with_constructor(
            (|| {
                let (first, factor, count) = BUCKETS;
                Histogram::new(exponential_buckets(first, factor, count))
            }) as fn() -> Histogram,
        );
        registry.register_with_unit(
            "cluster_operation_duration",
            "Duration of operations on the infrastructures of Clusters, from the request until they are configured or deleted",
            Unit::Seconds,
            operations.clone(),
        );
        let drift = Family::default();
        for kind in DriftKind::ALL {
            drop(drift.get_or_create(&kind.label()));
        }
        registry.register(
            "im_drift",
            "Infrastructures that were found to differ from what was known, by what differs",
            drift.clone(),
        );
        let orphans = Gauge::default();
        registry.register(
            "im_orphaned_infrastructures",
            "Infrastructures that were made for Clusters which do not exist any more",
            orphans.clone(),
        );
        Self {
            im: ImMetrics::register(registry, outbound.clone()),
            outbound,
            clusters,
            operations,
            drift,
            orphans,
        }
    }

    /// Records an operation that has ended.
    pub(crate) fn operated(&self, operation: OperationKind, took: Duration) {
        let operation = operation.as_str();
        self.operations
            .get_or_create(&Operation { operation })
            .observe(took.as_secs_f64());
    }

    /// Counts a difference.
    pub(crate) fn drifted(&self, kind: DriftKind) {
        self.drift.get_or_create(&kind.label()).inc();
    }

    /// Sets the number of infrastructures without a Cluster.
    pub(crate) fn orphaned(&self, count: usize) {
        self.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts the Clusters in these caches until the returned value is dropped.
    #[must_use]
    pub(crate) fn count(&self, clusters: Stores) -> Counted {
        self.clusters.set(Some(clusters));
        Counted(self.clone())
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

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.clusters.set(None);
        self.0.orphaned(0);
    }
}

impl Clusters {
    fn set(&self, caches: Option<Stores>) {
        *lock(&self.0) = caches;
    }

    /// The number of Clusters in each state.
    fn counts(&self) -> BTreeMap<&'static str, i64> {
        let caches = lock(&self.0).clone();
        let states = ClusterState::ALL.map(|state| (state.as_str(), 0));
        let mut counts = BTreeMap::from(states);
        for cluster in caches
            .iter()
            .flat_map(|it| it.iter())
            .flat_map(Store::state)
        {
            let status = cluster.0.as_ref().ok().and_then(|it| it.status.as_ref());
            if let Some(state) = status.and_then(|status| status.state) {
                *counts.entry(state.as_str()).or_insert(0) += 1;
            }
        }
        counts
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clusters").finish_non_exhaustive()
    }
}

impl Collector for Clusters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Clusters, by state";
        let mut family = encoder.encode_descriptor("clusters", help, None, MetricType::Gauge)?;
        for (state, count) in self.counts() {
            let labels = [("state", state)];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
