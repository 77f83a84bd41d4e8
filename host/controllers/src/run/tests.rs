//! Every watch of every duty, with an API server that fails.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use podloom_api::SelenosisApi;
use podloom_browser::{BrowserSetup, Timeouts};
use podloom_cleaner::CleanerSetup;
use podloom_control_loop::NoRecorder;
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::clock::Clock;
use podloom_engine::namespaces::UnreadNamespaces;
use podloom_engine::outbound::{Roots, Tls};
use podloom_engine::readiness::Readiness;
use podloom_infrastructure::InfrastructureSetup;
use podloom_mutation::{MutatedPod, PodMutator, PodRequest, RejectedPod};
use podloom_portal::{ChainPolicy, Observation, PortalSetup, RelaySettings, TunnelSettings};
use podloom_scripted::{Broken, Requests, broken};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{DutySetup, Setup, run};
use crate::AdmissionCaches;
use crate::metrics::ControllerMetrics;

struct Untouched;

impl PodMutator for Untouched {
    fn mutate(&self, pod: Value, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async { Ok(MutatedPod::untouched(pod)) }.boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

fn browser() -> DutySetup {
    DutySetup::Browser(BrowserSetup {
        api: SelenosisApi::default(),
        mutator: Arc::new(Untouched),
        timeouts: Timeouts::default(),
    })
}

fn portal() -> DutySetup {
    DutySetup::Portal(PortalSetup {
        mutator: Arc::new(Untouched),
        tunnel: TunnelSettings::default(),
        chain_policy: ChainPolicy::Roll,
        max_chain_rolls: 1,
        relay_grace: Duration::from_mins(1),
        relays: RelaySettings {
            observation: Observation::Assume,
            interval: Duration::from_secs(30),
            allow: Vec::new(),
            deny: Vec::new(),
            tls: Tls::new(&Roots::Public, None).unwrap(),
            recorder: Arc::new(NoRecorder),
        },
    })
}

fn infrastructure() -> DutySetup {
    DutySetup::Infrastructure(InfrastructureSetup {
        workers: 16,
        settle: Duration::from_mins(1),
        drift_interval: Duration::from_mins(5),
        probe_clusters: false,
        global_secret_namespace: "podloom-system".to_owned(),
        allow: Vec::new(),
        deny: Vec::new(),
        recorder: Arc::new(NoRecorder),
    })
}

fn cleaner() -> DutySetup {
    DutySetup::Cleaner(CleanerSetup {
        settings: Arc::default(),
        workers: 32,
        evaluation_threads: 1,
        lifetimes: Default::default(),
    })
}

fn setup(client: Client) -> Setup {
    Setup {
        client,
        namespaces: Vec::new(),
        concurrency: 8,
        resync: Duration::from_mins(10),
        blocking: BlockingThreads::new(),
        clock: Clock::new(),
        unread_namespaces: UnreadNamespaces::Refused,
        metrics: ControllerMetrics::register(&mut Registry::default()),
        instance: None,
    }
}

/// Checks that in ten minutes so many kinds were asked for, and none more often than every few seconds.
#[track_caller]
fn check(how: Broken, requests: &Requests, kinds: usize) {
    let counted = requests.counted();
    // A duty with a chain begins once it is known whether namespaces may be read.
    let least = match how {
        Broken::Down | Broken::Answers(429 | 500) => 1,
        _ => kinds,
    };
    assert!(counted.len() >= least, "{how:?}: {counted:#?}");
    for (request, count) in counted {
        // Pods of sessions and warm pods are watched apart.
        let watches = if request == "GET /api/v1/pods" { 2 } else { 1 };
        assert!(count <= 170 * watches, "{how:?}: {count} {request}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_watch_of_any_duty_asks_a_failing_api_server_often() {
    let duties: [(fn() -> DutySetup, usize); 4] =
        [(browser, 4), (portal, 6), (infrastructure, 5), (cleaner, 1)];
    for how in Broken::ALL {
        for (duty, kinds) in duties {
            let (client, requests) = broken(how);
            let stop = CancellationToken::new();
            let running = run(setup(client), duty(), Readiness::default(), stop);
            let _never_ends = timeout(Duration::from_mins(10), running).await;
            check(how, &requests, kinds);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_watch_of_the_webhooks_asks_a_failing_api_server_often() {
    for how in Broken::ALL {
        let (client, requests) = broken(how);
        let metrics = ControllerMetrics::register(&mut Registry::default());
        let (_caches, work) = AdmissionCaches::watch(
            &client,
            SelenosisApi::default(),
            &[],
            UnreadNamespaces::Refused,
            &metrics,
        );
        let _never_ends = timeout(Duration::from_mins(10), work).await;
        check(how, &requests, 3);
    }
}
