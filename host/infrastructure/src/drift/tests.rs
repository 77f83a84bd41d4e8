mod orphans;
mod reads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use podloom_control_loop::{Ctx, NoRecorder, Storage};
use podloom_engine::metrics::EngineMetrics;
use podloom_engine::outbound::OutboundMetrics;
use podloom_scripted::scripted;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Drift, Outside, Schedule, TURN, Unclaimed};
use crate::cluster::fixtures::remembering;
use crate::fixtures::{caches, cloud, cluster, known, provider, secret};
use crate::im::{
    Answer, Call, Failure, FailureKind, ImState, InfrastructureId, InfrastructureManager, Reading,
    Sent, Target,
};
use crate::in_use::Known;
use crate::metrics::InfrastructureMetrics;
use crate::resolve::Tenant;
use crate::secrets::Secrets;

/// A server that answers at once, and one that never does.
const PROMPT: &str = "https://im.example.com";
const SILENT: &str = "https://silent.example.com";

/// How long a request to the silent one takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The Infrastructure Managers: all machines are stopped now, and each account has many infrastructures.
#[derive(Default)]
struct Managers(Mutex<Vec<String>>);

impl InfrastructureManager for Managers {
    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        let asked = format!("{} {}", target.url, call.operation());
        self.0.lock().unwrap().push(asked);
        async move {
            if target.url == SILENT {
                sleep(TIMEOUT).await;
                return Err(Failure {
                    kind: FailureKind::Unreachable,
                    message: "no answer".to_owned(),
                    sent: Sent::Unknown,
                });
            }
            Ok(match call {
                Call::List => Answer::List((100..1100).map(id).collect()),
                Call::Template { .. } => Answer::Template("metadata: {}".to_owned()),
                _ => Answer::State(reading(ImState::Stopped)),
            })
        }
        .boxed()
    }
}

impl Managers {
    fn count(&self, asked: &str) -> usize {
        let all = self.0.lock().unwrap();
        all.iter().filter(|it| *it == asked).count()
    }
}

fn id(number: usize) -> InfrastructureId {
    InfrastructureId::parse(&format!("00000000-0000-4000-8000-{number:012x}")).unwrap()
}

fn reading(state: ImState) -> Reading {
    Reading {
        state,
        vms: BTreeMap::new(),
    }
}

/// A Cluster of a namespace with an infrastructure.
fn running(namespace: &str, number: usize) -> Value {
    let name = format!("{namespace}-{number}");
    cluster(&json!({
        "metadata": { "name": name, "namespace": namespace, "uid": name },
        "status": {
            "clusterId": id(number),
            "runningOn": { "kind": "Cloud", "name": "dummy" },
            "operation": { "kind": "Create", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z" },
        },
    }))
}

/// Namespaces with these URLs and so many Clusters, whose machines were configured when last heard of.
fn drift(namespaces: &[(&str, &str, usize)]) -> (Drift, Arc<Managers>) {
    let mut clusters = Vec::new();
    let (mut clouds, mut providers) = (Vec::new(), Vec::new());
    for (namespace, url, count) in namespaces {
        clouds.push(cloud(Some(namespace), "InfrastructureProvider"));
        providers.push(provider(Some(namespace), url));
        clusters.extend((0..*count).map(|number| running(namespace, number)));
    }
    let uids = clusters
        .iter()
        .map(|it| it["metadata"]["uid"].as_str().unwrap());
    let readings: Vec<(&str, Reading)> = uids
        .map(|uid| (uid, reading(ImState::Configured)))
        .collect();
    let (client, _) = scripted(|request, _| {
        let name = request.rsplit('/').next().unwrap_or_default();
        let values = [("password", "p"), ("value", "v")];
        (200, secret("team", name, &values))
    });
    let mut registry = Registry::default();
    let engine = EngineMetrics::collected(&mut registry);
    let outbound = OutboundMetrics::register(&mut registry);
    let im = Arc::new(Managers::default());
    let drift = Drift {
        memory: remembering(&readings),
        outside: Outside {
            known: known(&clusters, caches(&clouds, &providers)),
            secrets: Secrets::new(client),
            im: Arc::clone(&im) as Arc<dyn InfrastructureManager>,
        },
        metrics: InfrastructureMetrics::declared(&mut registry, &engine.objects, outbound),
    };
    (drift, im)
}

/// The Clusters that are woken until this time is over.
async fn woken(known: &Known, within: Duration) -> Vec<String> {
    sleep(within).await;
    known.clusters.noted()
}

fn tenant(namespace: &str) -> Tenant {
    Tenant::Namespace(namespace.to_owned())
}

/// One tenant has more Clusters on a silent server than there are workers, and many more infrastructures than a turn looks at.
#[tokio::test(start_paused = true)]
async fn a_silent_server_delays_nobody_elses_comparison() {
    let (drift, _) = drift(&[("slow", SILENT, 50), ("team", PROMPT, 2)]);
    let known = drift.outside.known.clone();
    let schedule = Schedule {
        interval: Duration::from_mins(5),
        recorder: Arc::new(NoRecorder),
        stop: CancellationToken::new(),
    };
    let work = drift.start(&schedule);
    let seen = woken(&known, Duration::from_secs(1));
    let seen = future::select(seen.boxed(), work).await;
    let future::Either::Left((seen, _)) = seen else {
        unreachable!("the loops ended")
    };
    assert_eq!(seen, ["team-0", "team-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_silent_server() {
    let (drift, _) = drift(&[("slow", SILENT, 1)]);
    let stop = CancellationToken::new();
    let schedule = Schedule {
        interval: Duration::from_mins(5),
        recorder: Arc::new(NoRecorder),
        stop: stop.clone(),
    };
    let begun = Instant::now();
    let stopping = async {
        sleep(Duration::from_secs(3)).await;
        stop.cancel();
    };
    future::join(drift.start(&schedule), stopping).await;
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

/// One's own Clusters do not wait for it either.
#[tokio::test(start_paused = true)]
async fn an_account_that_does_not_answer_is_left_alone_until_the_next_turn() {
    let (clusters, im) = drift(&[("slow", SILENT, 50)]);
    let begun = Instant::now();
    let claims = clusters.outside.claims(&tenant("slow"));
    clusters.turn(claims).await;
    assert_eq!(im.count("https://silent.example.com state"), 2);
    assert_eq!(begun.elapsed(), 2 * TIMEOUT);
}

/// A Cluster whose API server is not probed asks nobody by itself.
#[tokio::test(start_paused = true)]
async fn clusters_of_a_silent_server_are_woken_once() {
    let (clusters, im) = drift(&[("slow", SILENT, 50)]);
    let claims = clusters.outside.claims(&tenant("slow"));
    clusters.turn(claims.clone()).await;
    let seen = woken(&clusters.outside.known, Duration::from_millis(1)).await;
    assert_eq!(seen.len(), 50);
    clusters.turn(claims).await;
    let seen = woken(&clusters.outside.known, Duration::from_millis(1)).await;
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(im.count("https://silent.example.com state"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_an_account_with_many_infrastructures_has_an_end() {
    let (drift, im) = drift(&[("team", PROMPT, 1), ("slow", SILENT, 1)]);
    let Drift {
        outside, metrics, ..
    } = drift;
    let unclaimed = Unclaimed::new(outside.clone(), metrics);
    let turn = async |namespace: &str| {
        let tenant = tenant(namespace);
        let accounts = outside.accounts().remove(&tenant).unwrap();
        let begun = Instant::now();
        unclaimed.turn(&tenant, accounts).await;
        assert!(begun.elapsed() <= TURN);
    };
    turn("team").await;
    assert_eq!(im.count("https://im.example.com template"), 200);
    turn("team").await;
    assert_eq!(im.count("https://im.example.com template"), 400);
    turn("slow").await;
    assert_eq!(im.count("https://silent.example.com list"), 1);
}

#[tokio::test]
async fn a_tenant_without_clusters_and_providers_is_forgotten_by_the_loops() {
    let (clusters, _) = drift(&[("team", PROMPT, 1), ("idle", PROMPT, 0)]);
    let unclaimed = Unclaimed::new(clusters.outside.clone(), clusters.metrics.clone());
    let ctx = Ctx::default();
    let is_known = async |namespace: &str| {
        let tenant = tenant(namespace);
        let claims = clusters.get(&ctx, &tenant).await.unwrap();
        let accounts = unclaimed.get(&ctx, &tenant).await.unwrap();
        (claims.is_some(), accounts.is_some())
    };
    assert_eq!(is_known("team").await, (true, true));
    assert_eq!(is_known("idle").await, (false, true));
    assert_eq!(is_known("gone").await, (false, false));
}

#[tokio::test]
async fn a_difference_wakes_its_cluster_which_then_reads_for_itself() {
    let (clusters, _) = drift(&[("team", PROMPT, 1)]);
    let claims = clusters.outside.claims(&tenant("team"));
    clusters.turn(claims.clone()).await;
    assert!(clusters.memory.reading("team-0").is_none());
    let seen = woken(&clusters.outside.known, Duration::from_millis(1)).await;
    assert_eq!(seen, ["team-0"]);
    // Its own controller is first.
    clusters.turn(claims).await;
    let seen = woken(&clusters.outside.known, Duration::from_millis(1)).await;
    assert!(seen.is_empty());
}
