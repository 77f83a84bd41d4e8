//! What is counted at each scrape.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelValue, EncodeMetric,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// A value that is counted at each scrape while it is there; cheap to clone.
pub struct Scraped<T> {
    value: Arc<Mutex<Option<T>>>,
    count: Count<T>,
}

/// Writes gauges of a value; the metrics are there also if it is not.
type Count<T> = fn(Option<&T>, DescriptorEncoder<'_>) -> fmt::Result;

/// Forgets the value when it is dropped: what has stopped is stale.
pub struct Shown<T>(Scraped<T>);

impl<T: Send + 'static> Scraped<T> {
    /// Registers what counts the value.
    pub fn register(registry: &mut Registry, count: Count<T>) -> Self {
        let value = Arc::default();
        let scraped = Self { value, count };
        registry.register_collector(Box::new(scraped.clone()));
        scraped
    }

    /// Counts a value in place of the one before.
    pub fn set(&self, value: T) {
        *self.value() = Some(value);
    }

    /// Counts what is set until the result is dropped.
    #[must_use]
    pub fn shown(&self) -> Shown<T> {
        Shown(self.clone())
    }
}

impl<T> Scraped<T> {
    fn value(&self) -> MutexGuard<'_, Option<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Shown<T> {
    fn drop(&mut self) {
        *self.0.value() = None;
    }
}

impl<T> Clone for Scraped<T> {
    fn clone(&self) -> Self {
        let (value, count) = (Arc::clone(&self.value), self.count);
        Self { value, count }
    }
}

impl<T> fmt::Debug for Scraped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraped").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Collector for Scraped<T> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.count)(self.value().as_ref(), encoder)
    }
}

/// Writes the gauges of one name, each with its labels.
pub fn gauges<V: EncodeLabelValue, G: EncodeGaugeValue, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = ([(&'static str, V); N], G)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, count) in series {
        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
