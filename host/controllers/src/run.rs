//! Runs the controllers of a duty in each watch scope.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use podloom_browser::{self, BrowserSetup};
use podloom_cleaner::{self, CleanerSetup};
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::clock::Clock;
use podloom_engine::events::Events;
use podloom_engine::kind::Context;
use podloom_engine::namespaces::UnreadNamespaces;
use podloom_engine::readiness::Readiness;
use podloom_engine::scope::{Pace, WatchScope};
use podloom_infrastructure::{self, InfrastructureSetup};
use podloom_portal::{self, PortalSetup};
use podloom_rollout::{self, RolloutSetup};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::metrics::ControllerMetrics;

/// How long sending the last Events may take after the controllers have ended.
const LAST_EVENTS: Duration = Duration::from_secs(3);

/// What the controllers of every duty need.
#[derive(Clone)]
pub struct Setup {
    /// The client of the API server.
    pub client: Client,
    /// The watched namespaces; empty means all.
    pub namespaces: Vec<String>,
    /// How many objects of a kind are reconciled at once, in each watched namespace.
    pub concurrency: u16,
    /// Resync interval; 10 minutes by default.
    pub resync: Duration,
    /// Runs plans that take long.
    pub blocking: BlockingThreads,
    /// What plugins are told of namespaces that may not be read.
    pub unread_namespaces: UnreadNamespaces,
    /// The API server's time, corrected by the client's responses.
    pub clock: Clock,
    /// The metrics.
    pub metrics: ControllerMetrics,
    /// The name of our own pod: the reporting instance of Events.
    pub instance: Option<String>,
}

/// What one duty needs besides.
#[derive(Clone)]
pub enum DutySetup {
    /// Browsers and BrowserConfigs.
    Browser(BrowserSetup),
    /// PortalExposes and TunnelClasses.
    Portal(PortalSetup),
    /// Clusters, Clouds and InfrastructureProviders.
    Infrastructure(InfrastructureSetup),
    /// Cleaners.
    Cleaner(CleanerSetup),
    /// ChainRollouts.
    Rollout(RolloutSetup),
}

/// Why the controllers ended without being stopped.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The streams of a controller ended, which is a bug.
    #[error("a controller ended by itself")]
    Ended,
}

/// Runs the controllers of a duty until they are stopped.
///
/// `stop` ends them gracefully: running passes are finished, and no new ones start.
/// Dropping the future ends them at once: no write starts afterwards.
/// `readiness` reports which caches are not yet filled.
///
/// # Errors
///
/// Returns an error if a controller ends by itself, which is a bug.
pub async fn run(
    setup: Setup,
    duty: DutySetup,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), ControllerError> {
    let starting = readiness.await_cache("controllers".to_owned());
    let (events, send_events) = Events::new(
        &setup.client,
        setup.instance.as_deref(),
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
        // The queue of Events ends with the last scope.
        drop((scopes, starting));
        controllers.await;
    };
    let mut send_events = std::pin::pin!(send_events);
    tokio::select! {
        () = controllers => {}
        // It does not end before the controllers, which hold the queue.
        () = &mut send_events => {}
    }
    // Events that are not sent in time are dropped.
    let _ = timeout(LAST_EVENTS, send_events).await;
    if stopped.is_cancelled() {
        return Ok(());
    }
    Err(ControllerError::Ended)
}

/// Starts the controllers of a duty, and returns their work.
async fn begin(
    duty: DutySetup,
    scopes: &[WatchScope],
    metrics: &ControllerMetrics,
) -> BoxFuture<'static, ()> {
    match duty {
        DutySetup::Browser(own) => podloom_browser::begin(scopes, own, &metrics.browsers).await,
        DutySetup::Portal(own) => podloom_portal::begin(scopes, own, &metrics.portal).await,
        DutySetup::Infrastructure(own) => {
            podloom_infrastructure::begin(scopes, own, &metrics.infrastructure)
        }
        DutySetup::Cleaner(own) => podloom_cleaner::begin(scopes, &own, &metrics.cleaner),
        DutySetup::Rollout(own) => podloom_rollout::begin(scopes, &own, &metrics.rollout),
    }
}

/// The watch scopes: one for each watched namespace, or one for all.
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
        unread_namespaces: setup.unread_namespaces,
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

#[cfg(test)]
mod tests;
