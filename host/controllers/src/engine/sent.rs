//! Counts what is sent in the background, by what became of it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counts by outcome, from 0; cheap to clone.
#[derive(Clone, Debug)]
pub struct SendMetrics(Family<Label, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: &'static str,
}

/// What became of something that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The receiver took it.
    Sent,
    /// The receiver rejected it, or did not answer in time.
    Failed,
    /// It was never sent, because the queue was full or the process stopped.
    Dropped,
}

impl SendOutcome {
    const ALL: [Self; 3] = [Self::Sent, Self::Failed, Self::Dropped];

    fn label(self) -> Label {
        let outcome = match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        };
        Label { outcome }
    }
}

impl Default for SendMetrics {
    fn default() -> Self {
        let family = Family::default();
        for outcome in SendOutcome::ALL {
            drop(family.get_or_create(&outcome.label()));
        }
        Self(family)
    }
}

impl SendMetrics {
    /// Registers the metric. Call it once.
    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }

    /// Counts so many.
    pub fn count(&self, outcome: SendOutcome, how_many: usize) {
        let how_many = u64::try_from(how_many).unwrap_or(u64::MAX);
        self.0.get_or_create(&outcome.label()).inc_by(how_many);
    }
}
