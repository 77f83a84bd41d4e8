//! Observes which relays serve which hostnames (`--portal-relay-observation`).
//!
//! Each PortalExpose says what it wants to know ([`Relays::set`]), reads the latest result ([`Relays::link`]), and is woken when a
//! result changes ([`Relays::changes`]). Nothing here knows Kubernetes.
//!
//! - `board` remembers who wants to know what, and the results. It is a state machine without I/O.
//! - `watch` is a control loop with one id for each relay, however many PortalExposes use it. `schedule` says when a relay is due, and
//!   `accounts` sees to it that no namespace takes the looks of others.
//! - `poll` sends the requests, with the client of `outbound`. `reply` reads the answers.
//! - `link` is what is known of one hostname at one relay, and `answer` what one look at it found.
//!
//! Trouble with a relay is a result, not an error, and no text of a relay ever gets into a result.

mod accounts;
mod answer;
mod board;
mod changes;
mod link;
mod metrics;
mod poll;
mod reply;
mod schedule;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use podloom_control_loop::{Hints, Recorder};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::link::Link;
pub(crate) use self::metrics::RelayMetrics;

use self::board::Board;
use self::changes::Changes;
use crate::authority::Authority;
use podloom_engine::clock::Clock;
use podloom_engine::outbound::{Cidr, Resolve, SystemResolver, Tls};

/// How the state of relays is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observation {
    /// By requests to the relays.
    #[default]
    Poll,
    /// Not at all: a tunnel with a ready pod counts as connected to all its relays. For clusters that may not send requests out.
    Assume,
}

/// How relays are observed.
#[derive(Clone)]
pub struct RelaySettings {
    /// By requests, or not at all.
    pub observation: Observation,
    /// The pause between two looks at a relay, plus or minus a tenth; 30 seconds by default.
    pub interval: Duration,
    /// Relays at addresses that are not public are only asked if their addresses are in one of these ranges.
    ///
    /// Without any, names of the cluster are not looked up.
    pub allow: Vec<Cidr>,
    /// Relays at addresses in these ranges are never asked, whatever `allow` says.
    pub deny: Vec<Cidr>,
    /// Which certificates of relays are trusted.
    pub tls: Tls,
    /// Receives the measurements of the loop `portal-relays`.
    pub recorder: Arc<dyn Recorder>,
}

/// A PortalExpose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UserId {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What a PortalExpose wants to know: whether a relay serves a hostname to its pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    /// The relay.
    pub(crate) authority: Authority,
    /// The hostname, in lower case.
    pub(crate) hostname: String,
    /// Whether the tunnel has a ready pod. Without one, the relay is not asked about this hostname.
    pub(crate) has_ready_pod: bool,
    /// What the stored status says of the same public URL. It counts until the relay was asked.
    pub(crate) last_known: Option<Link>,
}

/// What all relays were found to serve; cheap to clone.
#[derive(Clone)]
pub(crate) struct Relays {
    board: Arc<Board>,
    changes: Changes,
    hints: Hints<Authority>,
    clock: Clock,
}

impl Relays {
    /// Returns the observer and its work, which runs until `stop` is cancelled. It sends no request before the first
    /// [`set`](Self::set), and none at all with [`Observation::Assume`].
    pub(crate) fn start(
        settings: RelaySettings,
        clock: Clock,
        metrics: RelayMetrics,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let resolver = Arc::new(SystemResolver::with_proxies());
        Self::start_with(settings, clock, metrics, resolver, stop)
    }

    /// Replaces what a PortalExpose wants to know. The results of what it wants to know still are kept. Cheap, and wakes nothing, if
    /// nothing is different.
    pub(crate) fn set(&self, user: &UserId, leases: Vec<Lease>) {
        let changed = self
            .board
            .set(user, leases, self.clock.now(), Instant::now());
        for authority in changed.into_iter().chain(self.board.called()) {
            self.hints.push(authority);
        }
    }

    /// Forgets a PortalExpose. A relay that no other wants to know about is asked no more.
    pub(crate) fn forget(&self, user: &UserId) {
        self.set(user, Vec::new());
    }

    /// Returns what is known of a hostname at a relay: `Unknown` without an error until the relay was asked. None if the PortalExpose
    /// does not want to know about it.
    ///
    /// It names the PortalExpose, since two of them may want the same hostname while only one has a ready pod.
    pub(crate) fn link(
        &self,
        user: &UserId,
        authority: &Authority,
        hostname: &str,
    ) -> Option<Link> {
        self.board.link(user, authority, hostname)
    }

    /// Returns the PortalExposes for which a result changed since they were last returned. The stream has no end. Take it once: two
    /// streams would share the changes.
    pub(crate) fn changes(&self) -> impl Stream<Item = UserId> + Send + use<> {
        self.changes.stream()
    }

    /// Does what [`start`](Self::start) does, with other name servers.
    fn start_with(
        settings: RelaySettings,
        clock: Clock,
        metrics: RelayMetrics,
        resolver: Arc<dyn Resolve>,
        stop: CancellationToken,
    ) -> (Self, BoxFuture<'static, ()>) {
        let board = Arc::new(Board::new(settings.observation, settings.interval));
        let changes = Changes::default();
        let hints = Hints::default();
        let work = match settings.observation {
            Observation::Assume => stop.cancelled_owned().boxed(),
            Observation::Poll => {
                let asker = poll::Asker::new(&settings, resolver, &metrics);
                let watcher = watch::Watcher {
                    board: Arc::clone(&board),
                    changes: changes.clone(),
                    clock: clock.clone(),
                    metrics,
                    asker,
                    hints: hints.clone(),
                };
                watcher.start(settings.recorder, stop)
            }
        };
        let relays = Self {
            board,
            changes,
            hints,
            clock,
        };
        (relays, work)
    }
}

impl fmt::Debug for RelaySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelaySettings")
            .field("observation", &self.observation)
            .field("interval", &self.interval)
            .field("allow", &self.allow)
            .field("deny", &self.deny)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
