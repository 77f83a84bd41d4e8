//! Observes which relays serve which hostnames (`--portal-relay-observation`).
//!
//! Each PortalExpose says what it wants to know ([`Relays::set`]), reads the latest result ([`Relays::link`]), and is woken when a
//! result changes ([`Relays::changes`]). Nothing here knows Kubernetes.
//!
//! - `board` remembers who wants to know what, and the results, says when a relay is due, and sees to it that no namespace takes the
//!   looks of others. It is a state machine without I/O.
//! - `watch` is a control loop with one id for each relay, however many PortalExposes use it.
//! - `poll` sends the requests, with the client of `outbound`, and reads the answers.
//! - `answer` is what one look at a hostname found, and what is known of it at one relay.
//!
//! Trouble with a relay is a result, not an error, and no text of a relay ever gets into a result.

mod answer;
mod board;
mod poll;
mod watch;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use podloom_control_loop::{Hints, Recorder};
use podloom_engine::clock::Clock;
use podloom_engine::outbound::{Cidr, OutboundMetrics, Resolve, SystemResolver, Tls};
use podloom_engine::wakes::{Noted, Wakes};
use podloom_metrics::{Histograms, metrics};
use podloom_turns::lock;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::answer::Link;
use self::board::Board;
use crate::check::Authority;

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
    changed: Wakes,
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
    pub(crate) fn changes(&self) -> impl Stream<Item = Noted> + Send + use<> {
        self.changed.taken()
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
        let changed = Wakes::default();
        let hints = Hints::default();
        let work = match settings.observation {
            Observation::Assume => stop.cancelled_owned().boxed(),
            Observation::Poll => {
                let asker = poll::Asker::new(&settings, resolver, &metrics);
                let watcher = watch::Watcher {
                    board: Arc::clone(&board),
                    changed: changed.clone(),
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
            changed,
            hints,
            clock,
        };
        (relays, work)
    }
}

// What is measured of relays.

/// From 10 milliseconds to about 40 seconds, doubling.
const BUCKETS: Histograms = Histograms(0.01, 2.0, 13);

/// How many relays have series of their own. Any user can name relays, so the others share theirs.
const NAMED: usize = 100;
/// The label of the others.
const OTHER: &str = "other";

metrics! {
    /// Metrics of relays; cheap to clone, registered once. The metrics of the requests are those of all clients.
    pub(crate) struct RelayMetrics(pub(super) outbound: OutboundMetrics) {
        up: Family<Relay, Gauge> = "portal_relay_up", "Whether the last look at a relay got a usable answer";
        duration: Family<Relay, Histogram, Histograms> = "portal_relay_poll_duration" Seconds, "Duration of looks at a relay, all requests of a look together", Family::new_with_constructor(BUCKETS);
        shown: Arc<Mutex<Shown>>;
    }
}

/// The relays that are shown.
#[derive(Default)]
struct Shown {
    /// Those with series of their own.
    named: HashSet<Authority>,
    others: HashSet<Authority>,
}

/// The labels of a relay's series.
type Relay = [(&'static str, String); 1];

impl RelayMetrics {
    /// Records a look at a relay. The series of the others show the last look at any of them.
    fn polled(&self, authority: &Authority, is_up: bool, took: Duration) {
        let mut shown = self.shown();
        let relay = shown.show(authority);
        self.duration
            .get_or_create(&relay)
            .observe(took.as_secs_f64());
        self.up.get_or_create(&relay).set(is_up.into());
        if shown.others.is_empty() {
            self.remove(&label(&OTHER));
        }
    }

    /// Removes the series of a relay that nobody uses any more.
    fn forget(&self, authority: &Authority) {
        let mut shown = self.shown();
        if shown.named.remove(authority) {
            self.remove(&label(authority));
        } else if shown.others.remove(authority) && shown.others.is_empty() {
            self.remove(&label(&OTHER));
        }
    }

    /// Removes all series, since relays are not observed any more.
    fn clear(&self) {
        *self.shown() = Shown::default();
        self.up.clear();
        self.duration.clear();
    }

    fn remove(&self, relay: &Relay) {
        self.up.remove(relay);
        self.duration.remove(relay);
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        lock(&self.shown)
    }
}

impl Shown {
    /// Returns the label of a relay. One of the others gets its own as soon as there is room.
    fn show(&mut self, authority: &Authority) -> Relay {
        if !self.named.contains(authority) {
            if self.named.len() >= NAMED {
                self.others.insert(authority.clone());
                return label(&OTHER);
            }
            self.others.remove(authority);
            self.named.insert(authority.clone());
        }
        label(authority)
    }
}

fn label(relay: &impl ToString) -> Relay {
    [("relay", relay.to_string())]
}

#[cfg(test)]
mod tests;
