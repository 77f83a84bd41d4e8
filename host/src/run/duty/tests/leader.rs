//! Elections against an API server that serves only Leases. Time is paused: it advances when all tasks wait.

use std::sync::Arc;
use std::time::Duration;

use podloom_controllers::duties::Duty;
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::super::lead;
use crate::run::duty::Candidate;
use crate::run::state::{DutyState, Role};
use crate::run::tests::fixtures::Leases;

const DURATION: Duration = Duration::from_secs(15);

/// A replica whose work ends when it is stopped.
struct Replica {
    state: Arc<DutyState>,
    task: JoinHandle<Option<&'static str>>,
}

impl Replica {
    fn start(server: &Leases, identity: &str) -> Self {
        let stop = CancellationToken::new();
        let row = Duty::Browser.row();
        let state = Arc::new(DutyState::new(row, Gauge::default(), stop));
        let candidate = Candidate::new(
            server.client(),
            "podloom".to_owned(),
            "podloom".to_owned(),
            identity.to_owned(),
            DURATION,
        );
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let work = async || {
                shared.stop.cancelled().await;
                "done"
            };
            lead(&candidate, &shared, work).await
        });
        Self { state, task }
    }

    fn is_leader(&self) -> bool {
        self.state.leader.get() == 1
    }

    /// Waits for the role, and returns how long that took.
    async fn becomes(&self, is_leader: bool) -> Duration {
        let begun = Instant::now();
        while self.is_leader() != is_leader {
            sleep(Duration::from_millis(100)).await;
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{:?}",
                self.state.role
            );
        }
        begun.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_hands_over_when_it_stops() {
    let server = Leases::default();
    let first = Replica::start(&server, "first");
    first.becomes(true).await;
    let second = Replica::start(&server, "second");
    sleep(DURATION * 4).await;
    assert!(first.is_leader() && !second.is_leader());
    assert_eq!(
        *second.state.role.borrow(),
        Role::Follower("first".to_owned())
    );

    first.state.stop.cancel();
    assert_eq!(first.task.await.expect("no panic"), Some("done"));
    assert!(second.becomes(true).await <= Duration::from_secs(3));
    assert_eq!(server.holder().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_dead_leader_is_taken_when_it_has_expired() {
    let server = Leases::default();
    let first = Replica::start(&server, "first");
    first.becomes(true).await;
    first.task.abort();
    let second = Replica::start(&server, "second");
    let waited = second.becomes(true).await;
    assert!(
        waited >= DURATION && waited <= DURATION + Duration::from_secs(3),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restarted_container_of_the_same_pod_leads_at_once() {
    let server = Leases::default();
    let first = Replica::start(&server, "podloom-0");
    first.becomes(true).await;
    first.task.abort();
    let restarted = Replica::start(&server, "podloom-0");
    assert!(restarted.becomes(true).await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_drops_its_work_before_others_may_start() {
    let server = Leases::default();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    server.with(|stored| stored.is_down = true);
    let dropped = replica.becomes(false).await;
    assert!(dropped < DURATION, "{dropped:?}");
    server.with(|stored| stored.is_down = false);
    replica.becomes(true).await;
    assert!(!replica.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_changes_nothing() {
    let server = Leases::default();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    for _ in 0..3 {
        server.with(|stored| stored.is_down = true);
        sleep(Duration::from_secs(4)).await;
        server.with(|stored| stored.is_down = false);
        sleep(Duration::from_secs(6)).await;
    }
    let transitions = server.with(|stored| stored.lease.clone()?.spec?.lease_transitions);
    assert_eq!(transitions, Some(0));
    assert!(replica.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_drops_its_work_and_stands_by() {
    let server = Leases::default();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    server.with(|stored| {
        let mut lease = stored.lease.clone().expect("a Lease");
        lease.spec.get_or_insert_default().holder_identity = Some("usurper".to_owned());
        stored.write(Some(lease));
    });
    assert!(replica.becomes(false).await <= DURATION / 3 + Duration::from_secs(1));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        *replica.state.role.borrow(),
        Role::Follower("usurper".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn an_annotation_on_the_lease_loses_nothing() {
    let server = Leases::default();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    server.with(|stored| {
        let mut lease = stored.lease.clone().expect("a Lease");
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert("note".to_owned(), "looked at".to_owned());
        stored.write(Some(lease));
    });
    sleep(DURATION).await;
    assert!(replica.is_leader());
    assert_eq!(server.holder().as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn a_follower_stops_at_once() {
    let server = Leases::default();
    let first = Replica::start(&server, "first");
    first.becomes(true).await;
    let second = Replica::start(&server, "second");
    sleep(DURATION).await;
    second.state.stop.cancel();
    assert_eq!(second.task.await.expect("no panic"), None);
    assert_eq!(server.holder().as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn the_lease_counts_from_before_the_request() {
    let server = Leases::default();
    // The answer takes almost as long as the limit of a request, and it is the last one for now.
    server.with(|stored| stored.delay = Duration::from_secs(2));
    let begun = Instant::now();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "it read and wrote"
    );
    server.with(|stored| stored.is_down = true);
    replica.becomes(false).await;
    // It wrote after it had read.
    let led = begun.elapsed() - Duration::from_secs(2);
    assert!(
        led <= DURATION * 2 / 3 + Duration::from_millis(200),
        "{led:?}"
    );
    assert!(replica.state.renewed.borrow().is_none());
}

#[tokio::test(start_paused = true)]
async fn slow_answers_lose_no_lease() {
    let server = Leases::default();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    server.with(|stored| stored.delay = Duration::from_secs(4));
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert!(replica.is_leader());
        let renewed = replica.state.renewed.borrow().expect("it leads");
        assert!(renewed.at.elapsed() <= DURATION * 2 / 3);
    }
}

/// The leader's connection is dead, but a new one works.
#[tokio::test(start_paused = true)]
async fn a_dead_connection_loses_no_lease() {
    let server = Leases::default();
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    server.with(|stored| stored.delay = Duration::from_millis(20));
    for _ in 0..10 {
        server.with(|stored| stored.lost = 1);
        sleep(DURATION).await;
        assert_eq!(server.with(|stored| stored.lost), 0);
        assert!(replica.is_leader());
    }
    let transitions = server.with(|stored| stored.lease.clone()?.spec?.lease_transitions);
    assert_eq!(transitions, Some(0));
}

/// A read and a write together take longer than the limit of one request.
#[tokio::test(start_paused = true)]
async fn a_slow_api_server_has_a_leader_too() {
    let server = Leases::default();
    server.with(|stored| stored.delay = Duration::from_secs(4));
    let replica = Replica::start(&server, "first");
    replica.becomes(true).await;
    sleep(DURATION * 10).await;
    assert!(replica.is_leader());
    let transitions = server.with(|stored| stored.lease.clone()?.spec?.lease_transitions);
    assert!(transitions.unwrap_or_default() == 0);
    replica.task.abort();
    let second = Replica::start(&server, "second");
    second.becomes(true).await;
}
