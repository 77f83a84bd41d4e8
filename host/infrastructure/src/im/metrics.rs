//! What is measured of calls.

use std::time::Instant;

use podloom_engine::outbound::OutboundMetrics;
use podloom_metrics::{By, Histograms, metrics};
use prometheus_client::metrics::histogram::Histogram;

use super::call::Call;
use super::failure::FailureKind;

/// From a millisecond to about two minutes, doubling.
const BUCKETS: Histograms = Histograms(0.001, 2.0, 18);
/// The outcome of a call with an answer.
const SUCCESS: &str = "success";
/// That of a call that nobody waits for any more.
const CANCELLED: &str = "cancelled";

metrics! {
    /// Metrics of calls; cheap to clone, registered once.
    pub(crate) struct ImMetrics(pub(super) outbound: OutboundMetrics) {
        requests: By<2> = "im_requests", "Requests to Infrastructure Managers, by operation and outcome", By::new(["operation", "outcome"]);
        duration: By<1, Histogram, Histograms> = "im_request_duration" Seconds, "Duration of requests to Infrastructure Managers, failed ones included", By::histograms(["operation"], BUCKETS);
    }
}

impl ImMetrics {
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
        self.metrics.requests.of([operation, outcome]).inc();
        // A call that waited for our own limit says nothing about IM.
        if outcome != FailureKind::Limited.as_str() {
            let took = self.begun.elapsed().as_secs_f64();
            self.metrics.duration.of([operation]).observe(took);
        }
    }
}
