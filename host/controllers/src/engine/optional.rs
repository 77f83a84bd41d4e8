//! Watches of what the process can do without: a right or a CRD may be missing, for now or for ever.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future};
use kube::api::ListParams;
use kube::core::Status;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::metrics::EngineMetrics;
use super::watch::{watch_config, watch_events};

/// When to ask again after no answer.
const AGAIN: Duration = Duration::from_secs(1);
/// When to ask again whether something that was missing is there.
const LATER: Duration = Duration::from_mins(1);
/// How often the log says that a watch breaks.
const SAID: Duration = Duration::from_hours(1);

/// Is called with the events of a watch.
pub type Listener<K> = Box<dyn Fn(&Event<K>) + Send + Sync>;

/// A kind that is perhaps not installed, or that we have no right to read.
pub struct Optional<K: Resource> {
    /// The kind, for metrics and logs.
    pub kind: &'static str,
    /// Its dynamic type.
    pub dyntype: K::DynamicType,
    /// The label selector of the watch; empty for all objects.
    pub label: &'static str,
    /// Removes from an object what nothing reads, before it is cached.
    pub prune: fn(&mut K),
    /// Is called with each event after it is in the cache.
    pub seen: Listener<K>,
}

/// A cache of objects that may become unreadable, and readable again. Cheap to clone; all clones share the objects.
#[derive(Clone)]
pub struct OptionalCache<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    store: Store<K>,
    is_known: Arc<AtomicBool>,
    was_known: Arc<AtomicBool>,
}

impl<K> OptionalCache<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Returns a cache of what never changes, for tests.
    pub fn of(store: Store<K>) -> Self {
        Self {
            store,
            is_known: Arc::new(true.into()),
            was_known: Arc::new(true.into()),
        }
    }

    /// Returns the objects; none before the first list, and from the loss of the right or the kind to the next one.
    pub fn known(&self) -> Option<&Store<K>> {
        self.is_known.load(Ordering::Acquire).then_some(&self.store)
    }

    /// Returns whether the objects were ever known since this process began.
    pub fn was_known(&self) -> bool {
        self.was_known.load(Ordering::Acquire)
    }

    /// Returns the objects that are known: none before the first list and while they may not be read. It is ready as soon as either is
    /// known, so it can be waited for.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }
}

/// Returns a cache, and the work that fills it and keeps it right. The cache knows nothing while the objects may not be read, or their
/// kind does not exist; the work asks again from time to time.
///
/// The work has no end, and nothing waits for the cache.
pub fn watch_optional<K>(
    client: &Client,
    api: impl Fn(Client) -> Api<K> + Send + 'static,
    optional: Optional<K>,
    metrics: &EngineMetrics,
) -> (OptionalCache<K>, BoxFuture<'static, ()>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug + Send + Sync + Unpin,
{
    let (client, metrics) = (client.clone(), metrics.clone());
    let mut writer = Writer::new(optional.dyntype);
    let (kind, prune, seen) = (optional.kind, optional.prune, optional.seen);
    let config = match optional.label {
        "" => watch_config(),
        label => watch_config().labels(label),
    };
    let cache = OptionalCache {
        store: writer.as_reader(),
        is_known: Arc::default(),
        was_known: Arc::default(),
    };
    let is_known = Arc::clone(&cache.is_known);
    let was_known = Arc::clone(&cache.was_known);
    let said = Arc::new(Mutex::new(None));
    let work = async move {
        let mut was_refused = false;
        loop {
            let forgot = until_readable(&api(client.clone()), kind, || {
                is_known.store(false, Ordering::Release);
                // What was there must not take memory for ever.
                writer.apply_watcher_event(&Event::Init);
                writer.apply_watcher_event(&Event::InitDone);
            })
            .await;
            if was_refused && !forgot {
                // Lists are allowed and watches are not: then this is how often there is a list.
                sleep(LATER).await;
            }
            // From here on its age is measured: before, there is no watch.
            let watched = api(metrics.watch_client(&client, kind));
            let refused = Arc::new(Notify::new());
            let broke = on_break(kind, &metrics, &said, &refused);
            let events = watch_events(watched, config.clone(), prune, broke);
            let filling = events.for_each(|event| {
                if let Ok(event) = event {
                    writer.apply_watcher_event(&event);
                    if matches!(event, Event::InitDone) {
                        was_known.store(true, Ordering::Release);
                        is_known.store(true, Ordering::Release);
                    }
                    seen(&event);
                }
                future::ready(())
            });
            tokio::select! {
                () = filling => {}
                () = refused.notified() => was_refused = true,
            }
        }
    };
    (cache, work.boxed())
}

/// What happens when a watch breaks.
fn on_break(
    kind: &'static str,
    metrics: &EngineMetrics,
    said: &Arc<Mutex<Option<Instant>>>,
    refused: &Arc<Notify>,
) -> impl Fn(&watcher::Error) + Send + 'static + use<> {
    let (metrics, said, refused) = (metrics.clone(), Arc::clone(said), Arc::clone(refused));
    move |error| {
        metrics.watch_broke(kind);
        if is_due(&said, Instant::now()) {
            let error = error as &dyn Error;
            tracing::warn!(kind, error, "watch broke, restarting");
        }
        if is_refusal(error) {
            refused.notify_one();
        }
    }
}

/// Whether a watch broke because the objects may not be read, or their kind does not exist. Then only a new question shows whether
/// the cache is still right; kube would repeat the watch for ever.
fn is_refusal(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) =
        error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if is_missing(status))
}

fn is_missing(status: &Status) -> bool {
    status.is_forbidden() || status.is_not_found()
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

/// Waits until objects of a kind may be read. If they may not, it calls `forget` once; returns whether it did.
async fn until_readable<K>(api: &Api<K>, kind: &'static str, forget: impl FnOnce()) -> bool
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut forget = Some(forget);
    loop {
        let wait = match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return forget.is_none(),
            Err(kube::Error::Api(status)) if is_missing(&status) => {
                if let Some(forget) = forget.take() {
                    forget();
                }
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
