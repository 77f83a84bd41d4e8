//! What is measured of deliveries.

use podloom_metrics::{Counted, Values};

/// Attempts to deliver CloudEvents by what came of them; cheap to clone.
pub(crate) type DeliveryMetrics = Counted<Delivered>;

/// What came of an attempt, or of a whole delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The sink accepted the event.
    Accepted,
    /// The attempt failed.
    Failed,
    /// The deadline passed, and no other attempt is made.
    GivenUp,
}

impl Values for Delivered {
    const LABEL: &'static str = "outcome";
    const ALL: &'static [Self] = &[Self::Accepted, Self::Failed, Self::GivenUp];

    fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        }
    }
}
