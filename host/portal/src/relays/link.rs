//! What is known of one hostname at one relay.

use jiff::Timestamp;
use podloom_api::RelayConnection;

use super::answer::{Answer, TroubleCode};

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
            Answer::Unusable(trouble) if trouble.code() == TroubleCode::Blocked => {
                RelayConnection::Unknown
            }
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

    /// Whether both look the same in a status.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        self.is_state_of(other) && self.last_error == other.last_error
    }

    /// Whether both look the same in a status but for the error.
    pub(super) fn differs_in_error(&self, other: &Self) -> bool {
        self.is_state_of(other) && self.last_error != other.last_error
    }

    fn is_state_of(&self, other: &Self) -> bool {
        self.status == other.status && self.connected_at == other.connected_at
    }
}

#[cfg(test)]
mod tests;
