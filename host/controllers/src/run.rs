//! Runs the controllers: what they share is made once, then each duty runs in each scope.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::browser::{self, BrowserSetup};
use crate::engine::blocking::BlockingThreads;
use crate::engine::clock::Clock;
use crate::engine::events::Events;
use crate::engine::kind::Context;
use crate::engine::readiness::Readiness;
use crate::engine::scope::{Pace, WatchScope};
use crate::metrics::ControllerMetrics;

/// How long the last Events may take after the controllers have ended.
const LAST_EVENTS: Duration = Duration::from_secs(3);

/// What the controllers of every duty run with.
#[derive(Clone)]
pub struct Setup {
    /// Talks to the API server.
    pub client: Client,
    /// The namespaces that are watched; none means all.
    pub namespaces: Vec<String>,
    /// How many objects of a kind are worked on at once, in each of the watched namespaces.
    pub concurrency: u16,
    /// Resync interval; 10 minutes is usual.
    pub resync: Duration,
    /// Where plans that take long are made.
    pub blocking: BlockingThreads,
    /// The API server's time, which the client's answers set right.
    pub clock: Clock,
    /// Where passes are counted.
    pub metrics: ControllerMetrics,
    /// The name of our own pod, for Events.
    pub instance: Option<String>,
}

/// What one duty runs with besides.
#[derive(Clone)]
pub enum DutySetup {
    /// Browsers and BrowserConfigs.
    Browser(BrowserSetup),
}

/// Why the controllers ended though nobody stopped them.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A controller's streams ended.
    #[error("a controller ended by itself")]
    Ended,
}

/// Runs the controllers of a duty until they are stopped.
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
    duty: DutySetup,
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
    let scopes = scopes(&setup, events, &readiness, &stop);
    let stopped = stop.clone();
    let controllers = async move {
        let controllers = tokio::select! {
            controllers = begin(duty, &scopes, &setup.metrics) => controllers,
            () = stop.cancelled() => return,
        };
        // Their Events end when they do.
        drop((scopes, starting));
        controllers.await;
    };
    let mut send_events = std::pin::pin!(send_events);
    tokio::select! {
        () = controllers => {}
        // It does not end before the controllers do: the queue is theirs.
        () = &mut send_events => {}
    }
    // What does not get out in time is dropped, as Events may be.
    let _ = timeout(LAST_EVENTS, send_events).await;
    if stopped.is_cancelled() {
        return Ok(());
    }
    Err(ControllerError::Ended)
}

/// Returns the work of a duty's controllers, once what it needs before the first pass is there.
async fn begin(
    duty: DutySetup,
    scopes: &[WatchScope],
    metrics: &ControllerMetrics,
) -> BoxFuture<'static, ()> {
    match duty {
        DutySetup::Browser(own) => browser::begin(scopes, own, &metrics.browsers).await,
    }
}

/// The namespaces that are watched: each by itself, or all together.
fn scopes(
    setup: &Setup,
    events: Events,
    readiness: &Readiness,
    stop: &CancellationToken,
) -> Vec<WatchScope> {
    let ctx = Arc::new(Context {
        client: setup.client.clone(),
        events,
        clock: setup.clock.clone(),
        metrics: setup.metrics.engine.clone(),
        blocking: setup.blocking.clone(),
    });
    let scope = |namespace| WatchScope {
        namespace,
        ctx: Arc::clone(&ctx),
        readiness: readiness.clone(),
        stop: stop.clone(),
        pace: Pace {
            concurrency: setup.concurrency,
            resync: setup.resync,
        },
    };
    match setup.namespaces.as_slice() {
        [] => vec![scope(None)],
        some => some.iter().cloned().map(Some).map(scope).collect(),
    }
}
