//! Watches of what the process can do without: a right or a CRD may be missing, for now or for ever.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
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

use super::backoff::WatchBackoff;
use super::broken::on_break;
use super::metrics::EngineMetrics;
use super::plain::plain;
use super::watch::{watch_config, watch_events};

/// How long to wait at most, twice that with jitter, before it is asked again whether something that was missing is there. It is asked
/// soon at first, since a right may be missing for a moment: while its role binding is replaced.
const LATER: Duration = Duration::from_secs(30);

/// After this time without it, a right that was never there is taken for one that is not given.
const SETTLED: Duration = Duration::from_mins(5);

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
    /// What becomes of the objects while they may not be read.
    pub refused: WhenRefused,
    /// Is called with each event after it is in the cache.
    pub seen: Listener<K>,
}

/// What becomes of the objects of a cache while they may not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenRefused {
    /// They are forgotten: nothing is known then.
    Forgotten,
    /// They stay in use as they were last seen.
    Kept,
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
    /// Since when they may not be read, or might not be once.
    refused: Arc<OnceLock<Instant>>,
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
            refused: Arc::default(),
        }
    }

    /// Returns the objects; none before the first list, and, unless they are kept, from the loss of the right or the kind to the next one.
    pub fn known(&self) -> Option<&Store<K>> {
        self.is_known.load(Ordering::Acquire).then_some(&self.store)
    }

    /// Returns whether the objects were ever known since this process began.
    pub fn was_known(&self) -> bool {
        self.was_known.load(Ordering::Acquire)
    }

    /// Returns whether they might not be read at some time since this process began.
    pub fn was_refused(&self) -> bool {
        self.refused.get().is_some()
    }

    /// Returns whether there may be objects that nobody sees for now: they were known once, or may not be read for a few minutes yet.
    /// A role binding that is only being replaced is back by then.
    pub fn may_be_hidden(&self) -> bool {
        self.was_known()
            || self
                .refused
                .get()
                .is_none_or(|since| since.elapsed() < SETTLED)
    }

    /// Returns the objects that are known: none before the first list and while they may not be read. It is ready as soon as either is
    /// known, so it can be waited for.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }
}

/// Returns a cache, and the work that fills it and keeps it right. While the objects may not be read, or their kind does not exist, the
/// work asks again from time to time.
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
    let refused = optional.refused;
    let config = match optional.label {
        "" => watch_config(),
        label => watch_config().labels(label),
    };
    let cache = OptionalCache {
        store: writer.as_reader(),
        is_known: Arc::default(),
        was_known: Arc::default(),
        refused: Arc::default(),
    };
    let is_known = Arc::clone(&cache.is_known);
    let was_known = Arc::clone(&cache.was_known);
    let refused_since = Arc::clone(&cache.refused);
    let said: Arc<dyn Fn(&watcher::Error) + Send + Sync> = Arc::new(on_break(&metrics, kind, None));
    let work = async move {
        let mut waits = WatchBackoff::up_to(LATER);
        loop {
            until_readable(&api(client.clone()), kind, &mut waits, || {
                refused_since.get_or_init(Instant::now);
                if refused == WhenRefused::Kept && is_known.load(Ordering::Acquire) {
                    return;
                }
                is_known.store(false, Ordering::Release);
                // What was there must not take memory for ever. Whoever waits for the cache goes on.
                writer.apply_watcher_event(&Event::Init);
                writer.apply_watcher_event(&Event::InitDone);
            })
            .await;
            // From here on its age is measured: before, there is no watch.
            let watched = api(metrics.watch_client(&client, kind));
            let refusal = Arc::new(Notify::new());
            let events = watch_events(watched, config.clone(), prune, noting(&said, &refusal));
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
                // Where lists are allowed and watches are not, this is how often there is a list.
                () = refusal.notified() => wait(&mut waits).await,
            }
        }
    };
    (cache, work.boxed())
}

/// Says that a watch broke, and notes a refusal.
fn noting(
    said: &Arc<dyn Fn(&watcher::Error) + Send + Sync>,
    refusal: &Arc<Notify>,
) -> impl Fn(&watcher::Error) + Send + 'static + use<> {
    let (said, refusal) = (Arc::clone(said), Arc::clone(refusal));
    move |error| {
        said(error);
        if is_refusal(error) {
            refusal.notify_one();
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

async fn wait(waits: &mut WatchBackoff) {
    sleep(waits.next().unwrap_or(LATER)).await;
}

/// Waits until objects of a kind may be read. If they may not, it calls `forget` once.
async fn until_readable<K>(
    api: &Api<K>,
    kind: &'static str,
    waits: &mut WatchBackoff,
    forget: impl FnOnce(),
) where
    K: Clone + DeserializeOwned + Debug,
{
    let mut forget = Some(forget);
    let mut unanswered = WatchBackoff::default();
    loop {
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if is_missing(&status) => {
                if let Some(forget) = forget.take() {
                    forget();
                }
                // Whoever looks for missing rights and kinds has said it.
                let reason = status.message;
                tracing::debug!(kind, reason, "cannot be read for now");
                wait(waits).await;
            }
            Err(error) => {
                tracing::debug!(kind, error = plain(&error), "could not list, trying again");
                wait(&mut unanswered).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
