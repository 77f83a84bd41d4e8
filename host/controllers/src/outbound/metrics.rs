//! The duration of requests.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// From a millisecond to about a minute, doubling.
const BUCKETS: (f64, f64, u16) = (0.001, 2.0, 17);

/// Metrics of all clients; cheap to clone, registered once.
#[derive(Clone)]
pub struct OutboundMetrics {
    duration: Family<Operation, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    system: &'static str,
    operation: &'static str,
}

impl OutboundMetrics {
    /// Registers `external_request_duration_seconds`. Call it once: a second set would be shown beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let duration = Family::new_with_constructor(
            (|| {
                let (first, factor, count) = BUCKETS;
                Histogram::new(exponential_buckets(first, factor, count))
            }) as fn() -> Histogram,
        );
        registry.register_with_unit(
            "external_request_duration",
            "Duration of requests to external systems, failed and cancelled ones included",
            Unit::Seconds,
            duration.clone(),
        );
        Self { duration }
    }

    /// Starts the timer of a request; it is observed when the timer is dropped.
    pub(super) fn time(&self, system: &'static str, operation: &'static str) -> Timer {
        let operation = Operation { system, operation };
        Timer {
            histogram: self.duration.get_or_create_owned(&operation),
            begun: Instant::now(),
        }
    }
}

/// Observes its own lifetime when it is dropped.
pub(super) struct Timer {
    histogram: Histogram,
    begun: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.begun.elapsed().as_secs_f64());
    }
}
