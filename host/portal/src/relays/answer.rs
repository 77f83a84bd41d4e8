//! What one look at a hostname found.

use std::fmt;
use std::time::Duration;

use podloom_engine::outbound::RequestErrorKind;

/// What a relay said about a hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It serves the hostname.
    Ready,
    /// It does not know the hostname.
    NoLease,
    /// It knows the hostname, but no tunnel is connected.
    LeaseNotReady,
    /// It said nothing that can be used.
    Unusable(Trouble),
}

/// Why there is no usable answer: a word and a sentence of ours, without any text of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    code: TroubleCode,
    text: String,
}

/// The kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TroubleCode {
    Unreachable,
    Timeout,
    Tls,
    BadResponse,
    /// The relay's address is not public, and no exception allows it, or it is denied.
    Blocked,
}

impl Trouble {
    /// Describes an answer that cannot be used.
    pub(super) fn bad_response(text: impl Into<String>) -> Self {
        Self {
            code: TroubleCode::BadResponse,
            text: text.into(),
        }
    }

    /// Describes a relay that answered nothing in the time of a look.
    pub(super) fn late(after: Duration) -> Self {
        Self {
            code: TroubleCode::Timeout,
            text: format!("it took longer than {} s to answer", after.as_secs()),
        }
    }

    /// Describes a host that no name server can know.
    pub(super) fn no_host() -> Self {
        Self {
            code: TroubleCode::Unreachable,
            text: "its host is not a valid DNS name".to_owned(),
        }
    }

    /// Describes a relay whose name is one of the cluster.
    pub(super) fn in_cluster() -> Self {
        let text = "it is a name of the cluster, which is not looked up; an administrator can allow relays in the cluster with \
                    --portal-relay-allow-cidr";
        Self::blocked(text)
    }

    fn blocked(text: &str) -> Self {
        Self {
            code: TroubleCode::Blocked,
            text: text.to_owned(),
        }
    }

    /// Describes a failed request; none if it was not sent because too many others are running, which says nothing about the relay.
    pub(super) fn of(error: &RequestErrorKind) -> Option<Self> {
        let code = match error {
            RequestErrorKind::Busy { .. } => return None,
            RequestErrorKind::Blocked(blocked) => {
                return Some(Self::blocked(match blocked.denied {
                    Some(_) => "an administrator denied its address with --portal-relay-deny-cidr",
                    None => {
                        "its address is not public; an administrator can allow it with \
                         --portal-relay-allow-cidr"
                    }
                }));
            }
            RequestErrorKind::Resolve(_) | RequestErrorKind::Connect { .. } => {
                TroubleCode::Unreachable
            }
            RequestErrorKind::Tls(_) => TroubleCode::Tls,
            RequestErrorKind::TimedOut { .. } => TroubleCode::Timeout,
            RequestErrorKind::TooLarge { .. }
            | RequestErrorKind::Redirected { .. }
            | RequestErrorKind::BadResponse(_) => TroubleCode::BadResponse,
        };
        Some(Self {
            code,
            text: error.summary(),
        })
    }

    pub(super) fn code(&self) -> TroubleCode {
        self.code
    }
}

impl TroubleCode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::Timeout => "Timeout",
            Self::Tls => "TLSError",
            Self::BadResponse => "BadResponse",
            Self::Blocked => "Blocked",
        }
    }
}

impl fmt::Display for Answer {
    /// Writes what is wrong, for the status: a code and a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("the relay serves this hostname"),
            Self::NoLease => f.write_str(
                "NoLease: the relay has no lease for this hostname; look at the logs of the tunnel's pods",
            ),
            Self::LeaseNotReady => f.write_str(
                "LeaseNotReady: the relay has a lease for this hostname, but no tunnel is connected; look at the logs of the \
                 tunnel's pods",
            ),
            Self::Unusable(trouble) => trouble.fmt(f),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.text)
    }
}

#[cfg(test)]
mod tests;
