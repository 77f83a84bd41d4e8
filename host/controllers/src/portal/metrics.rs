//! What is counted of PortalExposes and TunnelClasses.
//!
//! TunnelClasses are few and an administrator's, so their names may be labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use kube::runtime::reflector::Store;
use podloom_api::{
    PortalExposeObject, PortalExposeStatus, PortalPhase, RelayConnection, TunnelClassObject,
};
use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::relays::RelayMetrics;
use crate::engine::metrics::{Objects, Phases};
use crate::engine::readable::Readable;
use crate::outbound::OutboundMetrics;

/// The name of the controller of PortalExposes.
pub(super) const CONTROLLER: &str = "portalexpose";
/// The name of the controller of TunnelClasses.
pub(super) const CLASS_CONTROLLER: &str = "tunnelclass";
/// How a PortalExpose without a status is counted.
const NO_PHASE: &str = "None";
/// How one that our types cannot hold is counted.
const UNREADABLE: &str = "Unreadable";

type Exposes = Arc<[Store<Readable<PortalExposeObject>>]>;
type Classes = Store<Readable<TunnelClassObject>>;

/// Metrics of the duty.
#[derive(Clone)]
pub(crate) struct PortalMetrics {
    pub(super) relays: RelayMetrics,
    tunnels: Tunnels,
}

/// The caches to count at each scrape; none while the controllers do not run.
#[derive(Clone, Default)]
struct Tunnels(Arc<Mutex<Option<(Exposes, Classes)>>>);

/// Stops counting when it is dropped, since the caches of stopped controllers are stale.
pub(super) struct Counted(Tunnels);

impl PortalMetrics {
    pub(crate) fn register(
        registry: &mut Registry,
        objects: &Objects,
        outbound: OutboundMetrics,
    ) -> Self {
        let phases = [NO_PHASE, UNREADABLE]
            .into_iter()
            .chain(PortalPhase::ALL.map(PortalPhase::as_str));
        objects.declare(CONTROLLER, phases.collect());
        let tunnels = Tunnels::default();
        registry.register_collector(Box::new(tunnels.clone()));
        Self {
            relays: RelayMetrics::register(registry, outbound),
            tunnels,
        }
    }

    /// Counts what is in the caches until the returned value is dropped.
    #[must_use]
    pub(super) fn count(&self, exposes: Exposes, classes: Classes) -> Counted {
        self.tunnels.set(Some((exposes, classes)));
        Counted(self.tunnels.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Tunnels {
    fn set(&self, caches: Option<(Exposes, Classes)>) {
        *lock(&self.0) = caches;
    }

    /// The number of connections in each state, and of PortalExposes with each class.
    fn counts(&self) -> (BTreeMap<&'static str, i64>, BTreeMap<String, i64>) {
        let caches = lock(&self.0).clone();
        let states = RelayConnection::ALL.map(|state| (state.as_str(), 0));
        let mut connections = BTreeMap::from(states);
        let Some((exposes, classes)) = caches else {
            return (connections, BTreeMap::new());
        };
        let classes = classes.state();
        let names = classes.iter().map(|class| (class.name_any(), 0));
        let mut references: BTreeMap<String, i64> = names.collect();
        for expose in exposes.iter().flat_map(Store::state) {
            let status = expose.0.as_ref().ok().and_then(|it| it.status.as_ref());
            let Some(status) = status else { continue };
            for state in connected(status) {
                *connections.entry(state.as_str()).or_insert(0) += 1;
            }
            let class = status.tunnel_class_name.as_ref();
            if let Some(count) = class.and_then(|class| references.get_mut(class)) {
                *count += 1;
            }
        }
        (connections, references)
    }
}

fn connected(status: &PortalExposeStatus) -> impl Iterator<Item = RelayConnection> {
    let relays = status
        .relay
        .iter()
        .flat_map(|relay| relay.connected.iter().flatten());
    relays.map(|relay| relay.status)
}

impl fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tunnels").finish_non_exhaustive()
    }
}

impl Collector for Tunnels {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (connections, references) = self.counts();
        let help = "Connections of tunnels to relays, by state";
        let name = "portal_relay_connections";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (status, count) in connections {
            let labels = [("status", status)];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        let help = "PortalExposes that use each TunnelClass";
        let name = "portal_class_references";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (class, count) in &references {
            let labels = [("class", class.as_str())];
            ConstGauge::new(*count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Returns the phase of each PortalExpose of a cache, for as long as it is asked.
pub(super) fn phases(exposes: Store<Readable<PortalExposeObject>>) -> Phases {
    let phase = |expose: &Arc<Readable<PortalExposeObject>>| match &expose.0 {
        Ok(expose) => {
            let phase = expose.status.as_ref().and_then(|status| status.phase);
            phase.map_or(NO_PHASE, PortalPhase::as_str)
        }
        Err(_) => UNREADABLE,
    };
    Arc::new(move || exposes.state().iter().map(phase).collect())
}

#[cfg(test)]
mod tests;
