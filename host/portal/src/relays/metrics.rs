//! What is measured of relays.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use podloom_engine::outbound::OutboundMetrics;
use podloom_metrics::{Histograms, metrics};
use podloom_turns::lock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::authority::Authority;

/// From 10 milliseconds to about 40 seconds, doubling.
const BUCKETS: Histograms = Histograms(0.01, 2.0, 13);

/// How many relays have series of their own. Any user can name relays, so the others share theirs.
const NAMED: usize = 100;
/// The label of the others.
const OTHER: &str = "other";

metrics! {
    /// Metrics of relays; cheap to clone, registered once. The metrics of the requests are those of all clients.
    pub(crate) struct RelayMetrics(pub(super) outbound: OutboundMetrics) {
        up: Family<Relay, Gauge> = "portal_relay_up", "Whether the last look at a relay got a usable answer";
        duration: Family<Relay, Histogram, Histograms> = "portal_relay_poll_duration" Seconds, "Duration of looks at a relay, all requests of a look together", Family::new_with_constructor(BUCKETS);
        shown: Arc<Mutex<Shown>>;
    }
}

/// The relays that are shown.
#[derive(Default)]
struct Shown {
    /// Those with series of their own.
    named: HashSet<Authority>,
    others: HashSet<Authority>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Relay {
    relay: String,
}

impl RelayMetrics {
    /// Records a look at a relay. The series of the others show the last look at any of them.
    pub(super) fn polled(&self, authority: &Authority, is_up: bool, took: Duration) {
        let mut shown = self.shown();
        let relay = shown.show(authority);
        self.duration
            .get_or_create(&relay)
            .observe(took.as_secs_f64());
        self.up.get_or_create(&relay).set(is_up.into());
        if shown.others.is_empty() {
            self.remove(&label(&OTHER));
        }
    }

    /// Removes the series of a relay that nobody uses any more.
    pub(super) fn forget(&self, authority: &Authority) {
        let mut shown = self.shown();
        if shown.named.remove(authority) {
            self.remove(&label(authority));
        } else if shown.others.remove(authority) && shown.others.is_empty() {
            self.remove(&label(&OTHER));
        }
    }

    /// Removes all series, since relays are not observed any more.
    pub(super) fn clear(&self) {
        *self.shown() = Shown::default();
        self.up.clear();
        self.duration.clear();
    }

    fn remove(&self, relay: &Relay) {
        self.up.remove(relay);
        self.duration.remove(relay);
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        lock(&self.shown)
    }
}

impl Shown {
    /// Returns the label of a relay. One of the others gets its own as soon as there is room.
    fn show(&mut self, authority: &Authority) -> Relay {
        if !self.named.contains(authority) {
            if self.named.len() >= NAMED {
                self.others.insert(authority.clone());
                return label(&OTHER);
            }
            self.others.remove(authority);
            self.named.insert(authority.clone());
        }
        label(authority)
    }
}

fn label(relay: &impl ToString) -> Relay {
    Relay {
        relay: relay.to_string(),
    }
}

#[cfg(test)]
mod tests;
