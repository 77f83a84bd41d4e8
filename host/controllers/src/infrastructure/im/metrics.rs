//! What is measured of calls.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::call::Call;
use super::failure::FailureKind;
use crate::outbound::OutboundMetrics;

/// From a millisecond to about two minutes, doubling.
const BUCKETS: (f64, f64, u16) = (0.001, 2.0, 18);
/// The outcome of a call with an answer.
const SUCCESS: &str = "success";
/// That of a call that nobody waits for any more.
const CANCELLED: &str = "cancelled";

/// Metrics of calls; cheap to clone, registered once.
#[derive(Clone)]
pub(crate) struct ImMetrics {
    pub(super) outbound: OutboundMetrics,
    requests: Family<Outcome, Counter>,
    duration: Family<Operation, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

impl ImMetrics {
    /// Registers `im_requests_total` and `im_request_duration_seconds`.
    pub(crate) fn register(registry: &mut Registry, outbound: OutboundMetrics) -> Self {
        let duration = Family::new_with_constructor(
            (|| {
                let (first, factor, count) = BUCKETS;
                Histogram::new(exponential_buckets(first, factor, count))
            }) as fn() -> Histogram,
        );
        let metrics = Self {
            outbound,
            requests: Family::default(),
            duration,
        };
        registry.register(
            "im_requests",
            "Requests to Infrastructure Managers, by operation and outcome",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "im_request_duration",
            "Duration of requests to Infrastructure Managers, failed ones included",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        metrics
    }

    /// Begins to count a call. It is counted when what is returned is dropped: as cancelled, if that is before its end.
    pub(super) fn begin(&self, call: &Call) -> Counted<'_> {
        Counted {
            metrics: self,
            operation: call.operation(),
            outcome: CANCELLED,
            begun: Instant::now(),
        }
    }
}

/// A call that is being counted.
pub(super) struct Counted<'a> {
    metrics: &'a ImMetrics,
    operation: &'static str,
    outcome: &'static str,
    begun: Instant,
}

impl Counted<'_> {
    /// Counts the call as answered, or as failed.
    pub(super) fn end(mut self, failure: Option<FailureKind>) {
        self.outcome = failure.map_or(SUCCESS, FailureKind::as_str);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let (operation, outcome) = (self.operation, self.outcome);
        let requests = &self.metrics.requests;
        requests
            .get_or_create_owned(&Outcome { operation, outcome })
            .inc();
        // A call that waited for our own limit says nothing about IM.
        if outcome != FailureKind::Limited.as_str() {
            let duration = &self.metrics.duration;
            let duration = duration.get_or_create_owned(&Operation { operation });
            duration.observe(self.begun.elapsed().as_secs_f64());
        }
    }
}
