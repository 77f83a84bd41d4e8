//! Preflight against an API server that serves only discovery and access reviews. Time is paused: it advances when all tasks wait.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{Request, StatusCode};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Duty, Row};
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Preflight;
use crate::client::Requests;
use crate::run::state::{Access, DutyState, Role};
use crate::run::tests::fixtures::{CLUSTERS, Cluster, Forbidden};

struct Watched {
    cluster: Arc<Mutex<Cluster>>,
    requests: Requests,
    state: Arc<DutyState>,
    task: JoinHandle<()>,
}

impl Watched {
    fn start(cluster: Cluster) -> Self {
        Self::start_for(Duty::Browser.row(), cluster)
    }

    /// Watches this many namespaces.
    fn start_in(cluster: Cluster, namespaces: usize) -> Self {
        let namespaces = (0..namespaces).map(|number| format!("n{number}"));
        Self::begin(Duty::Browser.row(), cluster, namespaces.collect())
    }

    fn start_for(row: &'static Row, cluster: Cluster) -> Self {
        Self::begin(row, cluster, Vec::new())
    }

    fn begin(row: &'static Row, cluster: Cluster, namespaces: Vec<String>) -> Self {
        let cluster = Arc::new(Mutex::new(cluster));
        let requests = Requests::default();
        let stop = CancellationToken::new();
        let state = Arc::new(DutyState::new(row, Gauge::default(), stop));
        let preflight = Preflight {
            own_namespace: "home".to_owned(),
            secret_namespace: "home".to_owned(),
            webhook_name: "podloom-webhook".to_owned(),
            row,
            client: Cluster::client(&cluster),
            api: SelenosisApi::Seed,
            namespaces,
            lease: None,
            requests: requests.clone(),
        };
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move { preflight.keep_checking(&shared).await });
        Self {
            cluster,
            requests,
            state,
            task,
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        change(&mut self.cluster.lock().expect("no panic"))
    }

    /// A request of the controllers fails in a way that may mean a missing kind.
    fn fail_a_request(&self) {
        let list = Request::builder()
            .extension("list")
            .body(())
            .expect("a request");
        self.requests.begin(&list).answered(StatusCode::NOT_FOUND);
    }

    /// Waits for a verdict, and returns how long that took.
    async fn becomes(&self, is_verdict: impl Fn(&Access) -> bool) -> Duration {
        let begun = Instant::now();
        let mut access = self.state.access.subscribe();
        let seen = timeout(Duration::from_secs(3600), access.wait_for(is_verdict)).await;
        assert!(seen.is_ok(), "it stays {:?}", self.state.access.borrow());
        begun.elapsed()
    }
}

fn is_granted(access: &Access) -> bool {
    *access == Access::Granted
}

fn lacks(what: &str) -> impl Fn(&Access) -> bool {
    move |access| matches!(access, Access::Lacking(reasons) if reasons.iter().any(|reason| reason.contains(what)))
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_and_comes_back_is_noticed_both_times() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    sleep(Duration::from_secs(3590)).await;
    assert_eq!(
        watched.change(|cluster| cluster.discoveries),
        2 * 6,
        "one for each kind, at the start and every ten minutes"
    );

    watched.change(|cluster| cluster.has_no_browsers = true);
    watched.fail_a_request();
    let took = watched
        .becomes(lacks("browsers.selenosis.io is not served"))
        .await;
    assert!(took <= Duration::from_secs(5), "{took:?}");

    watched.change(|cluster| cluster.has_no_browsers = false);
    let took = watched.becomes(is_granted).await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    watched.state.stop.cancel();
    watched.task.await.expect("it ends");
}

/// An optional right stops nothing, but readiness and the metric say that it is missing, and no longer than it is.
#[tokio::test(start_paused = true)]
async fn an_optional_right_that_goes_and_comes_back_is_noticed_both_times() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    let missing = |watched: &Watched| {
        let lacks = watched.state.lacks.borrow();
        assert_eq!(watched.state.lacking.get(), i64::from(!lacks.is_empty()));
        lacks
            .iter()
            .map(|lack| lack.reason.clone())
            .collect::<Vec<_>>()
    };
    assert!(missing(&watched).is_empty());
    for _ in 0..2 {
        watched.change(|cluster| cluster.denied = Some("namespaces"));
        watched.fail_a_request();
        sleep(Duration::from_secs(31)).await;
        let lacks = missing(&watched);
        assert_eq!(lacks.len(), 1, "{lacks:?}");
        assert!(lacks[0].starts_with("somebody may not list namespaces; "));
        assert!(is_granted(&watched.state.access.borrow()));
        watched.change(|cluster| cluster.denied = None);
        sleep(Duration::from_secs(31)).await;
        assert!(missing(&watched).is_empty());
    }
    watched.state.stop.cancel();
    watched.task.await.expect("it ends");
}

/// A webhook needs such a right once: afterwards, one that is missing for a moment takes no readiness away.
#[tokio::test(start_paused = true)]
async fn rights_for_labels_count_as_seen_for_ever() {
    let watched = Watched::start_for(
        Duty::Webhook.row(),
        Cluster {
            denied: Some("jobs"),
            ..Cluster::default()
        },
    );
    let had_label_rights = || watched.state.had_label_rights.load(Ordering::Relaxed);
    watched.becomes(is_granted).await;
    assert!(!had_label_rights());
    watched.change(|cluster| cluster.denied = None);
    sleep(Duration::from_secs(31)).await;
    assert!(had_label_rights());
    watched.change(|cluster| cluster.denied = Some("jobs"));
    watched.fail_a_request();
    sleep(Duration::from_secs(31)).await;
    assert_eq!(watched.state.lacking.get(), 1);
    assert!(had_label_rights());
}

/// A follower sends few requests that could fail, and may have to take over at any time.
#[tokio::test(start_paused = true)]
async fn a_follower_notices_what_goes_and_comes_back_too() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    watched.state.take(Role::Follower("another".to_owned()));
    watched.change(|cluster| cluster.has_no_browsers = true);
    let took = watched
        .becomes(lacks("browsers.selenosis.io is not served"))
        .await;
    assert!(took <= Duration::from_secs(130), "{took:?}");
    watched.change(|cluster| cluster.has_no_browsers = false);
    let took = watched.becomes(is_granted).await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    watched.change(|cluster| cluster.denied = Some("pods"));
    watched.becomes(lacks("may not create pods")).await;
}

/// A scope cannot be changed, so the error says how to replace the CustomResourceDefinition.
#[tokio::test(start_paused = true)]
async fn a_kind_of_the_wrong_scope_is_named_with_the_remedy() {
    for (row, messages) in [
        (
            Duty::Browser.row(),
            [
                "browsers.selenosis.io is installed with scope Cluster, but the operator needs scope Namespaced",
                "podloom crds --controllers browser --selenosis-api seed",
            ],
        ),
        (
            &CLUSTERS,
            [
                "clusters.example.com is installed with scope Namespaced, but the operator needs scope Cluster",
                "remove the finalizers from all its objects (nothing else removes them), delete it and its objects with `kubectl delete crd clusters.example.com`",
            ],
        ),
    ] {
        let cluster = Cluster {
            has_wrong_scope: true,
            ..Cluster::default()
        };
        let watched = Watched::start_for(row, cluster);
        for words in messages {
            watched.becomes(lacks(words)).await;
        }
        watched.change(|cluster| cluster.has_wrong_scope = false);
        let took = watched.becomes(is_granted).await;
        assert!(took <= Duration::from_secs(5), "{took:?}");
        watched.state.stop.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_taken_away_is_noticed() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    watched.change(|cluster| cluster.denied = Some("pods"));
    watched.fail_a_request();
    watched
        .becomes(lacks("somebody may not create pods in all namespaces"))
        .await;
    watched.change(|cluster| cluster.denied = None);
    watched.becomes(is_granted).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_changes_no_verdict() {
    let watched = Watched::start(Cluster {
        is_silent: true,
        ..Cluster::default()
    });
    watched
        .becomes(|access| matches!(access, Access::Unanswered(_)))
        .await;
    watched.change(|cluster| cluster.is_silent = false);
    watched.becomes(is_granted).await;

    watched.change(|cluster| cluster.is_silent = true);
    watched.fail_a_request();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(*watched.state.access.borrow(), Access::Granted);

    watched.change(|cluster| {
        cluster.is_silent = false;
        cluster.has_no_browsers = true;
    });
    watched.becomes(lacks("browsers")).await;
    watched.change(|cluster| cluster.is_silent = true);
    sleep(Duration::from_secs(600)).await;
    assert!(lacks("browsers")(&watched.state.access.borrow()));
}

#[tokio::test(start_paused = true)]
async fn failed_requests_without_a_missing_right_cause_few_checks() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    for _ in 0..3600 {
        watched.fail_a_request();
        sleep(Duration::from_secs(1)).await;
    }
    let checks = watched.change(|cluster| cluster.discoveries) / 2;
    assert!((30..=40).contains(&checks), "{checks} checks in an hour");
}

/// A revoked account, or an expired token.
#[tokio::test(start_paused = true)]
async fn credentials_that_are_not_accepted_are_noticed() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    watched.change(|cluster| cluster.rejects_credentials = true);
    watched.fail_a_request();
    let took = watched
        .becomes(lacks("does not accept our credentials"))
        .await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    watched.change(|cluster| cluster.rejects_credentials = false);
    watched.becomes(is_granted).await;
    // A denial is an answer, so it changes the verdict.
    for forbidden in [Forbidden::Kinds, Forbidden::Rights] {
        watched.change(|cluster| cluster.forbidden = Some(forbidden));
        watched.fail_a_request();
        let took = watched.becomes(lacks("does not let this account")).await;
        assert!(took <= Duration::from_secs(20), "{forbidden:?}: {took:?}");
        watched.change(|cluster| cluster.forbidden = None);
        let took = watched.becomes(is_granted).await;
        assert!(took <= Duration::from_secs(5), "{forbidden:?}: {took:?}");
    }
}

/// The loss of a seldom used right is noticed too, and no replica sends hundreds of reviews a minute.
#[tokio::test(start_paused = true)]
async fn every_replica_checks_now_and_then() {
    for role in [Role::Undecided, Role::Leader, Role::Alone] {
        let watched = Watched::start(Cluster::default());
        watched.becomes(is_granted).await;
        watched.state.take(role);
        watched.change(|cluster| cluster.denied = Some("pods"));
        let took = watched.becomes(lacks("may not create pods")).await;
        assert!(took >= Duration::from_secs(500), "{took:?}");
    }
    let follower = |namespaces: usize| async move {
        let watched = Watched::start_in(Cluster::default(), namespaces);
        watched.becomes(is_granted).await;
        watched.state.take(Role::Follower("another".to_owned()));
        sleep(Duration::from_secs(3590)).await;
        watched.change(|cluster| (cluster.discoveries / 2, cluster.reviews))
    };
    assert_eq!(follower(1).await.0, 30);
    let (checks, reviews) = follower(100).await;
    assert!((2..10).contains(&checks), "{checks} checks");
    assert!(reviews < 3 * 3600, "{reviews} reviews in an hour");
}
