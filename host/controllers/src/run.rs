//! Runs the controllers: what they share is made once, then each duty runs in each scope.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, future};
use kube::Client;
use podloom_api::SelenosisApi;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::browser::{self, Timeouts};
use crate::engine::aside::Aside;
use crate::engine::clock::Clock;
use crate::engine::events::Events;
use crate::engine::kind::Context;
use crate::engine::namespaces;
use crate::engine::readiness::Readiness;
use crate::engine::scope::{Pace, Scope};
use crate::metrics::ControllerMetrics;
use crate::mutator::PodMutator;

/// How long the last Events may take after the controllers have ended.
const LAST_EVENTS: Duration = Duration::from_secs(3);

/// What the controllers run with.
#[derive(Clone)]
pub struct Setup {
    /// Talks to the API server.
    pub client: Client,
    /// The API groups that our kinds are served in.
    pub api: SelenosisApi,
    /// The namespaces that are watched; none means all.
    pub namespaces: Vec<String>,
    /// How many objects of a kind are worked on at once, in each of the watched namespaces.
    pub concurrency: u16,
    /// Resync interval; 10 minutes is usual.
    pub resync: Duration,
    /// How long the steps of a session may take.
    pub timeouts: Timeouts,
    /// Where plans that take long are made.
    pub aside: Aside,
    /// The API server's time, which the client's answers set right.
    pub clock: Clock,
    /// The chain of plugins.
    pub mutator: Arc<dyn PodMutator>,
    /// Where passes are counted.
    pub metrics: ControllerMetrics,
    /// The name of our own pod, for Events.
    pub instance: Option<String>,
}

/// Why the controllers ended though nobody stopped them.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A controller's streams ended.
    #[error("a controller ended by itself")]
    Ended,
}

/// Runs the controllers until they are stopped.
///
/// `stop` ends them gracefully: no new work is begun, what is being done is finished.
/// Dropping the future ends them at once: no write is begun after it.
/// `readiness` shows which caches are not yet filled.
///
/// # Errors
///
/// Returns an error if a controller ends by itself, which none does.
pub async fn run(
    setup: Setup,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), ControllerError> {
    let starting = readiness.await_cache("controllers".to_owned());
    let (events, send_events) = Events::new(
        &setup.client,
        setup.instance.clone(),
        "Reconcile",
        setup.metrics.events.clone(),
    );
    let ctx = Arc::new(Context {
        client: setup.client.clone(),
        events,
        clock: setup.clock.clone(),
        metrics: setup.metrics.engine.clone(),
        aside: setup.aside.clone(),
    });
    let (namespaces, watch_namespaces) = tokio::select! {
        watched = namespaces::watch(&ctx, &readiness) => watched,
        () = stop.cancelled() => return Ok(()),
    };
    let scopes = match setup.namespaces.as_slice() {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let duty = browser::Duty {
        api: setup.api,
        mutator: setup.mutator,
        timeouts: setup.timeouts,
        namespaces,
        metrics: setup.metrics.browsers,
    };
    let scopes: Vec<Scope> = scopes
        .into_iter()
        .map(|namespace| Scope {
            namespace,
            ctx: Arc::clone(&ctx),
            readiness: readiness.clone(),
            stop: stop.clone(),
            pace: Pace {
                concurrency: setup.concurrency,
                resync: setup.resync,
            },
        })
        .collect();
    let controllers = browser::run(&scopes, &duty);
    drop((ctx, scopes, starting));
    let mut send_events = std::pin::pin!(send_events);
    tokio::select! {
        () = controllers => {}
        // Neither ends before the controllers do: the queue is theirs, and a watch has no end.
        () = future::join(&mut send_events, watch_namespaces).map(drop) => {}
    }
    // What does not get out in time is dropped, as Events may be.
    let _ = timeout(LAST_EVENTS, send_events).await;
    if stop.is_cancelled() {
        return Ok(());
    }
    Err(ControllerError::Ended)
}
