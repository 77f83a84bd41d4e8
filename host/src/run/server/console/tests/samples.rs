use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::super::{Sample, named, samples};

#[test]
fn labels_are_read_as_they_were_written() {
    let hostile = "a\"b\\c\nd}e,f=\"g\" 7";
    let mut registry = Registry::with_prefix("podloom");
    let family = Family::<Vec<(&str, &str)>, Counter>::default();
    registry.register("looks", "Looks", family.clone());
    let labels = vec![("namespace", hostile), ("result", "")];
    family.get_or_create(&labels).inc_by(41);
    registry.register("looks_of_others", "Looks", Counter::<u64>::default());

    let samples = samples(&registry, &["podloom_looks_total"]);
    let all: Vec<&Sample> = named(&samples, "podloom_looks_total").collect();
    let [sample] = all.as_slice() else {
        panic!("{all:?}")
    };
    assert_eq!(sample.label("namespace"), hostile);
    assert_eq!(sample.label("result"), "");
    assert_eq!(sample.label("other"), "");
    assert_eq!(sample.count(), 41);
    assert_eq!(named(&samples, "podloom_looks_of_others_total").count(), 0);
}

#[test]
fn buckets_are_read_in_order() {
    let mut registry = Registry::default();
    let histogram = Histogram::new([0.000_01, 0.5]);
    registry.register("took", "Time", histogram.clone());
    for seconds in [0.000_001, 0.2, 0.3, 9.0] {
        histogram.observe(seconds);
    }
    let samples = samples(&registry, &["took_bucket"]);
    let buckets = named(&samples, "took_bucket");
    let buckets: Vec<(f64, u64)> = buckets
        .map(|bucket| (bucket.label("le").parse().unwrap(), bucket.count()))
        .collect();
    assert_eq!(buckets, [(0.000_01, 1), (0.5, 3), (f64::INFINITY, 4)]);
}

#[test]
fn what_is_no_sample_is_none() {
    for line in [
        "",
        "took",
        "took{",
        "took{le=\"1",
        "took{le=\"1\\",
        "took{le=\"1\"}",
        "took{le} 1",
    ] {
        assert_eq!(Sample::parse(line), None, "{line}");
    }
}
