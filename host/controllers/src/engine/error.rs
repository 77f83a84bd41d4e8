//! What can go wrong while a controller observes or acts. What is wrong with an object itself is no error but its status.

use std::time::Duration;

use kube::core::Status;
use podloom_api::names;

use super::events::Notice;

/// A pass that has to be repeated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server was asked for something and did not do it.
    #[error("could not {} {name}", attempt.what)]
    Request {
        /// What was tried.
        attempt: Attempt,
        /// The name of the object that it was tried on.
        name: String,
        /// What the API server or the connection said.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("no answer from the API server after {} s", after.as_secs())]
    Unanswered {
        /// How long it was waited for.
        after: Duration,
    },
    /// Something was refused, and may not be another time.
    #[error("refused: {message}")]
    Retry {
        /// The label of the metric.
        reason: &'static str,
        /// Why.
        message: String,
        /// How long it is tried yet.
        deadline: Duration,
    },
    /// The pass panicked, which is a bug of ours or of what it calls.
    #[error("the pass panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// The pass did not come to an end.
    #[error("the pass took longer than {} s", after.as_secs())]
    TooLong {
        /// How long it was waited for.
        after: Duration,
    },
    /// Acting taught nothing new, though the plan went on.
    #[error("the plan does not come to an end")]
    Endless,
}

/// Something that was tried on the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The label of the metric: one word, from a closed set.
    pub reason: &'static str,
    /// What was tried, as the rest of a sentence that begins with "could not" and ends with the object's name.
    pub what: &'static str,
    /// The reason of the Event to publish if the API server refuses, for what no status shows.
    pub event: Option<&'static str>,
}

impl Attempt {
    /// Reading an object, or several.
    pub const READ: Self = Self::new("Read", "read what the cache may not show of");
    /// Setting finalizers and labels.
    pub const SET_METADATA: Self = Self {
        event: Some(names::reason::METADATA_REFUSED),
        ..Self::new("SetMetadata", "set finalizers and labels of")
    };
    /// Writing a status.
    pub const WRITE_STATUS: Self = Self::new("WriteStatus", "write the status of");
    /// Deleting an object of the kind itself.
    pub const DELETE: Self = Self::new("Delete", "delete");

    /// Returns an attempt whose failure is told by the log and the metric alone.
    #[must_use]
    pub const fn new(reason: &'static str, what: &'static str) -> Self {
        Self {
            reason,
            what,
            event: None,
        }
    }
}

impl Error {
    /// Returns the label of the metric.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Request { attempt, .. } => attempt.reason,
            Self::Unanswered { .. } => "Unanswered",
            Self::Retry { reason, .. } => reason,
            Self::Panicked { .. } => "Panicked",
            Self::TooLong { .. } => "TooLong",
            Self::Endless => "Endless",
        }
    }

    /// Returns the Event to publish on the object, if its status cannot show the error.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        match self {
            Self::Panicked { .. } => Some(Notice::warning(
                names::event::PANICKED,
                "the operator hit a bug at this object and tries again; see its log",
            )),
            Self::TooLong { .. } => Some(Notice::warning(names::event::TOO_SLOW, self.to_string())),
            Self::Request {
                attempt, source, ..
            } => match &**source {
                kube::Error::Api(status) if is_refusal(status) => {
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
            Self::Retry { deadline, .. } => *deadline,
            _ => Duration::MAX,
        }
    }

    /// Returns whether somebody else wrote meanwhile, which the next look will show; no reason to worry anybody.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Request { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if status.is_conflict())
            }
            _ => false,
        }
    }
}

/// Whether admission or validation said no; the same request may pass once somebody has changed a policy. A webhook that is down is
/// an internal error.
fn is_refusal(status: &Status) -> bool {
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
    fn metadata_is_refused_only_by_an_api_server_that_says_so() {
        let refused = |source| has_event(Attempt::SET_METADATA, source);
        assert!(refused(answer(403, "Forbidden")));
        assert!(refused(answer(500, "InternalError")));
        assert!(!refused(answer(409, "Conflict")));
        assert!(!refused(answer(503, "ServiceUnavailable")));
        assert!(!refused(kube::Error::Service("connection refused".into())));
        assert!(!has_event(Attempt::WRITE_STATUS, answer(403, "Forbidden")));
    }
}
