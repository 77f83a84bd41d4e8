//! What the live spec says about the delivery. The deletion has begun, but the spec may still be edited: that is how a wrong sink is
//! repaired.

use std::time::Duration;

use podloom_api::{CleanerDelivery, CleanerSpec, DeliveryPolicy, duration};

/// After which time is given up if the spec does not say it.
const DEADLINE: Duration = Duration::from_hours(1);

/// What the live spec says about the delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Where the event goes.
    pub(crate) sink: SinkSetting,
    /// What happens if it cannot be delivered.
    pub(crate) policy: DeliveryPolicy,
    /// After which time [`DeliveryPolicy::Ignore`] gives up.
    pub(crate) deadline: Duration,
}

/// Where the event goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SinkSetting {
    /// To this URL.
    Url(String),
    /// Nowhere: somebody has removed the sink.
    Removed,
    /// Nobody knows: our types cannot hold the spec.
    Unknown,
}

impl Terms {
    /// Returns those of a spec; none if our types cannot hold it.
    pub(crate) fn of(spec: Option<&CleanerSpec>) -> Self {
        let delivery = spec.map_or_else(CleanerDelivery::default, |spec| spec.delivery.clone());
        let sink = match spec.map(|spec| spec.cloud_event_sink.as_deref()) {
            Some(Some(url)) => SinkSetting::Url(url.to_owned()),
            Some(None) => SinkSetting::Removed,
            None => SinkSetting::Unknown,
        };
        Self {
            sink,
            policy: delivery.policy,
            deadline: duration::parse(&delivery.deadline).unwrap_or(DEADLINE),
        }
    }
}
