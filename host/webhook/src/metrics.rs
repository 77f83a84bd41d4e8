//! Metrics of the webhooks.

use std::time::Duration;

use axum::http::Version;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// From 50 µs to 13 s, doubling.
const BUCKETS: (f64, f64, u16) = (0.000_05, 2.0, 19);

/// Metrics of the webhooks; cheap to clone, registered once.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    requests: Family<ByOutcome, Counter>,
    duration: Family<ByEndpoint, Histogram, fn() -> Histogram>,
    wait: Histogram,
    unknown_owners: Counter,
}

/// What a request was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    MutatePods,
    /// The name of a kind's endpoint.
    Validate(&'static str),
}

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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByEndpoint {
    endpoint: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    endpoint: &'static str,
    outcome: &'static str,
    /// Of HTTP. The API server speaks 2 to a URL, and 1.1 to a Service.
    version: &'static str,
}

impl Endpoint {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::MutatePods => "mutate/pods",
            Self::Validate(endpoint) => endpoint,
        }
    }
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
    /// Registers all metrics of the webhooks. Call it once: a second set would be exported beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let new_histogram: fn() -> Histogram = || {
            let (first, factor, count) = BUCKETS;
            Histogram::new(exponential_buckets(first, factor, count))
        };
        let metrics = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(new_histogram),
            wait: new_histogram(),
            unknown_owners: Counter::default(),
        };
        registry.register(
            "webhook_requests",
            "Requests to the admission webhooks, by how they were answered, and by the version of HTTP",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "webhook_request_duration",
            "How long a request took, from its header to its answer",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register_with_unit(
            "webhook_wait",
            "How long a pod waited for its turn to pass the chain",
            Unit::Seconds,
            metrics.wait.clone(),
        );
        registry.register(
            "webhook_unknown_owners",
            "Pods whose controller is of a kind that the webhook does not know",
            metrics.unknown_owners.clone(),
        );
        metrics
    }

    pub(crate) fn answered(
        &self,
        endpoint: Endpoint,
        outcome: Outcome,
        version: Version,
        took: Duration,
    ) {
        let (endpoint, outcome) = (endpoint.as_str(), outcome.as_str());
        let labels = ByOutcome {
            endpoint,
            outcome,
            version: if version == Version::HTTP_2 {
                "2"
            } else {
                "1.1"
            },
        };
        self.requests.get_or_create(&labels).inc();
        let labels = ByEndpoint { endpoint };
        self.duration
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn owner_unknown(&self) {
        self.unknown_owners.inc();
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }
}
