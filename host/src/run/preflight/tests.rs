//! Looks at an API server that knows discovery and reviews alone. Time is paused: it goes on when all tasks wait.

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
use crate::run::fixtures::{CLUSTERS, Closed, Cluster};
use crate::run::requests::Requests;
use crate::run::state::{Access, DutyState, Role};

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

    /// With so many namespaces.
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
            row,
            client: Cluster::client(&cluster),
            api: SelenosisApi::Seed,
            namespaces,
            lease: None,
            requests: requests.clone(),
        };
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move { preflight.keep_looking(&shared).await });
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

    /// A request of the controllers is refused.
    fn is_refused(&self) {
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
        watched.change(|cluster| cluster.looks),
        2 * 6,
        "one for each kind, at the start and every ten minutes"
    );

    watched.change(|cluster| cluster.has_no_browsers = true);
    watched.is_refused();
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

/// Who stands by asks for nothing that could be refused, and may have to take over at any time.
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

/// A scope cannot be changed, so whoever installed the wrong one has to save the objects.
#[tokio::test(start_paused = true)]
async fn a_kind_of_the_wrong_scope_is_named_with_what_to_do() {
    for (row, told) in [
        (
            Duty::Browser.row(),
            [
                "browsers.selenosis.io is installed with scope Cluster, and the operator needs scope Namespaced",
                "podloom crds --controllers browser --selenosis-api seed",
            ],
        ),
        (
            &CLUSTERS,
            [
                "clusters.example.com is installed with scope Namespaced, and the operator needs scope Cluster",
                "take its finalizers off all objects of it, for nobody else does, and delete them with it by `kubectl delete crd clusters.example.com`",
            ],
        ),
    ] {
        let turned = Cluster {
            is_turned: true,
            ..Cluster::default()
        };
        let watched = Watched::start_for(row, turned);
        for words in told {
            watched.becomes(lacks(words)).await;
        }
        watched.change(|cluster| cluster.is_turned = false);
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
    watched.is_refused();
    watched
        .becomes(lacks("somebody may not create pods in all namespaces"))
        .await;
    watched.change(|cluster| cluster.denied = None);
    watched.becomes(is_granted).await;
}

#[tokio::test(start_paused = true)]
async fn silence_changes_no_verdict() {
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
    watched.is_refused();
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
async fn refusals_behind_which_nothing_is_missing_cost_few_looks() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    for _ in 0..3600 {
        watched.is_refused();
        sleep(Duration::from_secs(1)).await;
    }
    let looks = watched.change(|cluster| cluster.looks) / 2;
    assert!((30..=40).contains(&looks), "{looks} looks in an hour");
}

/// A revoked account, or a token that ran out.
#[tokio::test(start_paused = true)]
async fn credentials_that_are_not_accepted_are_noticed() {
    let watched = Watched::start(Cluster::default());
    watched.becomes(is_granted).await;
    watched.change(|cluster| cluster.knows_nobody = true);
    watched.is_refused();
    let took = watched
        .becomes(lacks("does not accept our credentials"))
        .await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    watched.change(|cluster| cluster.knows_nobody = false);
    watched.becomes(is_granted).await;
    // An answer to a question is none of silence, whatever it is.
    for closed in [Closed::Kinds, Closed::Rights] {
        watched.change(|cluster| cluster.is_closed = Some(closed));
        watched.is_refused();
        let took = watched.becomes(lacks("does not let us ask")).await;
        assert!(took <= Duration::from_secs(20), "{closed:?}: {took:?}");
        watched.change(|cluster| cluster.is_closed = None);
        let took = watched.becomes(is_granted).await;
        assert!(took <= Duration::from_secs(5), "{closed:?}: {took:?}");
    }
}

/// A right that is seldom used is not missed for long: whoever works looks, too, and nobody asks hundreds of questions a minute.
#[tokio::test(start_paused = true)]
async fn everybody_looks_now_and_then() {
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
        watched.change(|cluster| (cluster.looks / 2, cluster.reviews))
    };
    assert_eq!(follower(1).await.0, 30);
    let (looks, reviews) = follower(100).await;
    assert!((2..10).contains(&looks), "{looks} looks");
    assert!(reviews < 3 * 3600, "{reviews} questions in an hour");
}
