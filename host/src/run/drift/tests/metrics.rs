use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::super::{Counts, DriftMetrics};

fn counts(missed: u64, changed: u64, older: u64) -> Counts {
    Counts {
        missed,
        changed,
        older,
        ephemeral: 0,
    }
}

fn lines(registry: &Registry) -> Vec<String> {
    let mut shown = String::new();
    text::encode(&mut shown, registry).unwrap();
    let lines = shown.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_was_found_is_shown_until_another_replica_looks() {
    let mut registry = Registry::default();
    let metrics = DriftMetrics::collected(&mut registry);
    let shown = metrics.shown();
    let found = vec![
        ("shop".to_owned(), counts(2, 1, 0)),
        ("calm".to_owned(), Counts::default()),
        (
            "debugged".to_owned(),
            Counts {
                ephemeral: 3,
                ..Counts::default()
            },
        ),
    ];
    metrics.show(found, false);
    metrics.looked("failed");
    let looks = [
        "drift_looks_total{outcome=\"complete\"} 1",
        "drift_looks_total{outcome=\"failed\"} 1",
        "drift_looks_total{outcome=\"partial\"} 0",
    ];
    let pods = [
        "drift_pods{namespace=\"debugged\",result=\"changed\"} 0",
        "drift_pods{namespace=\"debugged\",result=\"ephemeral\"} 3",
        "drift_pods{namespace=\"debugged\",result=\"missed\"} 0",
        "drift_pods{namespace=\"debugged\",result=\"older\"} 0",
        "drift_pods{namespace=\"shop\",result=\"changed\"} 1",
        "drift_pods{namespace=\"shop\",result=\"ephemeral\"} 0",
        "drift_pods{namespace=\"shop\",result=\"missed\"} 2",
        "drift_pods{namespace=\"shop\",result=\"older\"} 0",
    ];
    let mut seen = lines(&registry);
    seen.sort();
    assert_eq!(seen, [&looks[..], &pods[..]].concat());
    drop(shown);
    let mut seen = lines(&registry);
    seen.sort();
    assert_eq!(seen, looks);
}

#[test]
fn the_worst_namespaces_are_shown_by_name() {
    let mut registry = Registry::default();
    let metrics = DriftMetrics::collected(&mut registry);
    let many = (0..1000).map(|number| (format!("ns-{number:04}"), counts(1, 0, 5)));
    let worst = [
        ("z-changed".to_owned(), counts(0, 9, 0)),
        // A namespace may have this name.
        ("other".to_owned(), counts(7, 0, 0)),
    ];
    metrics.show(many.chain(worst).collect(), true);
    let seen = lines(&registry);
    let is_there = |line: &str| seen.iter().any(|it| it == line);
    assert_eq!(seen.iter().filter(|it| it.contains("missed")).count(), 200);
    assert!(is_there(
        "drift_pods{namespace=\"z-changed\",result=\"changed\"} 9"
    ));
    // 802 of the 1,000, and the namespace itself.
    assert!(is_there(
        "drift_pods{namespace=\"other\",result=\"missed\"} 809"
    ));
    assert!(is_there(
        "drift_pods{namespace=\"other\",result=\"older\"} 4010"
    ));
    assert!(is_there("drift_looks_total{outcome=\"partial\"} 1"));
}
