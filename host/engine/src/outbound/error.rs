//! Why a request failed.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;

use super::policy::BlockedAddress;
use super::tls::TlsProblem;
use super::url::Origin;

/// A failed request. It contains no headers, bodies, paths or queries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {kind}")]
pub struct RequestError {
    /// Where the request was to go.
    pub origin: Origin,
    /// What went wrong.
    pub kind: RequestErrorKind,
}

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestErrorKind {
    /// Too many other requests are running. This says nothing about the target, so it must never count against it.
    #[error("{max} requests {limit} are running, and none ended within {} ms", waited.as_millis())]
    Busy {
        /// Which limit was reached.
        limit: ConcurrencyLimit,
        /// How many requests it allows at once.
        max: u16,
        /// How long the request waited.
        waited: Duration,
    },
    /// All addresses of the host are blocked; this is the first.
    #[error(transparent)]
    Blocked(#[from] BlockedAddress),
    /// The name has no address, or the lookup failed. The text is the resolver's.
    #[error("its name could not be resolved: {0}")]
    Resolve(String),
    /// No address of the host accepted the connection; this is the last that was tried.
    #[error("could not connect to {address}: {reason}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsProblem),
    /// It took too long.
    #[error("{phase} within {} ms", after.as_millis())]
    TimedOut {
        /// The phase that did not end in time.
        phase: RequestPhase,
        /// The timeout that passed: [`RequestLimits::connect_timeout`](super::RequestLimits::connect_timeout) until the connection is
        /// set up, then that of the whole request.
        after: Duration,
    },
    /// The request or the response is larger than allowed.
    #[error("{part} larger than {limit} bytes{}", part.or())]
    TooLarge {
        /// What is too large.
        part: Part,
        /// The limit in bytes.
        limit: usize,
    },
    /// The response is a redirect. It is not followed.
    #[error("it answered {} with a redirect to {}; redirects are not followed, so use the final URL", status.as_u16(), to.as_deref().unwrap_or("no other host"))]
    Redirected {
        /// 300, 301, 302, 303, 305, 307 or 308.
        status: StatusCode,
        /// The host of the new URL, without path and query, if there is one.
        to: Option<String>,
    },
    /// The response is invalid or incomplete.
    #[error(transparent)]
    BadResponse(#[from] BadResponse),
}

/// A limit on concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyLimit {
    /// That of the client.
    Client,
    /// That of the host.
    Host,
    /// That of lookups of names, for one tenant or for all.
    Lookups,
}

/// A phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPhase {
    /// Looking up the name.
    Resolve,
    /// Connecting.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Sending the request and waiting for the head of the response.
    Head,
    /// Reading the body of the response.
    Body,
}

/// What is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The body of the request. It was not sent.
    RequestBody,
    /// The head of the response.
    ResponseHead,
    /// The body of the response.
    ResponseBody,
    /// All bytes that were received, informational responses (1xx) and the framing of chunks included.
    Received,
}

/// What is wrong with a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// It is not HTTP/1.
    #[error("the response is not HTTP")]
    NotHttp,
    /// The connection was closed before the response was complete.
    #[error("the connection was closed before the response was complete")]
    Truncated,
    /// The connection broke. The text is the kernel's or that of TLS.
    #[error("the connection broke before the response was complete: {0}")]
    Connection(String),
    /// The body is compressed or otherwise encoded, though the request accepts `identity` only.
    #[error("the response is compressed or encoded, which the request does not accept")]
    Encoded,
    /// The response switches to another protocol.
    #[error("the response switches to another protocol, which was not requested")]
    Switched,
}

impl RequestErrorKind {
    /// Returns whether certainly nothing of the request was sent, so that the server cannot have acted on it.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Blocked(_)
            | Self::Resolve(_)
            | Self::Connect { .. }
            | Self::Tls(_) => true,
            Self::TimedOut { phase, .. } => {
                matches!(
                    phase,
                    RequestPhase::Resolve | RequestPhase::Connect | RequestPhase::Tls
                )
            }
            Self::TooLarge { part, .. } => *part == Part::RequestBody,
            Self::Redirected { .. } | Self::BadResponse(_) => false,
        }
    }

    /// Returns whether the server sent an HTTP response, whatever it says: for callers that only ask whether it is alive.
    pub fn has_response(&self) -> bool {
        match self {
            Self::Redirected { .. }
            | Self::BadResponse(BadResponse::Encoded | BadResponse::Switched) => true,
            Self::TimedOut { phase, .. } => *phase == RequestPhase::Body,
            Self::TooLarge { part, .. } => *part == Part::ResponseBody,
            _ => false,
        }
    }

    /// Returns one word for the kind of error: `Busy`, `Blocked`, `Unreachable`, `TLSError`, `Timeout`, `RequestTooLarge` or
    /// `BadResponse`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "Busy",
            Self::Blocked(_) => "Blocked",
            Self::Resolve(_) | Self::Connect { .. } => "Unreachable",
            Self::Tls(_) => "TLSError",
            Self::TimedOut { .. } => "Timeout",
            Self::TooLarge { part, .. } if *part == Part::RequestBody => "RequestTooLarge",
            Self::TooLarge { .. } | Self::Redirected { .. } | Self::BadResponse(_) => "BadResponse",
        }
    }

    /// Returns what went wrong, for a status: nothing in it was chosen by the server or its name servers. At most 200 bytes.
    pub fn summary(&self) -> String {
        match self {
            Self::Blocked(blocked) if blocked.denied.is_some() => {
                "its address is denied".to_owned()
            }
            Self::Blocked(blocked) => format!("its address is blocked: {}", blocked.policy),
            Self::Resolve(_) => "its name could not be resolved".to_owned(),
            Self::Connect { .. } => "no connection could be made".to_owned(),
            Self::Tls(TlsProblem::WrongHost(_)) => {
                "its certificate is not for this host".to_owned()
            }
            Self::Tls(TlsProblem::Other(_)) => "the TLS handshake failed".to_owned(),
            Self::Redirected { status, .. } => format!(
                "it answered {}; redirects are not followed",
                status.as_u16()
            ),
            Self::BadResponse(BadResponse::Connection(_)) => {
                "the connection broke before the response was complete".to_owned()
            }
            Self::Busy { .. }
            | Self::Tls(_)
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::BadResponse(_) => self.to_string(),
        }
    }
}

impl fmt::Display for ConcurrencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "of this client",
            Self::Host => "to this host",
            Self::Lookups => "that look up names",
        })
    }
}

impl fmt::Display for RequestPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "its name was not resolved",
            Self::Connect => "no connection was made",
            Self::Tls => "TLS was not set up",
            Self::Head => "no response came",
            Self::Body => "the response was not complete",
        })
    }
}

impl Part {
    /// The other reason for this error, if there is one.
    fn or(self) -> &'static str {
        match self {
            Self::ResponseHead => ", or has more than 100 headers",
            Self::RequestBody | Self::ResponseBody | Self::Received => "",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RequestBody => "the body of the request is",
            Self::ResponseHead => "the head of the response is",
            Self::ResponseBody => "the body of the response is",
            Self::Received => "what was received before the response was complete is",
        })
    }
}

#[cfg(test)]
mod tests;
