//! The metrics of all controllers.

use prometheus_client::registry::Registry;

use crate::browser::BrowserMetrics;
use crate::cleaner::CleanerMetrics;
use crate::engine::events;
use crate::engine::metrics::EngineMetrics;
use crate::engine::sent::SendMetrics;
use crate::infrastructure::InfrastructureMetrics;
use crate::outbound::OutboundMetrics;
use crate::portal::PortalMetrics;

/// Metrics of the controllers; cheap to clone, registered once.
#[derive(Clone)]
pub struct ControllerMetrics {
    /// Events about objects.
    pub events: SendMetrics,
    pub(crate) engine: EngineMetrics,
    pub(crate) browsers: BrowserMetrics,
    pub(crate) portal: PortalMetrics,
    pub(crate) infrastructure: InfrastructureMetrics,
    pub(crate) cleaner: CleanerMetrics,
}

impl ControllerMetrics {
    /// Registers all metrics of the controllers. Call it once: a second set would appear beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let events = events::metrics(registry);
        let engine = EngineMetrics::collected(registry);
        let browsers = BrowserMetrics::declared(registry, &engine.objects);
        let outbound = OutboundMetrics::register(registry);
        let portal = PortalMetrics::declared(registry, &engine.objects, outbound.clone());
        let infrastructure =
            InfrastructureMetrics::declared(registry, &engine.objects, outbound.clone());
        let cleaner = CleanerMetrics::declared(registry, &engine.objects, outbound);
        Self {
            events,
            engine,
            browsers,
            portal,
            infrastructure,
            cleaner,
        }
    }
}
