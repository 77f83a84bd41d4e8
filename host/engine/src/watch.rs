//! Watches: they fill the caches and wake the controllers.

mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, future};
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::runtime::utils::WatchStreamExt;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use self::stream::listed_by_stream;
use super::backoff::WatchBackoff;

/// The timeout of a watch in seconds. After five more seconds of silence, it is given up.
///
/// Shortly before the timeout, the API server sends the latest resourceVersion, so that the next watch continues there without a list.
const WATCH_SECONDS: u32 = 30;
/// The number of objects on a page of a list.
const PAGE: u32 = 100;

/// What can be watched.
pub trait Watchable: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static> Watchable for K {}

/// Watches a kind and returns its events. `prune` removes from an object what nothing reads.
pub fn watch_events<K>(
    api: Api<K>,
    config: watcher::Config,
    prune: impl FnMut(&mut K) + Send + 'static,
    on_error: impl Fn(&watcher::Error) + Send + 'static,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static
where
    K: Watchable,
{
    listed_by_stream(api, config)
        .backoff(WatchBackoff::default())
        .modify(prune)
        .inspect_err(on_error)
        // `on_error` has logged it, and the backoff is here: with an error, the controller would hold back its other streams too.
        .filter(|event| future::ready(event.is_ok()))
}

/// Returns a client for one watch, whose requests to watch are spaced if they end soon.
///
/// A watch that ends is no error, and the next one begins at once: without end, if a proxy closes them all.
pub fn paced(client: &Client) -> Client {
    let waits: Arc<Mutex<WatchBackoff>> = Arc::default();
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (client, waits) = (client.clone(), Arc::clone(&waits));
        async move {
            let mut query = request.uri().query().unwrap_or_default().split('&');
            if query.any(|parameter| parameter.starts_with("watch=")) {
                let wait = lock(&waits).before_attempt();
                sleep(wait).await;
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

/// The configuration of every watch: a short timeout, so that a connection that died silently is noticed, and lists in pages, so that a
/// start with many objects takes little memory.
pub fn watch_config() -> watcher::Config {
    watcher::Config::default()
        .page_size(PAGE)
        .timeout(WATCH_SECONDS)
}

// The age of each watch: the time since the API server last sent anything on it.
//
// A quiet kind has no events for hours, and its watch begins again silently. So this measures one layer below: each watch has a client
// of its own, which sees every response and every frame of its body, bookmarks included.

/// The ages of all running watches.
#[derive(Clone, Default)]
pub(super) struct WatchAges(Arc<Mutex<Vec<Weak<WatchAge>>>>);

struct WatchAge {
    kind: &'static str,
    last: Mutex<Instant>,
}

impl WatchAges {
    /// Returns a client for one watch. The age of the watch is measured for as long as the client is used.
    pub(super) fn client(&self, client: &Client, kind: &'static str) -> Client {
        let age = Arc::new(WatchAge {
            kind,
            last: Mutex::new(Instant::now()),
        });
        lock(&self.0).push(Arc::downgrade(&age));
        let namespace = client.default_namespace().to_owned();
        let client = paced(client);
        let service = service_fn(move |request: Request<Body>| {
            let (client, age) = (client.clone(), Arc::clone(&age));
            async move {
                let response = client.send(request).await?;
                let is_success = response.status().is_success();
                // An error response says nothing about the objects.
                let reset = move || {
                    if is_success {
                        age.reset();
                    }
                };
                reset();
                let measured = response.map(|body| {
                    body.map_frame(move |frame| {
                        reset();
                        frame
                    })
                });
                Ok::<_, kube::Error>(measured)
            }
        });
        Client::new(service, namespace)
    }

    /// Returns the age of the oldest watch of each kind.
    fn ages(&self) -> BTreeMap<&'static str, Duration> {
        let mut ages = BTreeMap::new();
        lock(&self.0).retain(|watch| {
            let Some(watch) = watch.upgrade() else {
                return false;
            };
            let oldest: &mut Duration = ages.entry(watch.kind).or_default();
            *oldest = watch.elapsed().max(*oldest);
            true
        });
        ages
    }
}

impl WatchAge {
    fn reset(&self) {
        *lock(&self.last) = Instant::now();
    }

    fn elapsed(&self) -> Duration {
        let last = lock(&self.last);
        last.elapsed()
    }
}

impl fmt::Debug for WatchAges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WatchAges").finish_non_exhaustive()
    }
}

impl Collector for WatchAges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut ages = encoder.encode_descriptor(
            "watch_age",
            "Time since the API server last sent anything on the watch of a kind; watches restart every 30 s",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for (kind, age) in self.ages() {
            let labels = [("kind", kind)];
            ConstGauge::new(age.as_secs_f64()).encode(ages.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
