//! Wires the controllers to their watches and runs them.

mod namespaces;
mod readiness;
mod scope;

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, future};
use kube::Client;
use podloom_api::SelenosisApi;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::drive::Context;
use crate::events::Events;
use crate::metrics::ControllerMetrics;
use crate::mutator::PodMutator;

use scope::Scope;

pub use readiness::Readiness;

/// The name of the controller of Browsers in logs and metrics.
pub(crate) const BROWSER: &str = "browser";
/// The name of the controller of BrowserConfigs in logs and metrics.
pub(crate) const BROWSER_CONFIG: &str = "browser-config";

/// How long the last Events may take after the controllers have ended.
const LAST_EVENTS: Duration = Duration::from_secs(3);

/// How long things may take.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// From the creation of a Browser until it has a pod, and from then until the pod runs; 5 minutes each by default.
    pub pod_creation: Duration,
    /// How long to wait for a pod to terminate; 5 minutes by default.
    pub pod_deletion: Duration,
    /// How long a failed Browser stays; none by default.
    pub failed_retention: Duration,
    /// How long a Browser waits for its BrowserConfig from when it is first seen; 5 seconds by default.
    pub config_grace: Duration,
    /// Resync interval; 10 minutes by default.
    pub resync: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            pod_creation: Duration::from_mins(5),
            pod_deletion: Duration::from_mins(5),
            failed_retention: Duration::ZERO,
            config_grace: Duration::from_secs(5),
            resync: Duration::from_mins(10),
        }
    }
}

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
    /// How long things may take.
    pub timeouts: Timeouts,
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
/// `stop` ends them in peace: no new work is begun, what is being done is finished.
/// Dropping the future ends them at once: no write is begun after it.
/// `readiness` tells which caches are not yet filled.
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
        mutator: Arc::clone(&setup.mutator),
        events,
        timeouts: setup.timeouts.clone(),
        clock: setup.clock.clone(),
        metrics: setup.metrics.clone(),
    });
    let (namespaces, watch_namespaces) = tokio::select! {
        watched = namespaces::watch(&ctx, &readiness) => watched,
        () = stop.cancelled() => return Ok(()),
    };
    let scopes = match setup.namespaces.as_slice() {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let controllers = future::join_all(scopes.into_iter().map(|namespace| {
        let scope = Scope {
            namespace,
            ctx: Arc::clone(&ctx),
            namespaces: namespaces.clone(),
            readiness: readiness.clone(),
            stop: stop.clone(),
        };
        scope::run(&scope, &setup)
    }));
    drop((ctx, starting));
    let mut send_events = std::pin::pin!(send_events);
    tokio::select! {
        _ = controllers => {}
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
