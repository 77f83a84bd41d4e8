//! What is counted of PortalExposes and TunnelClasses.
//!
//! TunnelClasses are few and an administrator's, so their names may be labels.

use std::collections::BTreeMap;
use std::fmt;

use kube::ResourceExt;
use podloom_api::{
    PortalExposeObject, PortalExposeStatus, PortalPhase, RelayConnection, TunnelClassObject,
};
use podloom_engine::cache::Cache;
use podloom_engine::metrics::{NONE, Objects, UNREADABLE};
use podloom_engine::outbound::OutboundMetrics;
use podloom_engine::readable::Readable;
use podloom_metrics::{Scraped, Shown, gauges};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::relays::RelayMetrics;

/// The name of the controller of PortalExposes.
pub(super) const CONTROLLER: &str = "portalexpose";
/// The name of the controller of TunnelClasses.
pub(super) const CLASS_CONTROLLER: &str = "tunnelclass";

type Exposes = Cache<Readable<PortalExposeObject>>;
type Classes = Cache<Readable<TunnelClassObject>>;

/// Metrics of the duty.
#[derive(Clone)]
pub struct PortalMetrics {
    pub(super) relays: RelayMetrics,
    tunnels: Scraped<(Exposes, Classes)>,
}

impl PortalMetrics {
    /// Registers all of them, and declares the phases.
    pub fn declared(registry: &mut Registry, objects: &Objects, outbound: OutboundMetrics) -> Self {
        let phases = [NONE, UNREADABLE].into_iter();
        let phases = phases.chain(PortalPhase::ALL.map(PortalPhase::as_str));
        objects.declare(CONTROLLER, phases.collect());
        Self {
            tunnels: Scraped::register(registry, write),
            relays: RelayMetrics::register(registry, outbound),
        }
    }

    /// Counts what is in the caches until the returned value is dropped, since the caches of stopped controllers are stale.
    #[must_use]
    pub(super) fn count(&self, exposes: Exposes, classes: Classes) -> Shown<(Exposes, Classes)> {
        self.tunnels.set((exposes, classes));
        self.tunnels.shown()
    }
}

/// Counts the connections in each state, and the PortalExposes with each class.
fn counts(
    caches: Option<&(Exposes, Classes)>,
) -> (BTreeMap<&'static str, i64>, BTreeMap<String, i64>) {
    let states = RelayConnection::ALL.map(|state| (state.as_str(), 0));
    let mut connections = BTreeMap::from(states);
    let Some((exposes, classes)) = caches else {
        return (connections, BTreeMap::new());
    };
    let classes = classes.all();
    let names = classes.iter().map(|class| (class.name_any(), 0));
    let mut references: BTreeMap<String, i64> = names.collect();
    for expose in exposes.all() {
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

fn connected(status: &PortalExposeStatus) -> impl Iterator<Item = RelayConnection> {
    let relays = status
        .relay
        .iter()
        .flat_map(|relay| relay.connected.iter().flatten());
    relays.map(|relay| relay.status)
}

fn write(caches: Option<&(Exposes, Classes)>, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let (connections, references) = counts(caches);
    let help = "Connections of tunnels to relays, by state";
    let series = connections
        .into_iter()
        .map(|(status, count)| ([("status", status)], count));
    gauges(&mut encoder, "portal_relay_connections", help, series)?;
    let help = "PortalExposes that use each TunnelClass";
    let series = references
        .into_iter()
        .map(|(class, count)| ([("class", class)], count));
    gauges(&mut encoder, "portal_class_references", help, series)
}

/// The phase of a PortalExpose.
pub(super) fn phase(expose: &PortalExposeObject) -> &'static str {
    let phase = expose.status.as_ref().and_then(|status| status.phase);
    phase.map_or(NONE, PortalPhase::as_str)
}

#[cfg(test)]
mod tests;
