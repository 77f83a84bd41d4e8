//! What is counted of Browsers.

use jiff::Timestamp;
use podloom_api::{BrowserStatus, Phase};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::world::World;
use crate::act::Action;
use crate::events::Notice;

/// From a tenth of a second to a quarter of an hour, doubling.
const START_BUCKETS: (f64, f64, u16) = (0.1, 2.0, 14);

/// Starts and failures of sessions.
#[derive(Clone)]
pub(crate) struct BrowserMetrics {
    start: Histogram,
    failures: Family<Reason, Counter>,
}

/// Why a session failed: the reason of the Event that tells it, a closed set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl BrowserMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let (first, factor, count) = START_BUCKETS;
        let start = Histogram::new(exponential_buckets(first, factor, count));
        let failures = Family::default();
        registry.register_with_unit(
            "browser_start",
            "Time from a Browser's creation until it runs",
            Unit::Seconds,
            start.clone(),
        );
        registry.register(
            "browser_failures",
            "Browsers that failed, by the reason of their Event",
            failures.clone(),
        );
        Self { start, failures }
    }

    /// Counts what an action that was done means.
    pub(crate) fn count(
        &self,
        world: &World,
        action: &Action<BrowserStatus>,
        notice: Option<&Notice>,
        now: Timestamp,
    ) {
        let Action::WriteStatus(status) = action else {
            return;
        };
        let before = world.phase();
        match status.phase {
            Some(Phase::Running) if !matches!(before, Some(Phase::Running | Phase::Unknown)) => {
                let took = now.duration_since(world.created_at(now));
                self.start.observe(took.as_secs_f64().max(0.0));
            }
            Some(Phase::Failed) if before != Some(Phase::Failed) => {
                let reason = notice.map_or("Unknown", |notice| notice.reason);
                self.failures.get_or_create(&Reason { reason }).inc();
            }
            _ => {}
        }
    }
}
