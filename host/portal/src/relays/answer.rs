//! What one look at a hostname found.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::RelayConnection;
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
    code: &'static str,
    text: String,
}

const UNREACHABLE: &str = "Unreachable";
const TIMEOUT: &str = "Timeout";
const TLS: &str = "TLSError";
const BAD_RESPONSE: &str = "BadResponse";
/// The relay's address is not public, and no exception allows it, or it is denied.
const BLOCKED: &str = "Blocked";

impl Trouble {
    fn new(code: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// Describes an answer that cannot be used.
    pub(super) fn bad_response(text: impl Into<String>) -> Self {
        Self::new(BAD_RESPONSE, text)
    }

    /// Describes a relay that answered nothing in the time of a look.
    pub(super) fn late(after: Duration) -> Self {
        let text = format!("it took longer than {} s to answer", after.as_secs());
        Self::new(TIMEOUT, text)
    }

    /// Describes a host that no name server can know.
    pub(super) fn no_host() -> Self {
        Self::new(UNREACHABLE, "its host is not a valid DNS name")
    }

    /// Describes a relay whose name is one of the cluster.
    pub(super) fn in_cluster() -> Self {
        let text = "it is a name of the cluster, which is not looked up; an administrator can allow relays in the cluster with \
                    --portal-relay-allow-cidr";
        Self::new(BLOCKED, text)
    }

    /// Describes a failed request; none if it was not sent because too many others are running, which says nothing about the relay.
    pub(super) fn of(error: &RequestErrorKind) -> Option<Self> {
        let code = match error {
            RequestErrorKind::Busy { .. } => return None,
            RequestErrorKind::Blocked(blocked) => {
                let text = match blocked.denied {
                    Some(_) => "an administrator denied its address with --portal-relay-deny-cidr",
                    None => {
                        "its address is not public; an administrator can allow it with \
                         --portal-relay-allow-cidr"
                    }
                };
                return Some(Self::new(BLOCKED, text));
            }
            RequestErrorKind::Resolve(_) | RequestErrorKind::Connect { .. } => UNREACHABLE,
            RequestErrorKind::Tls(_) => TLS,
            RequestErrorKind::TimedOut { .. } => TIMEOUT,
            RequestErrorKind::TooLarge { .. }
            | RequestErrorKind::Redirected { .. }
            | RequestErrorKind::BadResponse(_) => BAD_RESPONSE,
        };
        Some(Self::new(code, error.summary()))
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
        write!(f, "{}: {}", self.code, self.text)
    }
}

// What is known of one hostname at one relay.

/// How many bad results in a row end a connection, and how many looks without a usable answer make a link `Disconnected`.
const BAD_IN_A_ROW: u8 = 3;

/// The error while the tunnel has no ready pod.
const NO_READY_POD: &str = "NoReadyPod: no pod of the tunnel is ready";

/// What is known of one hostname at one relay: the status of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) status: RelayConnection,
    /// Since when it is connected, in whole seconds; only if it is.
    pub(crate) connected_at: Option<Timestamp>,
    /// What the last look found wrong: a code and a sentence, such as `NoLease: ...`.
    pub(crate) last_error: Option<String>,
    /// Bad results in a row. A status does not have it, so after a restart that of a connected link counts from 0.
    bad: u8,
}

impl Link {
    /// Returns the link that a status describes.
    pub(crate) fn stored(
        status: RelayConnection,
        connected_at: Option<Timestamp>,
        last_error: Option<String>,
    ) -> Self {
        // One that was lost before a restart is not `Unknown` again while the relay is still gone.
        let bad = match status {
            RelayConnection::Disconnected => BAD_IN_A_ROW,
            RelayConnection::Connected | RelayConnection::Unknown => 0,
        };
        Self {
            status,
            connected_at,
            last_error,
            bad,
        }
    }

    /// Returns the link after a look at the relay, if the tunnel has a ready pod.
    ///
    /// A connected link survives two bad results in a row. If the relay's address is blocked, nobody asked it, so its links never
    /// become `Disconnected`.
    pub(crate) fn after(self, answer: &Answer, now: Timestamp) -> Self {
        if *answer == Answer::Ready {
            return self.connected(now);
        }
        let bad = self.bad.saturating_add(1);
        let is_connected = self.is_connected();
        let status = match answer {
            _ if is_connected && bad < BAD_IN_A_ROW => RelayConnection::Connected,
            Answer::Unusable(trouble) if trouble.code == BLOCKED => RelayConnection::Unknown,
            Answer::Unusable(_) if bad < BAD_IN_A_ROW => RelayConnection::Unknown,
            _ => RelayConnection::Disconnected,
        };
        let stays = status == RelayConnection::Connected;
        Self {
            status,
            connected_at: self.connected_at.filter(|_| stays),
            last_error: Some(answer.to_string()),
            bad,
        }
    }

    /// Returns the link as connected, since now if it was not before.
    pub(super) fn connected(self, now: Timestamp) -> Self {
        let was = self.is_connected();
        let since = self.connected_at.filter(|_| was);
        Self {
            status: RelayConnection::Connected,
            connected_at: since.or_else(|| Timestamp::from_second(now.as_second()).ok()),
            last_error: None,
            bad: 0,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.status == RelayConnection::Connected
    }

    /// Returns the link of a tunnel without a ready pod.
    pub(super) fn without_pod() -> Self {
        Self {
            status: RelayConnection::Disconnected,
            connected_at: None,
            last_error: Some(NO_READY_POD.to_owned()),
            bad: 0,
        }
    }

    /// Returns the link of a tunnel that has a ready pod now. That it had none before says nothing any more.
    pub(super) fn with_pod(self) -> Self {
        if self.last_error.as_deref() == Some(NO_READY_POD) {
            return Self::default();
        }
        self
    }

    /// Whether both look the same in a status, but perhaps for the error.
    pub(super) fn is_state_of(&self, other: &Self) -> bool {
        self.status == other.status && self.connected_at == other.connected_at
    }
}

#[cfg(test)]
mod tests;
