//! Metrics with labels.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

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
