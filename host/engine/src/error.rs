//! Errors of observing and acting. A mistake in an object is not an error; it belongs in the object's status.

use std::time::Duration;

use kube::core::Status;
use podloom_api::names;

use super::events::Notice;

/// Why a pass failed and must be repeated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("could not {} {name}", attempt.what)]
    Request {
        /// What the request was for.
        attempt: Attempt,
        /// The name of the object.
        name: String,
        /// The error of the API server or of the connection.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("no answer from the API server after {} s", after.as_secs())]
    Unanswered {
        /// The timeout.
        after: Duration,
    },
    /// The plan asks for a retry with backoff.
    #[error("{message}")]
    Retry {
        /// The label of the metric.
        reason: &'static str,
        /// Why.
        message: String,
        /// The longest wait before the next attempt.
        within: Duration,
    },
    /// The finalizers and labels of the object are not what the operator needs, and no status says so.
    #[error("{message}")]
    MetadataRefused {
        /// Why.
        message: String,
    },
    /// The pass panicked, which is a bug.
    #[error("the pass panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The pass took too long.
    #[error("the pass took longer than {} s", after.as_secs())]
    TooLong {
        /// The timeout.
        after: Duration,
    },
    /// The plan asked for more actions than the kind's `steps`, which is a bug.
    #[error("the plan asks for actions without end")]
    Endless,
}

/// What a request to the API server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The label of the metric: one word, from a closed set.
    pub reason: &'static str,
    /// The request in words that complete "could not …" and end before the object's name.
    pub what: &'static str,
    /// The reason of the Event to publish if the API server rejects the request, for failures that no status shows.
    pub event: Option<&'static str>,
    /// Whether the object is secret. What the API server says about it may quote it, so nobody gets to read that.
    pub is_secret: bool,
}

impl Attempt {
    /// Reading one object or several, past the cache.
    pub const READ: Self = Self::new("Read", "read");
    /// Setting finalizers and labels.
    pub const SET_METADATA: Self = Self {
        event: Some(names::reason::METADATA_REFUSED),
        ..Self::new("SetMetadata", "set finalizers and labels of")
    };
    /// Writing a status.
    pub const WRITE_STATUS: Self = Self::new("WriteStatus", "write the status of");
    /// Deleting an object of the kind itself.
    pub const DELETE: Self = Self::new("Delete", "delete");

    /// Returns an attempt whose failure appears in the log and the metric only.
    #[must_use]
    pub const fn new(reason: &'static str, what: &'static str) -> Self {
        Self {
            reason,
            what,
            event: None,
            is_secret: false,
        }
    }

    /// Returns an attempt at an object that is secret.
    #[must_use]
    pub const fn at_secret(reason: &'static str, what: &'static str) -> Self {
        Self {
            is_secret: true,
            ..Self::new(reason, what)
        }
    }
}

impl Error {
    /// Returns the error for a finalizer of ours that was removed and is back. Only a webhook can add one to an object that is being
    /// deleted.
    #[must_use]
    pub fn held_again() -> Self {
        Self::MetadataRefused {
            message: "an admission policy restores the finalizer that the operator removes"
                .to_owned(),
        }
    }

    /// Returns the label of the metric.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Request { attempt, .. } => attempt.reason,
            Self::Unanswered { .. } => "Unanswered",
            Self::Retry { reason, .. } => reason,
            Self::MetadataRefused { .. } => names::reason::METADATA_REFUSED,
            Self::Panicked { .. } => "Panicked",
            Self::TooLong { .. } => "TooLong",
            Self::Endless => "Endless",
        }
    }

    /// Returns the Event to publish about the object, if its status cannot show the error.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        match self {
            Self::Panicked { .. } => Some(Notice::warning(
                names::event::PANICKED,
                "the operator hit a bug while it worked on this object, and tries again; see its log",
            )),
            Self::TooLong { .. } => Some(Notice::warning(names::event::TOO_SLOW, self.to_string())),
            Self::MetadataRefused { message } => Some(Notice::warning(
                names::reason::METADATA_REFUSED,
                message.clone(),
            )),
            Self::Request {
                attempt, source, ..
            } => match &**source {
                kube::Error::Api(status) if is_rejection(status) => {
                    let note = format!("{self}: {}", status.message);
                    Some(Notice::warning(attempt.event?, note))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the longest wait before the next attempt.
    pub(super) fn retry_within(&self) -> Duration {
        match self {
            Self::Retry { within, .. } => *within,
            _ => Duration::MAX,
        }
    }

    /// Returns whether another writer was faster. The next pass will see its write, so this is not worth a warning.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Request { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if status.is_conflict())
            }
            _ => false,
        }
    }
}

/// Whether admission or validation rejected the request; it may succeed once somebody changes a policy. A webhook that is down answers
/// 500.
fn is_rejection(status: &Status) -> bool {
    status.is_forbidden() || status.is_invalid() || matches!(status.code, 400 | 500)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;

    use super::{Attempt, Error};

    fn has_event(attempt: Attempt, source: kube::Error) -> bool {
        let error = Error::Request {
            attempt,
            name: "a".to_owned(),
            source: Box::new(source),
        };
        error.notice().is_some()
    }

    fn answer(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("no", reason).with_code(code)))
    }

    #[test]
    fn a_pass_that_takes_too_long_has_an_event() {
        let after = Duration::from_mins(2);
        assert!(Error::TooLong { after }.notice().is_some());
    }

    #[test]
    fn an_event_is_published_only_if_the_api_server_rejects_metadata() {
        let rejected = |source| has_event(Attempt::SET_METADATA, source);
        assert!(rejected(answer(403, "Forbidden")));
        assert!(rejected(answer(500, "InternalError")));
        assert!(!rejected(answer(409, "Conflict")));
        assert!(!rejected(answer(503, "ServiceUnavailable")));
        assert!(!rejected(kube::Error::Service("connection refused".into())));
        assert!(!has_event(Attempt::WRITE_STATUS, answer(403, "Forbidden")));
    }
}
