//! What can go wrong while a controller observes or acts. What is wrong with an object itself is no error but its status.

use std::time::Duration;

use kube::core::Status;
use podloom_api::names;

use crate::events::Notice;

/// A reconcile that has to be repeated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A pod that the cache does not have could not be read.
    #[error("could not read pod {name}")]
    ReadPod {
        name: String,
        source: Box<kube::Error>,
    },
    /// An object of ours could not be read from the API server.
    #[error("could not read objects that the cache may not show")]
    Read { source: Box<kube::Error> },
    /// Finalizers and labels could not be set.
    #[error("could not set finalizers and labels")]
    SetMetadata { source: Box<kube::Error> },
    /// The status could not be written.
    #[error("could not write the status")]
    WriteStatus { source: Box<kube::Error> },
    /// The pod could not be created.
    #[error("could not create pod {name}")]
    CreatePod {
        name: String,
        source: Box<kube::Error>,
    },
    /// The pod could not be deleted.
    #[error("could not delete pod {name}")]
    DeletePod {
        name: String,
        source: Box<kube::Error>,
    },
    /// The object could not be deleted.
    #[error("could not delete the object")]
    Delete { source: Box<kube::Error> },
    /// The API server did not answer in time.
    #[error("no answer from the API server after {} s", after.as_secs())]
    Unanswered { after: Duration },
    /// The pod is refused for now.
    #[error("the pod is refused: {message}")]
    Refused {
        reason: &'static str,
        message: String,
        /// When trying ends, if that is near.
        deadline: Duration,
    },
    /// The pass panicked, which is a bug of ours or of what it calls.
    #[error("the pass panicked: {message}")]
    Panicked { message: String },
    /// The pass did not come to an end.
    #[error("the pass took longer than {} s", after.as_secs())]
    TooLong { after: Duration },
    /// Acting taught nothing new, though the plan went on.
    #[error("the plan does not come to an end")]
    Endless,
}

impl ReconcileError {
    /// Returns the label of the metric.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::ReadPod { .. } => "ReadPod",
            Self::Read { .. } => "Read",
            Self::SetMetadata { .. } => "SetMetadata",
            Self::WriteStatus { .. } => "WriteStatus",
            Self::CreatePod { .. } => "CreatePod",
            Self::DeletePod { .. } => "DeletePod",
            Self::Delete { .. } => "Delete",
            Self::Unanswered { .. } => "Unanswered",
            Self::Refused { reason, .. } => reason,
            Self::Panicked { .. } => "Panicked",
            Self::TooLong { .. } => "TooLong",
            Self::Endless => "Endless",
        }
    }

    /// Returns the Event to publish on the object, if its status cannot show the error.
    pub(crate) fn notice(&self) -> Option<Notice> {
        match self {
            Self::Panicked { .. } => Some(Notice::warning(
                names::event::PANICKED,
                "the operator hit a bug at this object and tries again; see its log",
            )),
            Self::TooLong { .. } => Some(Notice::warning(names::event::TOO_SLOW, self.to_string())),
            Self::SetMetadata { source } => match &**source {
                kube::Error::Api(status) if is_refusal(status) => {
                    let note = format!("{self}: {}", status.message);
                    Some(Notice::warning(names::reason::METADATA_REFUSED, note))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the longest wait before the next attempt.
    pub(crate) fn retry_within(&self) -> Duration {
        match self {
            Self::Refused { deadline, .. } => *deadline,
            _ => Duration::MAX,
        }
    }

    /// Returns whether somebody else wrote meanwhile, which the next look will show; no reason to worry anybody.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::SetMetadata { source }
            | Self::WriteStatus { source }
            | Self::Delete { source } => {
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
    use kube::core::Status;

    use super::ReconcileError;

    fn has_event(error: kube::Error) -> bool {
        let source = Box::new(error);
        ReconcileError::SetMetadata { source }.notice().is_some()
    }

    #[test]
    fn a_pass_that_takes_too_long_has_an_event() {
        let after = std::time::Duration::from_mins(2);
        assert!(ReconcileError::TooLong { after }.notice().is_some());
    }

    #[test]
    fn metadata_is_refused_only_by_an_api_server_that_says_so() {
        let answer = |code: u16, reason| {
            kube::Error::Api(Box::new(Status::failure("no", reason).with_code(code)))
        };
        assert!(has_event(answer(403, "Forbidden")));
        assert!(has_event(answer(500, "InternalError")));
        assert!(!has_event(answer(409, "Conflict")));
        assert!(!has_event(answer(503, "ServiceUnavailable")));
        assert!(!has_event(kube::Error::Service(
            "connection refused".into()
        )));
    }
}
