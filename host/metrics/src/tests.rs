use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::{By, Counted, Histograms, Registry, Scraped, Values, gauges};

const BUCKETS: Histograms = Histograms(1.0, 2.0, 2);

crate::metrics! {
    /// One of each.
    struct All(given: u8) {
        total: Counter = "total", "All";
        found: By<2> = "found", "By two labels", By::new(["kind", "outcome"]).from_zero([["pod", "ok"]]);
        took: By<1, Histogram, Histograms> = "took" Seconds, "A histogram", By::histograms(["kind"], BUCKETS);
        depth: By<1, Gauge> = "depth", "A gauge", By::new(["kind"]);
        ended: Counted<Ended> = "ended", "A closed set";
        other: Vec<u8>;
    }
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Well,
    Badly,
}

impl Values for Ended {
    const LABEL: &'static str = "how";
    const ALL: &'static [Self] = &[Self::Well, Self::Badly];

    fn as_str(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Badly => "badly",
        }
    }
}

fn encoded(registry: &Registry) -> String {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry).expect("encoded");
    encoded
}

#[test]
fn rows_are_registered_with_name_help_unit_labels_and_zeros() {
    let mut registry = Registry::default();
    let all = All::register(&mut registry, 7);
    assert_eq!((all.given, all.other.len()), (7, 0));
    all.total.inc();
    all.found.of(["node", "ok"]).inc();
    all.took.of(["pod"]).observe(1.5);
    all.ended.count(Ended::Badly, 2);
    drop(all.depth.of(["pod"]));
    let text = encoded(&registry);
    for line in [
        "# HELP found By two labels.",
        "found_total{kind=\"pod\",outcome=\"ok\"} 0",
        "found_total{kind=\"node\",outcome=\"ok\"} 1",
        "# UNIT took_seconds seconds",
        "took_seconds_bucket{le=\"1.0\",kind=\"pod\"} 0",
        "took_seconds_bucket{le=\"2.0\",kind=\"pod\"} 1",
        "depth{kind=\"pod\"} 0",
        "ended_total{how=\"well\"} 0",
        "ended_total{how=\"badly\"} 2",
        "total_total 1",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
    }
}

#[test]
fn what_is_scraped_is_forgotten_when_it_has_stopped() {
    let mut registry = Registry::default();
    let scraped: Scraped<i64> = Scraped::register(&mut registry, |value, mut encoder| {
        let series = value.map(|value| ([("kind", "pod")], *value));
        gauges(&mut encoder, "now", "Now", series)
    });
    scraped.set(3);
    let shown = scraped.shown();
    assert!(encoded(&registry).contains("now{kind=\"pod\"} 3\n"));
    drop(shown);
    let stopped = encoded(&registry);
    assert!(
        stopped.contains("# TYPE now gauge\n") && !stopped.contains("pod"),
        "{stopped}"
    );
}
