//! Watches of what the process can do without: a right or a CRD may be missing, for now or for ever.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future};
use kube::api::ListParams;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::metrics::EngineMetrics;
use super::watch::{watch_config, watch_events};

/// When to ask again after no answer.
const AGAIN: Duration = Duration::from_secs(1);
/// When to ask again whether something that was missing is there.
const LATER: Duration = Duration::from_mins(1);
/// How often the log says that a watch breaks.
const SAID: Duration = Duration::from_hours(1);

/// A kind that may not be there, or may not be read.
pub struct Optional<K: Resource> {
    /// The kind, for metrics and logs.
    pub kind: &'static str,
    /// Its dynamic type.
    pub dyntype: K::DynamicType,
    /// Removes from an object what nothing reads, before it is cached.
    pub prune: fn(&mut K),
}

/// Returns a cache, and the work that fills it and keeps it right. The cache stays empty while the objects may not be read, or their
/// kind does not exist; the work asks again from time to time.
///
/// The work has no end. Nothing waits for the cache: [`is_filled`] says whether it can be trusted.
pub fn watch_optional<K>(
    client: &Client,
    api: impl Fn(Client) -> Api<K> + Send + 'static,
    optional: Optional<K>,
    metrics: &EngineMetrics,
) -> (Store<K>, BoxFuture<'static, ()>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug + Send + Sync + Unpin,
{
    let Optional {
        kind,
        dyntype,
        prune,
    } = optional;
    let (client, metrics) = (client.clone(), metrics.clone());
    let writer = Writer::new(dyntype);
    let store = writer.as_reader();
    let work = async move {
        until_readable(&api(client.clone()), kind).await;
        // From here on its age is measured: before, there is no watch.
        let watched = api(metrics.watch_client(&client, kind));
        let said = Mutex::new(None);
        let broke = move |error: &watcher::Error| {
            metrics.watch_broke(kind);
            if is_due(&said, Instant::now()) {
                let error = error as &dyn Error;
                tracing::warn!(kind, error, "watch broke, restarting");
            }
        };
        let events = watch_events(watched, watch_config(), prune, broke).reflect(writer);
        events.for_each(|_| future::ready(())).await;
    };
    (store, work.boxed())
}

/// Whether a cache has been filled at least once.
pub fn is_filled<K>(store: &Store<K>) -> bool
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
}

/// Whether it is time to say it again, and notes that it is said.
fn is_due(said: &Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = said.is_none_or(|at| now.duration_since(at) >= SAID);
    if is_due {
        *said = Some(now);
    }
    is_due
}

/// Waits until objects of a kind may be read.
async fn until_readable<K>(api: &Api<K>, kind: &'static str)
where
    K: Clone + DeserializeOwned + Debug,
{
    loop {
        let wait = match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.is_forbidden() || status.is_not_found() => {
                // Whoever looks for missing rights and kinds before we start has said it.
                let reason = status.message;
                tracing::debug!(kind, reason, "cannot be read for now");
                LATER
            }
            Err(error) => {
                let error = &error as &dyn Error;
                tracing::debug!(kind, error, "could not list, trying again");
                AGAIN
            }
        };
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests;
