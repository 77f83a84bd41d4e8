//! The metrics of all controllers.

use podloom_browser::BrowserMetrics;
use podloom_cleaner::CleanerMetrics;
use podloom_engine::events;
use podloom_engine::metrics::EngineMetrics;
use podloom_engine::outbound::OutboundMetrics;
use podloom_engine::sent::SendMetrics;
use podloom_infrastructure::InfrastructureMetrics;
use podloom_portal::PortalMetrics;
use podloom_rollout::RolloutMetrics;
use prometheus_client::registry::Registry;

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
    pub(crate) rollout: RolloutMetrics,
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
        let rollout = RolloutMetrics::declared(registry, &engine.objects);
        let cleaner = CleanerMetrics::declared(registry, &engine.objects, outbound);
        Self {
            events,
            engine,
            browsers,
            portal,
            infrastructure,
            cleaner,
            rollout,
        }
    }
}
