//! Two duties beside each other. Time is paused: it goes on when all tasks wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, future};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Duty, Row};
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Post, Work};
use crate::run::fixtures::{CLUSTERS, Cluster, Leases};
use crate::run::lease::Candidate;
use crate::run::preflight::Preflight;
use crate::run::requests::Requests;
use crate::run::state::{Access, DutyState, Role};

const LEASE: Duration = Duration::from_secs(15);

/// A duty of a process, and whether it works.
struct Running {
    state: Arc<DutyState>,
    leases: Leases,
    works: Arc<AtomicBool>,
    task: JoinHandle<anyhow::Result<()>>,
}

/// Says that it works until it is dropped.
struct Working(Arc<AtomicBool>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Running {
    fn start(row: &'static Row, cluster: &Arc<Mutex<Cluster>>, stop: &CancellationToken) -> Self {
        let state = Arc::new(DutyState::new(row, Gauge::default(), stop.clone()));
        let (leases, works) = (Leases::default(), Arc::new(AtomicBool::new(false)));
        let name = row.lease_name("podloom").expect("it has a Lease");
        let client = Cluster::client(cluster);
        let post = Post {
            state: Arc::clone(&state),
            preflight: Preflight {
                row,
                client,
                api: SelenosisApi::Seed,
                namespaces: Vec::new(),
                lease: None,
                requests: Requests::default(),
            },
            candidate: Some(Candidate::new(
                leases.client(),
                "podloom",
                &name,
                "we".to_owned(),
                LEASE,
            )),
            work: work(&works),
        };
        let task = tokio::spawn(async move { post.run(future::ready(())).await });
        Self {
            state,
            leases,
            works,
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
        // It does not stand for election either: another replica may have what this one lacks.
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
    // The usurper is never heard of again.
    browser.becomes(true).await;
    assert!(!clusters.task.is_finished() && !browser.task.is_finished());
}
