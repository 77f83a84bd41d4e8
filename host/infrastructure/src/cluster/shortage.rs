//! Machines that are missing although IM says that all are configured: somebody deleted them, and IM only knows those that are left.

use std::time::Duration;

use jiff::Timestamp;
use podloom_engine::plan::later;

/// What is known of missing machines.
///
/// Whether IM counts as we do is not known. So the template is sent again once; if IM then still has as few machines, it has what it takes
/// the template for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// None are missing.
    #[default]
    None,
    /// Some have seemed to be missing since then. IM may still be adding them.
    Seen(Timestamp),
    /// Some are missing.
    Found,
    /// Some were missing, and the template was sent again.
    Sent,
    /// IM has this many, and makes no more of the template.
    Accepted(usize),
}

impl Shortage {
    /// Returns what is known after a reading of configured machines: so many of those that the template asks for.
    pub(crate) fn after(
        self,
        (total, wanted): (usize, usize),
        at: Timestamp,
        poll: Duration,
    ) -> Self {
        match self {
            _ if wanted <= total => Self::None,
            Self::Accepted(accepted) if accepted == total => self,
            Self::Sent => Self::Accepted(total),
            Self::Seen(since) if later(since, poll) <= at => Self::Found,
            Self::Seen(_) | Self::Found => self,
            Self::None | Self::Accepted(_) => Self::Seen(at),
        }
    }

    /// Whether it is not clear yet that nothing is missing.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Seen(_) | Self::Found | Self::Sent)
    }
}

#[cfg(test)]
mod tests;
