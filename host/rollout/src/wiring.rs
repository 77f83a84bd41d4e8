//! What wakes ChainRollouts: themselves. Pods are only counted: a rollout is judged every few seconds anyway.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, BoxFuture};
use futures::{FutureExt, StreamExt};
use kube::Api;
use kube::runtime::watcher::{self, Event};
use podloom_api::ChainRollout;
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::metrics::UNREADABLE;
use podloom_engine::plain::plain;
use podloom_engine::scope::WatchScope;
use podloom_engine::watch::{watch_config, watch_events};
use podloom_engine::wiring::Wiring;
use tokio::sync::SetOnce;
use tokio::time::{sleep, timeout};

use crate::kind::RolloutKind;
use crate::metrics::{RolloutMetrics, phase};
use crate::pod::WatchedPod;
use crate::tally::Tally;

/// How long nothing came when all that had come was read.
const GAP: Duration = Duration::from_millis(10);
/// How long the judge then reads nothing. Woken for each event alone, it would cost more than what it does with them; the numbers are
/// judged every few seconds anyway.
const REST: Duration = Duration::from_secs(1);

/// What the controller runs with.
#[derive(Clone, Debug)]
pub struct RolloutSetup {
    /// The operator's own namespace: ChainRollouts of others say nothing.
    pub namespace: String,
}

/// Returns the work of the controller until it is stopped.
///
/// The cache is awaited from now on, not from the work's first poll.
pub fn begin(
    scopes: &[WatchScope],
    setup: &RolloutSetup,
    metrics: &RolloutMetrics,
) -> BoxFuture<'static, ()> {
    let Some(first) = scopes.first() else {
        return future::ready(()).boxed();
    };
    let own = [WatchScope {
        namespace: Some(setup.namespace.clone()),
        ..first.clone()
    }];
    let resource = Arc::new(ChainRollout::resource());
    let watch = Watch::of_kind::<RolloutKind>("ChainRollouts", &resource);
    let rollouts = Cache::new(&own, watch);
    let tally = Tally::default();
    let shown = metrics.show(rollouts.clone());
    let pods = scopes.iter().enumerate();
    let (listed, pods): (Vec<_>, Vec<_>) = pods
        .map(|(watch, scope)| count_pods(scope, watch, &tally))
        .unzip();
    let kind = RolloutKind {
        resource,
        rollouts: rollouts.clone(),
        tally,
        memory: std::sync::Mutex::default(),
    };
    let controller = Wiring::<RolloutKind>::new(&rollouts)
        .counts(UNREADABLE, phase)
        // Before that, every pod that it finds would look like one of the few that there are.
        .awaits(future::join_all(listed).map(drop))
        .run(&own, kind);
    let beside = future::join(rollouts.fill(), future::join_all(pods));
    future::select(controller.boxed(), beside.boxed())
        .map(move |_| drop(shown))
        .boxed()
}

/// Counts the pods of a scope. Returns two futures: one ends with the first list, or when that is forbidden; the other counts, and never
/// ends.
fn count_pods(
    scope: &WatchScope,
    watch: usize,
    tally: &Tally,
) -> (BoxFuture<'static, ()>, BoxFuture<'static, ()>) {
    let client = scope.ctx.client.clone();
    let api: Api<WatchedPod> = match &scope.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let (tally, clock) = (tally.clone(), scope.ctx.clock.clone());
    let known: Arc<SetOnce<()>> = Arc::default();
    let (refused, listed, waiting) = (Arc::clone(&known), Arc::clone(&known), known);
    let blind = tally.clone();
    let events = watch_events(
        api,
        watch_config(),
        |_| {},
        move |error| {
            if is_forbidden(error) {
                blind.blind(watch);
                let _ = refused.set(());
            }
            tracing::debug!(error = plain(error), "could not watch pods");
        },
    );
    let counting = async move {
        let mut events = pin!(events);
        // A list comes without rests: its pages may not be asked for in time otherwise.
        let mut is_listing = true;
        loop {
            let Ok(event) = timeout(GAP, events.next()).await else {
                if !is_listing {
                    sleep(REST).await;
                }
                continue;
            };
            match event {
                Some(Ok(event)) => {
                    tally.see(watch, &event, clock.now());
                    if matches!(event, Event::InitDone) {
                        // The second list is no news.
                        let _ = listed.set(());
                    }
                    is_listing = match event {
                        Event::Init => true,
                        Event::InitDone => false,
                        _ => is_listing,
                    };
                }
                Some(Err(_)) => {}
                None => return,
            }
        }
    };
    let waiting = async move {
        waiting.wait().await;
    };
    (waiting.boxed(), counting.boxed())
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.is_forbidden(),
        _ => false,
    }
}
