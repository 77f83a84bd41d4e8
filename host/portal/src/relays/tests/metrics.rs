use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::super::*;

fn relay(number: usize) -> Authority {
    Authority::parse(&format!("https://relay-{number}.example")).unwrap()
}

fn scene() -> (Registry, RelayMetrics) {
    let mut registry = Registry::default();
    let outbound = OutboundMetrics::register(&mut registry);
    let metrics = RelayMetrics::register(&mut registry, outbound);
    (registry, metrics)
}

/// The lines of a scrape that begin like this.
fn lines(registry: &Registry, beginning: &str) -> Vec<String> {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry).unwrap();
    let lines = encoded.lines().filter(|line| line.starts_with(beginning));
    lines.map(str::to_owned).collect()
}

const UP: &str = "portal_relay_up{";
const LOOKS: &str = "portal_relay_poll_duration_seconds_count{";
const UP_OTHER: &str = "portal_relay_up{relay=\"other\"}";

#[test]
fn beyond_a_hundred_relays_the_others_share_their_series() {
    let (registry, metrics) = scene();
    for number in 0..1000 {
        metrics.polled(&relay(number), number != 999, Duration::from_millis(20));
    }
    for metric in [UP, LOOKS] {
        assert_eq!(lines(&registry, metric).len(), NAMED + 1, "{metric}");
    }
    assert_eq!(lines(&registry, UP_OTHER), [format!("{UP_OTHER} 0")]);
    let looks = lines(
        &registry,
        "portal_relay_poll_duration_seconds_count{relay=\"other\"}",
    );
    assert!(looks.iter().all(|line| line.ends_with(" 900")), "{looks:?}");
    metrics.clear();
    assert!(lines(&registry, UP).is_empty() && lines(&registry, LOOKS).is_empty());
}

#[test]
fn the_series_of_the_others_go_with_the_last() {
    let (registry, metrics) = scene();
    let poll = |number| metrics.polled(&relay(number), true, Duration::from_millis(20));
    (0..NAMED + 2).for_each(poll);
    metrics.forget(&relay(0));
    assert_eq!(lines(&registry, UP).len(), NAMED);
    // There is room for a name now.
    poll(NAMED);
    assert_eq!(
        lines(&registry, "portal_relay_up{relay=\"relay-100.").len(),
        1
    );
    assert_eq!(lines(&registry, UP_OTHER).len(), 1);
    metrics.forget(&relay(NAMED + 1));
    assert!(lines(&registry, UP_OTHER).is_empty());
    poll(NAMED + 1);
    metrics.forget(&relay(1));
    poll(NAMED + 1);
    assert!(lines(&registry, UP_OTHER).is_empty(), "it has a name");
}
