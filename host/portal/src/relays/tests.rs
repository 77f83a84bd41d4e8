//! Relays of the test's own on loopback, with real TLS and HTTP.

mod metrics;
mod relay;
mod sharing;
mod trouble;

use std::io;
use std::net::IpAddr;
use std::panic::Location;
use std::pin::pin;

use futures::StreamExt;
use podloom_api::RelayConnection;
use podloom_api::RelayConnection::{Connected, Disconnected, Unknown};
use podloom_control_loop::NoRecorder;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::relay::{Certificates, Manner, Relay};
use super::*;
use podloom_engine::outbound::OutboundMetrics;

/// Longer than anything that works takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// All relays of the tests have this host; a test with several uses several ports.
const HOST: &str = "relay.example";
/// The hostname of most tunnels.
const APP: &str = "app.relay.example";

/// Every name that a test uses but those that do not resolve.
const NAMES: [&str; 6] = [
    HOST,
    APP,
    "app-2.relay.example",
    "other.example",
    "app.other.example",
    "*.many.example",
];

/// Resolves relays to loopback, and nothing else: a tunnel's hostname must never be looked up.
struct Loopback;

impl Resolve for Loopback {
    fn resolve(&self, name: &str, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = match name {
            "relay.example." | "other.example." => Ok(vec![[127, 0, 0, 1].into()]),
            many if many.ends_with(".many.example.") => Ok(vec![[127, 0, 0, 1].into()]),
            _ => Err(io::Error::other("no such name")),
        };
        futures::future::ready(found).boxed()
    }
}

/// Relays that are observed.
struct Scene {
    relays: Relays,
    certificates: Certificates,
    registry: Registry,
    stop: CancellationToken,
    work: JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Scene {
    fn start(interval: Duration) -> Self {
        Self::with(interval, |_| {})
    }

    fn with(interval: Duration, change: impl FnOnce(&mut RelaySettings)) -> Self {
        Self::at(Arc::new(Loopback), interval, change)
    }

    /// With other name servers.
    fn at(
        resolver: Arc<dyn Resolve>,
        interval: Duration,
        change: impl FnOnce(&mut RelaySettings),
    ) -> Self {
        let certificates = Certificates::new(&NAMES);
        let mut settings = RelaySettings {
            observation: Observation::Poll,
            interval,
            allow: vec!["127.0.0.1/32".parse().unwrap()],
            deny: Vec::new(),
            tls: certificates.tls(),
            recorder: Arc::new(NoRecorder),
        };
        change(&mut settings);
        let mut registry = Registry::default();
        let outbound = OutboundMetrics::register(&mut registry);
        let metrics = RelayMetrics::register(&mut registry, outbound);
        let stop = CancellationToken::new();
        let clock = Clock::new();
        let (relays, work) = Relays::start_with(settings, clock, metrics, resolver, stop.clone());
        Self {
            relays,
            certificates,
            registry,
            stop,
            work: tokio::spawn(work),
        }
    }

    /// Starts a relay.
    async fn relay(&self, manner: Manner) -> Relay {
        Relay::start(&self.certificates, manner).await
    }

    /// Waits until user `one` sees this status and the code in its error.
    #[track_caller]
    fn awaits(
        &self,
        relay: &Relay,
        status: RelayConnection,
        code: &'static str,
    ) -> impl Future<Output = Link> {
        let is_it = move |link: &Link| link.status == status && code_of(link) == code;
        self.look(authority(relay), is_it)
    }

    /// Waits until user `one` is not connected and sees the code in its error. How bad results add up is not tested here: a machine that
    /// is slow may add a timeout.
    #[track_caller]
    fn troubled(&self, relay: &Relay, code: &'static str) -> impl Future<Output = Link> {
        let is_it = move |link: &Link| link.status != Connected && code_of(link) == code;
        self.look(authority(relay), is_it)
    }

    /// Waits until the link of user `one` is as expected.
    #[track_caller]
    fn look(
        &self,
        authority: Authority,
        is_it: impl Fn(&Link) -> bool,
    ) -> impl Future<Output = Link> {
        let caller = Location::caller();
        async move {
            let link = || {
                let link = self.relays.link(&user("one"), &authority, APP);
                link.expect("a link")
            };
            let looks = async {
                while !is_it(&link()) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                link()
            };
            let found = timeout(PATIENCE, looks).await;
            found.unwrap_or_else(|_| panic!("{caller}: {:?}", link()))
        }
    }

    /// What a scrape shows of a metric: the values by relay, without the port.
    fn up(&self) -> Vec<String> {
        let mut encoded = String::new();
        text::encode(&mut encoded, &self.registry).unwrap();
        let lines = encoded
            .lines()
            .filter(|line| line.starts_with("portal_relay_up{"));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().to_owned())
            .collect()
    }
}

fn code_of(link: &Link) -> &str {
    let error = link.last_error.as_deref().unwrap_or_default();
    error.split(':').next().unwrap_or_default()
}

fn user(name: &str) -> UserId {
    UserId {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

fn authority(relay: &Relay) -> Authority {
    at(HOST, relay.address.port())
}

fn at(host: &str, port: u16) -> Authority {
    Authority::parse(&format!("https://{host}:{port}")).unwrap()
}

fn lease(relay: &Relay) -> Lease {
    Lease {
        authority: authority(relay),
        hostname: APP.to_owned(),
        has_ready_pod: true,
        last_known: None,
    }
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_lease_in_the_state_connects() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[(APP, 1), ("x.relay.example", 0)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let link = scene.awaits(&relay, Connected, "").await;
    assert!(link.connected_at.is_some());
    assert_eq!(Vec::from_iter(relay.lines()), ["GET /api/state"]);
    relay.lease(&[(APP, 0)]);
    scene.awaits(&relay, Disconnected, "LeaseNotReady").await;
    relay.lease(&[]);
    scene.awaits(&relay, Disconnected, "NoLease").await;
}

#[tokio::test]
async fn without_a_state_the_status_of_the_tunnel_decides() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::Status).await;
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.awaits(&relay, Disconnected, "NoLease").await;
    relay.lease(&[(APP, 0)]);
    scene.awaits(&relay, Disconnected, "LeaseNotReady").await;
    relay.lease(&[(APP, 2)]);
    scene.awaits(&relay, Connected, "").await;
    let expected = [
        "GET /api/state",
        "GET /tunnel/status?hostname=app.relay.example",
    ];
    assert_eq!(Vec::from_iter(relay.lines()), expected);
}

#[tokio::test]
async fn a_state_that_is_too_large_is_as_good_as_none() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::Crowded).await;
    relay.lease(&[(APP, 1)]);
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.awaits(&relay, Connected, "").await;
}

#[tokio::test]
async fn without_both_a_request_through_the_tunnel_decides() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::Domain).await;
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    // The relay drops connections to a hostname that it does not know.
    scene.troubled(&relay, "TLSError").await;
    relay.lease(&[(APP, 1)]);
    scene.awaits(&relay, Connected, "").await;
    let expected = [
        "GET /api/state",
        "GET /sdk/domain",
        "GET /tunnel/status?hostname=app.relay.example",
        "HEAD /",
    ];
    assert_eq!(Vec::from_iter(relay.lines()), expected);
    let port = relay.address.port();
    for seen in relay.seen() {
        let host = match seen.line.as_str() {
            "HEAD /" => APP,
            _ => HOST,
        };
        assert_eq!(seen.host, format!("{host}:{port}"), "{seen:?}");
    }
}

#[tokio::test]
async fn the_start_of_a_connection_is_stable() {
    let scene = Scene::start(SHORT);
    let relay = scene.relay(Manner::State).await;
    relay.lease(&[(APP, 1)]);
    let mut changes = pin!(scene.relays.changes());
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    let changed = timeout(PATIENCE, changes.next()).await.unwrap().unwrap();
    let UserId { namespace, name } = user("one");
    assert_eq!(changed.some, [(namespace, name)].into());
    let first = scene.awaits(&relay, Connected, "").await;
    // Seconds pass, so that a start that is written again would differ.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    timeout(PATIENCE, relay.await_requests(11)).await.unwrap();
    let last = scene.awaits(&relay, Connected, "").await;
    assert_eq!(last.connected_at, first.connected_at);
    let more = timeout(Duration::ZERO, changes.next()).await;
    assert!(more.is_err(), "equal results wake nobody");
}

#[tokio::test]
async fn after_a_restart_the_stored_links_count() {
    let scene = Scene::start(SHORT);
    let relay = scene
        .relay(Manner::Says(relay::response(500, "text/plain", "")))
        .await;
    relay.lease(&[(APP, 1)]);
    let since = jiff::Timestamp::from_second(1_700_000_000).ok();
    let stored = Lease {
        last_known: Some(Link::stored(Connected, since, None)),
        ..lease(&relay)
    };
    scene.relays.set(&user("one"), vec![stored]);
    scene.awaits(&relay, Connected, "BadResponse").await;
    relay.behave(Manner::State);
    let link = scene.awaits(&relay, Connected, "").await;
    assert_eq!(link.connected_at, since);
}

#[tokio::test]
async fn assume_sends_nothing() {
    let scene = Scene::with(SHORT, |settings| settings.observation = Observation::Assume);
    let relay = scene.relay(Manner::State).await;
    scene.relays.set(&user("one"), vec![lease(&relay)]);
    scene.awaits(&relay, Connected, "").await;
    let waiting = Lease {
        has_ready_pod: false,
        ..lease(&relay)
    };
    scene.relays.set(&user("one"), vec![waiting]);
    scene.awaits(&relay, Disconnected, "NoReadyPod").await;
    tokio::time::sleep(SHORT * 4).await;
    assert_eq!(relay.most_open(), 0);
    assert!(!scene.work.is_finished(), "it runs until it is stopped");
    scene.stop.cancel();
    let mut scene = scene;
    timeout(PATIENCE, &mut scene.work).await.unwrap().unwrap();
}
