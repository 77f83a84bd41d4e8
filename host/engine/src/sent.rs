//! What became of what is sent in the background.

use podloom_metrics::{Counted, Values};

/// Counts by outcome, from 0; cheap to clone.
pub type SendMetrics = Counted<SendOutcome>;

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

impl Values for SendOutcome {
    const LABEL: &'static str = "outcome";
    const ALL: &'static [Self] = &[Self::Sent, Self::Failed, Self::Dropped];

    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}
