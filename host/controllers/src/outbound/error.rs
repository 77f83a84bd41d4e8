//! Why a request has no answer.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;

use super::policy::Refusal;
use super::tls::TlsProblem;
use super::url::Origin;

/// A request without an answer. Neither headers nor bodies, paths or queries are in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {failure}")]
pub struct RequestError {
    /// Whom the request was for.
    pub origin: Origin,
    /// What went wrong.
    pub failure: Failure,
}

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Too many other requests are under way. It says something of us and nothing of the target, so it must never count against
    /// it.
    #[error("{limit} requests {scope} are under way, and none ended within {} ms", waited.as_millis())]
    Busy {
        /// Where there was no place.
        scope: Scope,
        /// How many requests go on at once there.
        limit: u16,
        /// How long the request waited.
        waited: Duration,
    },
    /// No address of the host may be connected to. Of several the first is named.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The name has no address, or it could not be looked up. The text is the resolver's.
    #[error("its name could not be resolved: {0}")]
    Resolve(String),
    /// No address of the host could be connected to. Of several the last that was tried is named.
    #[error("could not connect to {address}: {reason}")]
    Connect {
        /// Whom the attempt was for.
        address: SocketAddr,
        /// What the kernel said.
        reason: String,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsProblem),
    /// It took too long.
    #[error("{phase} within {} ms", after.as_millis())]
    TimedOut {
        /// What did not come to an end.
        phase: Phase,
        /// The limit that passed: [`Limits::connect`](super::Limits::connect) until the connection is made, then the whole
        /// request's.
        after: Duration,
    },
    /// The request or the answer is larger than is allowed.
    #[error("{part} larger than {limit} bytes{}", part.or())]
    TooLarge {
        /// What is too large.
        part: Part,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer points elsewhere. Nobody goes there.
    #[error("it answered {} and points to {}; redirects are not followed, so use the final URL", status.as_u16(), to.as_deref().unwrap_or("no other host"))]
    Redirected {
        /// 300, 301, 302, 303, 305, 307 or 308.
        status: StatusCode,
        /// The host that it points to, without path and query, if it names a host.
        to: Option<String>,
    },
    /// What came is no whole answer.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Where places were missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Among all requests of the client.
    All,
    /// Among those to the host.
    Host,
}

/// What did not come to an end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking up the name.
    Resolve,
    /// Connecting.
    Connect,
    /// Setting up TLS.
    Tls,
    /// Sending the request and waiting for the head of the answer.
    Answer,
    /// Reading the body of the answer.
    Body,
}

/// What is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The body of the request. It was not sent.
    Request,
    /// The head of the answer.
    Head,
    /// The body of the answer.
    Answer,
    /// All that travelled back, such as answers before the answer and the framing of chunks.
    Travel,
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is not HTTP/1.
    #[error("what came back is not HTTP")]
    NotHttp,
    /// The connection was closed before the answer had ended.
    #[error("the connection was closed before the answer had ended")]
    EndedEarly,
    /// The connection broke. The text is the kernel's or TLS's.
    #[error("the connection broke before the answer had ended: {0}")]
    Connection(String),
    /// The body is compressed or otherwise encoded, which the request ruled out.
    #[error("the answer is encoded, which was not asked for")]
    Encoded,
    /// The answer switches to another protocol.
    #[error("the answer switches to another protocol, which was not asked for")]
    Switched,
}

impl Failure {
    /// Returns whether it is certain that nothing of the request was sent, so that the other end cannot have acted on it.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Refused(_)
            | Self::Resolve(_)
            | Self::Connect { .. }
            | Self::Tls(_) => true,
            Self::TimedOut { phase, .. } => {
                matches!(phase, Phase::Resolve | Phase::Connect | Phase::Tls)
            }
            Self::TooLarge { part, .. } => *part == Part::Request,
            Self::Redirected { .. } | Self::Broken(_) => false,
        }
    }

    /// Returns whether the other end answered in HTTP, whatever it said: for callers to whom any answer counts.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Redirected { .. } | Self::Broken(Broken::Encoded | Broken::Switched) => true,
            Self::TimedOut { phase, .. } => *phase == Phase::Body,
            Self::TooLarge { part, .. } => *part == Part::Answer,
            _ => false,
        }
    }

    /// Returns one word for what went wrong: `Busy`, `Blocked`, `Unreachable`, `TLSError`, `Timeout`, `RequestTooLarge` or
    /// `BadResponse`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "Busy",
            Self::Refused(_) => "Blocked",
            Self::Resolve(_) | Self::Connect { .. } => "Unreachable",
            Self::Tls(_) => "TLSError",
            Self::TimedOut { .. } => "Timeout",
            Self::TooLarge { part, .. } if *part == Part::Request => "RequestTooLarge",
            Self::TooLarge { .. } | Self::Redirected { .. } | Self::Broken(_) => "BadResponse",
        }
    }

    /// Returns what went wrong without anything that the other end or its name servers chose: for statuses. At most 200 bytes.
    pub fn summary(&self) -> String {
        match self {
            Self::Refused(refusal) if refusal.denied.is_some() => {
                "its address is denied".to_owned()
            }
            Self::Refused(refusal) => format!("its address is refused: {}", refusal.policy),
            Self::Resolve(_) => "its name could not be resolved".to_owned(),
            Self::Connect { .. } => "no connection could be made".to_owned(),
            Self::Tls(TlsProblem::WrongHost(_)) => {
                "its certificate is not for this host".to_owned()
            }
            Self::Tls(TlsProblem::Other(_)) => "TLS could not be set up".to_owned(),
            Self::Redirected { status, .. } => format!(
                "it answered {}; redirects are not followed",
                status.as_u16()
            ),
            Self::Broken(Broken::Connection(_)) => {
                "the connection broke before the answer had ended".to_owned()
            }
            Self::Busy { .. }
            | Self::Tls(_)
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::Broken(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "of this client",
            Self::Host => "to this host",
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "its name was not resolved",
            Self::Connect => "no connection was made",
            Self::Tls => "TLS was not set up",
            Self::Answer => "no answer came",
            Self::Body => "the answer did not end",
        })
    }
}

impl Part {
    /// What else the limit may stand for.
    fn or(self) -> &'static str {
        match self {
            Self::Head => ", or has more than 100 headers",
            Self::Request | Self::Answer | Self::Travel => "",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "the body of the request is",
            Self::Head => "the head of the answer is",
            Self::Answer => "the body of the answer is",
            Self::Travel => "what came back without an end of the answer is",
        })
    }
}

#[cfg(test)]
mod tests;
