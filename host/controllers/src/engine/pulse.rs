//! The age of each watch: the time since it last heard from the API server.
//!
//! The watch of a quiet kind has no events for hours, and kube restarts it silently. So this listens one layer below: each watch
//! has a client of its own, which notes every answer and every piece of its body, bookmarks too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::time::Instant;
use tower::service_fn;

/// The watches that are at work.
#[derive(Clone, Default)]
pub(super) struct Pulses(Arc<Mutex<Vec<Weak<Pulse>>>>);

struct Pulse {
    kind: &'static str,
    last: Mutex<Instant>,
}

impl Pulses {
    /// Returns a client for one watch, whose signs of life are noted for as long as it is used.
    pub(super) fn client(&self, client: &Client, kind: &'static str) -> Client {
        let pulse = Arc::new(Pulse {
            kind,
            last: Mutex::new(Instant::now()),
        });
        self.lock().push(Arc::downgrade(&pulse));
        let namespace = client.default_namespace().to_owned();
        let client = client.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, pulse) = (client.clone(), Arc::clone(&pulse));
            async move {
                let response = client.send(request).await?;
                let is_success = response.status().is_success();
                // A refusal is an answer, but it brings nothing of the objects.
                let beat = move || {
                    if is_success {
                        pulse.beat();
                    }
                };
                beat();
                let heard = response.map(|body| {
                    body.map_frame(move |frame| {
                        beat();
                        frame
                    })
                });
                Ok::<_, kube::Error>(heard)
            }
        });
        Client::new(service, namespace)
    }

    /// Returns the age of the oldest watch of each kind.
    fn ages(&self) -> BTreeMap<&'static str, Duration> {
        let mut ages = BTreeMap::new();
        let mut pulses = self.lock();
        pulses.retain(|pulse| {
            let Some(pulse) = pulse.upgrade() else {
                return false;
            };
            let age: &mut Duration = ages.entry(pulse.kind).or_default();
            *age = pulse.age().max(*age);
            true
        });
        ages
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Pulse>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulse {
    fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn age(&self) -> Duration {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.elapsed()
    }
}

impl fmt::Debug for Pulses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pulses").finish_non_exhaustive()
    }
}

impl Collector for Pulses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut ages = encoder.encode_descriptor(
            "watch_age",
            "Time since a watch last heard from the API server; each is begun again after 30 s",
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
