//! Why a request to the API server did not do what it was for.

/// Why a request did not do what it was for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct RequestError {
    /// What kind of failure it is.
    pub(super) kind: FailureKind,
    /// A sentence for people.
    pub(super) message: String,
}

/// Why a request did not do what it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FailureKind {
    /// The operator has no right to do it.
    Forbidden,
    /// The API server does not serve the kind any more.
    NotServed,
    /// The object is not what it was: it has another UID, or somebody else was faster.
    Conflict,
    /// The list has too many objects.
    TooLong,
    /// The API server calls it wrong, or admission refused it.
    Refused,
    /// It may go well later: no answer, too many requests, an internal error.
    Transient,
}

impl RequestError {
    /// Returns whether the same request may go well soon.
    pub(super) fn is_transient(&self) -> bool {
        self.kind == FailureKind::Transient
    }
}
