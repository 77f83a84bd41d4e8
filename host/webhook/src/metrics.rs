//! Metrics of the webhooks.

use std::time::Duration;

use axum::http::Version;
use podloom_metrics::{By, Histograms, histogram, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// From 50 µs to 13 s, doubling.
const BUCKETS: Histograms = Histograms(0.000_05, 2.0, 19);

metrics! {
    /// Metrics of the webhooks; cheap to clone, registered once.
    #[derive(Debug)]
    pub struct WebhookMetrics {
        /// The API server speaks HTTP 2 to a URL, and 1.1 to a Service.
        requests: By<3> = "webhook_requests", "Requests to the admission webhooks, by how they were answered, and by the version of HTTP", By::new(["endpoint", "outcome", "version"]);
        duration: By<1, Histogram, Histograms> = "webhook_request_duration" Seconds, "How long a request took, from its header to its answer", By::histograms(["endpoint"], BUCKETS);
        wait: Histogram = "webhook_wait" Seconds, "How long a pod waited for its turn to pass the chain", histogram(BUCKETS);
        unknown_owners: Counter = "webhook_unknown_owners", "Pods whose controller is of a kind that the webhook does not know";
    }
}

/// The endpoint for workloads.
pub(crate) const REVIEW_WORKLOADS: &str = "review/workloads";
/// The endpoint for pods; those for our kinds are in the rows of `validate`.
pub(crate) const MUTATE_PODS: &str = "mutate/pods";

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As it was.
    Admitted,
    /// With a patch.
    Mutated,
    /// Without a look: no new pod, a mirror pod, one that passed this chain already, or an object that is deleted.
    Skipped,
    /// A plugin or a rule denied it.
    Denied,
    /// A plugin failed.
    Broken,
    /// No chain is loaded, or it did not end in time.
    NoChain,
    /// Its namespace could not be read.
    NoNamespace,
    /// The controller of its pod could not be read.
    NoOwner,
    /// It did not get its turn in time.
    Busy,
    /// There was no memory for it.
    Full,
    /// It was no review.
    Malformed,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Mutated => "mutated",
            Self::Skipped => "skipped",
            Self::Denied => "denied",
            Self::Broken => "broken",
            Self::NoChain => "no_chain",
            Self::NoNamespace => "no_namespace",
            Self::NoOwner => "no_owner",
            Self::Busy => "busy",
            Self::Full => "full",
            Self::Malformed => "malformed",
        }
    }
}

impl WebhookMetrics {
    pub(crate) fn answered(
        &self,
        endpoint: &'static str,
        outcome: Outcome,
        version: Version,
        took: Duration,
    ) {
        let version = match version {
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        self.requests
            .of([endpoint, outcome.as_str(), version])
            .inc();
        self.duration.of([endpoint]).observe(took.as_secs_f64());
    }

    pub(crate) fn owner_unknown(&self) {
        self.unknown_owners.inc();
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }
}
