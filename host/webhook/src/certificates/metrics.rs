//! Metrics of the webhooks' certificate.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of the webhooks' certificate; cheap to clone, registered once.
#[derive(Clone, Debug, Default)]
pub struct CertificateMetrics {
    expiry: Gauge,
    failed: Family<ByLoop, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLoop {
    r#loop: &'static str,
}

impl CertificateMetrics {
    /// Registers the metrics. Call it once: a second set would be exported beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_with_unit(
            "webhook_certificate_expiry_timestamp",
            "When the certificate that the webhooks serve expires; 0 while there is none",
            Unit::Seconds,
            metrics.expiry.clone(),
        );
        registry.register(
            "webhook_certificate_failed_looks",
            "Looks at the webhooks' certificates that found a problem or failed",
            metrics.failed.clone(),
        );
        metrics
    }

    pub(super) fn serves_until(&self, expiry: SystemTime) {
        let seconds = expiry.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expiry
            .set(i64::try_from(seconds.as_secs()).unwrap_or(i64::MAX));
    }

    pub(super) fn failed(&self, of: &'static str) {
        self.failed.get_or_create(&ByLoop { r#loop: of }).inc();
    }
}
