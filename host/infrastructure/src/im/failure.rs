//! Why a call has no usable answer.

use std::fmt;

use http::StatusCode;
use podloom_engine::outbound::RequestErrorKind;
use serde::Serialize;
use serde_json::Value;

/// Why a call has no usable answer, and whether IM may have acted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// A sentence for the status: at most 512 bytes in one line, without secrets.
    pub(crate) message: String,
    pub(crate) sent: Sent,
}

impl Failure {
    /// An answer to another question than ours: the request may have been carried out.
    pub(crate) fn unexpected() -> Self {
        Self {
            kind: FailureKind::Unreachable,
            message: "the answer is none of an Infrastructure Manager".to_owned(),
            sent: Sent::Unknown,
        }
    }
}

/// Whether IM may have acted on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Sent {
    /// The call never left.
    No,
    /// IM got it and refused it.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) enum FailureKind {
    /// IM does not answer, or not as IM does.
    Unreachable,
    /// Too many of our own requests are running. This says nothing about IM.
    Limited,
    /// IM does not accept the account.
    CredentialsRejected,
    /// The infrastructure belongs to another account.
    NotGranted,
    /// IM accepts no changes now.
    ReadOnly,
    /// The infrastructure has no template: its creation was interrupted.
    NoTemplate,
    /// IM cannot read the template. The same one is never accepted.
    TemplateRejected,
    /// IM refuses for now: a quota, the cloud, a template that does not fit the one that is there.
    Refused,
    /// IM itself says that there is no such infrastructure. For a call that changes something, confirm that by a read of the state.
    NotFound,
    /// IM is busy with the infrastructure.
    Conflict,
}

impl FailureKind {
    /// Returns the label of the metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Limited => "limited",
            Self::CredentialsRejected => "credentials_rejected",
            Self::NotGranted => "not_granted",
            Self::ReadOnly => "read_only",
            Self::NoTemplate => "no_template",
            Self::TemplateRejected => "template_rejected",
            Self::Refused => "refused",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
        }
    }

    /// Sorts the answer with a status that is not 200. IM tells some cases apart only in its text.
    pub(super) fn of(status: StatusCode, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let says = |words: &str| text.contains(words);
        match status.as_u16() {
            401 => Self::CredentialsRejected,
            400 if says("InfrastructureManager credentials") || says("No credentials provided") => {
                Self::CredentialsRejected
            }
            400 if says("Error parsing request body") => Self::TemplateRejected,
            415 => Self::TemplateRejected,
            400 => Self::Refused,
            403 if says("not granted") => Self::NotGranted,
            403 if says("disabled") => Self::ReadOnly,
            403 if says("not valid") => Self::NoTemplate,
            403 => Self::Refused,
            404 if says("Error deleting resources") => Self::Refused,
            404 if is_of_im(body) => Self::NotFound,
            409 => Self::Conflict,
            _ => Self::Unreachable,
        }
    }
}

/// Whether it is IM that knows no such infrastructure. Many a proxy answers 404 while nothing is behind it, and who believes that creates
/// all machines once more.
fn is_of_im(body: &[u8]) -> bool {
    let read: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = read["message"].as_str().unwrap_or_default();
    read["code"] == 404 && message.to_lowercase().contains("infrastructure")
}

impl Sent {
    /// Returns it for an answer with a status that is not 200: after an error of the server, IM may have acted.
    pub(super) fn with(status: StatusCode) -> Self {
        match status.is_client_error() {
            true => Self::Refused,
            false => Self::Unknown,
        }
    }
}

impl Failure {
    /// Returns the failure of a request without a usable answer.
    pub(super) fn of_request(kind: &RequestErrorKind, message: String) -> Self {
        let is_ours = matches!(kind, RequestErrorKind::Busy { .. });
        Self {
            kind: match is_ours {
                true => FailureKind::Limited,
                false => FailureKind::Unreachable,
            },
            message,
            sent: match kind.is_unsent() {
                true => Sent::No,
                false => Sent::Unknown,
            },
        }
    }

    /// Returns the failure of an answer that cannot be read. IM has acted.
    pub(super) fn unreadable(what: &str) -> Self {
        Self {
            kind: FailureKind::Unreachable,
            message: format!("the answer of the Infrastructure Manager cannot be read: {what}"),
            sent: Sent::Unknown,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
