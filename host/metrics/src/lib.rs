//! Metrics, each declared in one row: its field, type, name, help and start.
//!
//! [`metrics!`] makes a struct of the rows, and the function that registers them. [`By`] is a metric with labels, whose names stand once.
//! [`Scraped`] counts at each scrape what is in a value that comes and goes, such as the caches of a controller.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelValue, EncodeMetric, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

#[doc(hidden)]
pub use prometheus_client::registry::{Registry, Unit};

/// Makes a struct of metrics, and its function `register`.
///
/// A row is `field: Type = "name", "help";`, with the unit after the name, and the metric to start with after the help if it is not the
/// default. Without a name it is a field of any type. The fields in parentheses are what `register` is given.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(($($(#[$given_attribute:meta])* $given_visibility:vis $given:ident: $given_type:ty),+ $(,)?))? {
            $(
                $(#[$row_attribute:meta])*
                $field_visibility:vis $field:ident: $type:ty $(= $metric:literal $($unit:ident)?, $help:literal $(, $start:expr)?)?;
            )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone)]
        $visibility struct $name {
            $($($(#[$given_attribute])* $given_visibility $given: $given_type,)+)?
            $($(#[$row_attribute])* $field_visibility $field: $type,)+
        }

        impl $name {
            /// Registers all of them. Call it once: a second set would be exported beside the first.
            $visibility fn register(registry: &mut $crate::Registry, $($($given: $given_type),+)?) -> Self {
                $(
                    let $field = $crate::metrics!(@start $type $($(, $start)?)?);
                    $($crate::metrics!(@register registry, $metric $($unit)?, $help, $field);)?
                )+
                Self { $($($given,)+)? $($field),+ }
            }
        }
    };
    (@start $type:ty) => { <$type>::default() };
    (@start $type:ty, $start:expr) => {{ let start: $type = $start; start }};
    (@register $registry:ident, $metric:literal, $help:literal, $field:ident) => {
        $registry.register($metric, $help, $field.clone());
    };
    (@register $registry:ident, $metric:literal $unit:ident, $help:literal, $field:ident) => {
        $registry.register_with_unit($metric, $help, $crate::Unit::$unit, $field.clone());
    };
}

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Metrics by labels, whose values are from closed sets; cheap to clone.
pub struct By<const N: usize, M = Counter, C = fn() -> M> {
    names: [&'static str; N],
    family: Family<Labels<N>, M, C>,
}

/// Makes each histogram of a family: the first bucket, how many times as large each next one is, and how many there are.
#[derive(Clone, Copy)]
pub struct Histograms(pub f64, pub f64, pub u16);

/// Makes one histogram.
pub fn histogram(buckets: Histograms) -> Histogram {
    buckets.new_metric()
}

impl MetricConstructor<Histogram> for Histograms {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(self.0, self.1, self.2))
    }
}

impl<const N: usize, M: Default> By<N, M> {
    /// Labels with these names; no series is there yet.
    pub fn new(names: [&'static str; N]) -> Self {
        let family = Family::new_with_constructor(M::default as fn() -> M);
        Self { names, family }
    }

    /// With these series from the start, so that rates and alerts work.
    #[must_use]
    pub fn from_zero(self, series: impl IntoIterator<Item = [&'static str; N]>) -> Self {
        for values in series {
            drop(self.of(values));
        }
        self
    }
}

impl<const N: usize> By<N, Histogram, Histograms> {
    /// Histograms whose labels have these names.
    pub fn histograms(names: [&'static str; N], buckets: Histograms) -> Self {
        let family = Family::new_with_constructor(buckets);
        Self { names, family }
    }
}

impl<const N: usize, M, C: MetricConstructor<M>> By<N, M, C> {
    /// The metric with these values of the labels.
    pub fn of(&self, values: [&'static str; N]) -> impl Deref<Target = M> {
        let mut labels = self.names.map(|name| (name, ""));
        for (label, value) in labels.iter_mut().zip(values) {
            label.1 = value;
        }
        self.family.get_or_create(&labels)
    }
}

impl<const N: usize, M, C: Clone> Clone for By<N, M, C> {
    fn clone(&self) -> Self {
        let (names, family) = (self.names, self.family.clone());
        Self { names, family }
    }
}

impl<const N: usize, M: fmt::Debug, C> fmt::Debug for By<N, M, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.family.fmt(f)
    }
}

impl<const N: usize, M, C> EncodeMetric for By<N, M, C>
where
    Family<Labels<N>, M, C>: EncodeMetric,
{
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.family.metric_type()
    }

    fn is_empty(&self) -> bool {
        self.family.is_empty()
    }
}

/// The values of one label: a closed set.
pub trait Values: fmt::Debug + Copy + 'static {
    /// The name of the label.
    const LABEL: &'static str;
    /// All values.
    const ALL: &'static [Self];

    /// The value in the metric.
    fn as_str(self) -> &'static str;
}

/// Counters by the values of one label, all from zero; cheap to clone.
#[derive(Clone, Debug)]
pub struct Counted<V>(By<1>, PhantomData<V>);

impl<V: Values> Counted<V> {
    /// Counts so many.
    pub fn count(&self, value: V, how_many: usize) {
        let how_many = u64::try_from(how_many).unwrap_or(u64::MAX);
        self.0.of([value.as_str()]).inc_by(how_many);
    }
}

impl<V: Values> Default for Counted<V> {
    fn default() -> Self {
        let values = V::ALL.iter().map(|value| [value.as_str()]);
        Self(By::new([V::LABEL]).from_zero(values), PhantomData)
    }
}

impl<V> EncodeMetric for Counted<V> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

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

#[cfg(test)]
mod tests;
