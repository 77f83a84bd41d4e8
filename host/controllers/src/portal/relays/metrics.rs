//! What is measured of relays.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::outbound::OutboundMetrics;
use crate::portal::authority::Authority;

/// From 10 milliseconds to about 40 seconds, doubling.
const BUCKETS: (f64, f64, u16) = (0.01, 2.0, 13);

/// Metrics of relays; cheap to clone, registered once.
#[derive(Clone)]
pub(crate) struct RelayMetrics {
    up: Family<Relay, Gauge>,
    duration: Family<Relay, Histogram, fn() -> Histogram>,
    pub(super) outbound: OutboundMetrics,
}

/// Relays are few, so they may be a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Relay {
    relay: String,
}

impl RelayMetrics {
    /// Registers `portal_relay_up` and `portal_relay_poll_duration_seconds`. The metrics of the requests are those of all clients.
    pub(crate) fn register(registry: &mut Registry, outbound: OutboundMetrics) -> Self {
        let up = Family::default();
        registry.register(
            "portal_relay_up",
            "Whether the last look at a relay got a usable answer",
            up.clone(),
        );
        let duration = Family::new_with_constructor(
            (|| {
                let (first, factor, count) = BUCKETS;
                Histogram::new(exponential_buckets(first, factor, count))
            }) as fn() -> Histogram,
        );
        registry.register_with_unit(
            "portal_relay_poll_duration",
            "Duration of looks at a relay, all requests of a look together",
            Unit::Seconds,
            duration.clone(),
        );
        Self {
            up,
            duration,
            outbound,
        }
    }

    /// Records a look at a relay.
    pub(super) fn polled(&self, authority: &Authority, is_up: bool, took: Duration) {
        let relay = relay(authority);
        self.duration
            .get_or_create(&relay)
            .observe(took.as_secs_f64());
        self.up.get_or_create(&relay).set(is_up.into());
    }

    /// Removes the series of a relay that nobody uses any more.
    pub(super) fn forget(&self, authority: &Authority) {
        let relay = relay(authority);
        self.up.remove(&relay);
        self.duration.remove(&relay);
    }

    /// Removes all series, since relays are not observed any more.
    pub(super) fn clear(&self) {
        self.up.clear();
        self.duration.clear();
    }
}

fn relay(authority: &Authority) -> Relay {
    Relay {
        relay: authority.to_string(),
    }
}
