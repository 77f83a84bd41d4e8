//! What is measured of deliveries.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Attempts to deliver CloudEvents by what came of them; cheap to clone.
#[derive(Clone)]
pub(crate) struct DeliveryMetrics(pub(crate) Family<Label, Counter>);

/// What came of an attempt, or of a whole delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The sink accepted the event.
    Delivered,
    /// The attempt failed.
    Failed,
    /// The deadline passed, and no other attempt is made.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Label {
    outcome: &'static str,
}

impl Counted {
    const ALL: [Self; 3] = [Self::Delivered, Self::Failed, Self::GivenUp];

    fn label(self) -> Label {
        let outcome = match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        };
        Label { outcome }
    }
}

impl DeliveryMetrics {
    /// Counts one.
    pub(crate) fn count(&self, counted: Counted) {
        self.0.get_or_create(&counted.label()).inc();
    }
}

impl Default for DeliveryMetrics {
    fn default() -> Self {
        let family = Family::default();
        for counted in Counted::ALL {
            drop(family.get_or_create(&counted.label()));
        }
        Self(family)
    }
}
