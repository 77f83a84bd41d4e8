//! The age of each watch: the time since the API server last sent anything on it.
//!
//! A quiet kind has no events for hours, and kube restarts its watch silently. So this measures one layer below: each watch has a client
//! of its own, which sees every response and every frame of its body, bookmarks included.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::time::Instant;
use tower::service_fn;

use super::watch::paced;

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
