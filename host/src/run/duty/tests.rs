//! Two duties side by side. Time is paused: it advances when all tasks wait.

mod leader;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, future};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Duty, GivenNames, Row};
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Candidate, DutyTask, Work};
use crate::client::Requests;
use crate::run::preflight::Preflight;
use crate::run::state::{Access, DutyState, Role};
use crate::run::tests::fixtures::{CLUSTERS, Cluster, Leases};

const LEASE: Duration = Duration::from_secs(15);

/// A running duty, and whether its controllers work.
struct Running {
    state: Arc<DutyState>,
    leases: Leases,
    works: Arc<AtomicBool>,
    task: JoinHandle<anyhow::Result<()>>,
}

/// Clears the flag when it is dropped.
struct Working(Arc<AtomicBool>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Running {
    fn start(row: &'static Row, cluster: &Arc<Mutex<Cluster>>, stop: &CancellationToken) -> Self {
        let works = Arc::new(AtomicBool::new(false));
        let started = Self::start_with(row, cluster, stop, work(&works));
        Self { works, ..started }
    }

    fn start_with(
        row: &'static Row,
        cluster: &Arc<Mutex<Cluster>>,
        stop: &CancellationToken,
        work: Work,
    ) -> Self {
        let state = Arc::new(DutyState::new(row, Gauge::default(), stop.clone()));
        let leases = Leases::default();
        let name = row.lease_name(&GivenNames::default());
        let client = Cluster::client(cluster);
        let duty_task = DutyTask {
            state: Arc::clone(&state),
            preflight: Preflight {
                own_namespace: "home".to_owned(),
                secret_namespace: "home".to_owned(),
                webhook_name: "podloom-webhook".to_owned(),
                row,
                client,
                api: SelenosisApi::Seed,
                namespaces: Vec::new(),
                lease: None,
                requests: Requests::default(),
            },
            candidate: Some(Candidate::new(
                leases.client(),
                "podloom".to_owned(),
                name,
                "we".to_owned(),
                LEASE,
            )),
            ready: future::ready(()).boxed(),
            work,
        };
        let task = tokio::spawn(duty_task.run());
        Self {
            state,
            leases,
            works: Arc::default(),
            task,
        }
    }

    async fn becomes(&self, works: bool) {
        let begun = Instant::now();
        while self.works.load(Ordering::Relaxed) != works {
            sleep(Duration::from_millis(100)).await;
            let waited = begun.elapsed();
            assert!(waited < LEASE * 4, "it stays {:?}", self.state.role);
        }
    }
}

fn work(works: &Arc<AtomicBool>) -> Work {
    let works = Arc::clone(works);
    Box::new(move |state| {
        let (works, stop) = (Arc::clone(&works), state.stop.clone());
        async move {
            works.store(true, Ordering::Relaxed);
            let _working = Working(works);
            stop.cancelled().await;
            Ok(())
        }
        .boxed()
    })
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_lacks_its_kind_or_a_right_waits_alone() {
    for lacking in [
        Cluster {
            has_no_browsers: true,
            ..Cluster::default()
        },
        Cluster {
            denied: Some("pods"),
            ..Cluster::default()
        },
    ] {
        let (cluster, stop) = (Arc::new(Mutex::new(lacking)), CancellationToken::new());
        let browser = Running::start(Duty::Browser.row(), &cluster, &stop);
        let clusters = Running::start(&CLUSTERS, &cluster, &stop);
        clusters.becomes(true).await;
        sleep(LEASE * 4).await;
        assert!(!browser.works.load(Ordering::Relaxed));
        assert!(matches!(*browser.state.access.borrow(), Access::Lacking(_)));
        // It does not try to get the Lease either: another replica may have what this one lacks.
        assert_eq!(browser.leases.holder(), None);
        assert_eq!(*clusters.state.access.borrow(), Access::Granted);
        *cluster.lock().expect("no panic") = Cluster::default();
        browser.becomes(true).await;
        stop.cancel();
        for running in [browser, clusters] {
            running.task.await.expect("no panic").expect("it ends well");
            assert_eq!(running.leases.holder(), None, "the Lease is released");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_loses_its_lease_stops_alone() {
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let stop = CancellationToken::new();
    let browser = Running::start(Duty::Browser.row(), &cluster, &stop);
    let clusters = Running::start(&CLUSTERS, &cluster, &stop);
    for running in [&browser, &clusters] {
        running.becomes(true).await;
        assert_eq!(*running.state.role.borrow(), Role::Leader);
    }
    browser.leases.with(|stored| {
        let mut lease = stored.lease.clone().expect("a Lease");
        lease.spec.get_or_insert_default().holder_identity = Some("usurper".to_owned());
        stored.write(Some(lease));
    });
    browser.becomes(false).await;
    assert_eq!(browser.state.leader.get(), 0);
    assert!(clusters.works.load(Ordering::Relaxed));
    assert_eq!(clusters.state.leader.get(), 1);
    // The usurper does not renew the Lease.
    browser.becomes(true).await;
    assert!(!clusters.task.is_finished() && !browser.task.is_finished());
}

/// What one replica lacks, another may have.
#[tokio::test(start_paused = true)]
async fn a_follower_that_loses_a_right_does_not_take_over() {
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let stop = CancellationToken::new();
    let browser = Running::start(Duty::Browser.row(), &cluster, &stop);
    browser.becomes(true).await;
    let another_leads = || {
        browser.leases.with(|stored| {
            let mut lease = stored.lease.clone().expect("a Lease");
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some("another".to_owned());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
            stored.write(Some(lease));
        });
    };
    another_leads();
    browser.becomes(false).await;
    cluster.lock().expect("no panic").denied = Some("pods");
    let begun = Instant::now();
    while !matches!(*browser.state.access.borrow(), Access::Lacking(_)) {
        another_leads();
        sleep(LEASE / 3).await;
        assert!(begun.elapsed() < Duration::from_secs(150));
    }
    // The other one does not renew the Lease any more.
    sleep(LEASE * 10).await;
    assert!(!browser.works.load(Ordering::Relaxed));
    assert_eq!(browser.leases.holder().as_deref(), Some("another"));
    *cluster.lock().expect("no panic") = Cluster::default();
    browser.becomes(true).await;
    stop.cancel();
    browser.task.await.expect("no panic").expect("it ends well");
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_ends_without_being_stopped_is_an_error() {
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let stop = CancellationToken::new();
    let ends: Work = Box::new(|_| future::ready(Ok(())).boxed());
    let browser = Running::start_with(Duty::Browser.row(), &cluster, &stop, ends);
    let ended = timeout(LEASE, browser.task).await.expect("it ends");
    let error = ended.expect("no panic").expect_err("nobody stopped it");
    let message = error.to_string();
    assert!(message.contains("without being stopped"), "{error:#}");
}
