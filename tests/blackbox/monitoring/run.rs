//! A real Prometheus scrapes an operator that does everything, and every query of the dashboard and the alerts finds something.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podloom_tests::monitoring::{
    MetricRow, alerts, file, metric_of, panel_queries, selectors, table,
};
use podloom_tests::prometheus::PrometheusServer;
use podloom_tests::{Cluster, Operator, blackbox_on, eventually};

use super::workload::Workload;

/// How often everything is done, with a scrape after each: a rate needs two values of a counter, and a counter appears with its first
/// event.
const ROUNDS: usize = 3;

/// What may have no samples in a run in which nothing is broken, and why.
const RARE: [(&str, &str); 4] = [
    ("podloom_loop_dropped_total", "no loop of ours gives up"),
    (
        "podloom_loop_lock_contended_total",
        "each id has one worker",
    ),
    ("podloom_loop_panics_total", "it is a bug"),
    (
        "podloom_loop_retries_total",
        "what a loop cannot use is a result; it tries again only if somebody else writes in between",
    ),
];

fn is_rare(series: &str) -> bool {
    RARE.iter().any(|(name, _)| *name == series)
}

/// A query without Grafana's variables. The range is as long as the run.
fn filled(query: &str) -> String {
    let filled = query.replace("$__rate_interval", "5m");
    let filled = filled.replace("$namespace", ".*").replace("$job", ".*");
    assert!(!filled.contains('$'), "{filled} has another variable");
    filled
}

/// Waits until a query has an answer that is a number.
async fn has_data(prometheus: &PrometheusServer, place: &str, query: &str) {
    eventually(&format!("{place}: {query} has data"), async || {
        let samples = prometheus.query(query)?;
        let has_number = samples.iter().any(|it| !it.value.is_nan());
        has_number.then_some(()).ok_or(format!("{samples:?}"))
    })
    .await;
}

async fn check_dashboard(prometheus: &PrometheusServer) {
    for panel in panel_queries() {
        let read = selectors(&panel.query);
        if read.iter().all(|it| is_rare(&it.series)) {
            continue;
        }
        has_data(prometheus, &panel.panel, &filled(&panel.query)).await;
    }
}

/// Prometheus evaluates each alert without an error, and has data of what it reads.
async fn check_alerts(prometheus: &PrometheusServer) {
    let alerts = alerts();
    eventually("all alerts are evaluated", async || {
        let rules = prometheus.rules()?;
        let bad: Vec<_> = rules.iter().filter(|it| it["health"] != "ok").collect();
        let is_all = rules.len() == alerts.len() && bad.is_empty();
        is_all.then_some(()).ok_or(format!("{bad:#?}"))
    })
    .await;
    for alert in alerts {
        for selector in selectors(&alert.query) {
            if !is_rare(&selector.series) {
                has_data(prometheus, &alert.name, &selector.series).await;
            }
        }
    }
}

/// The label that a sample has beside those of the table, if there is any, or one that it lacks, or a value that is not listed.
fn mistake(row: &MetricRow, sample: &str) -> Option<String> {
    let inside = sample
        .split_once('{')
        .and_then(|(_, it)| it.rsplit_once('}'));
    let pairs = inside.map_or("", |(inside, _)| inside).split("\",");
    let pairs = pairs.filter_map(|pair| pair.trim_end_matches('"').split_once("=\""));
    let found: BTreeMap<&str, &str> = pairs.filter(|(label, _)| *label != "le").collect();
    let expected: BTreeSet<&str> = row.labels.keys().map(String::as_str).collect();
    if found.keys().copied().collect::<BTreeSet<_>>() != expected {
        return Some(format!("{sample}: the table has {expected:?}"));
    }
    let listed = |label: &str, value: &str| {
        let values = row.labels.get(label);
        values.is_none_or(|it| it.is_empty() || it.contains(value))
    };
    let (label, value) = found
        .into_iter()
        .find(|(label, value)| !listed(label, value))?;
    Some(format!("{sample}: the table does not list {label}={value}"))
}

/// What the operator serves is in the table, with type and labels, and everything in the table is served unless it is rare.
fn check_table(operator: &Operator) {
    let table = table();
    let (_, text) = operator.get("/metrics").unwrap();
    let (mut served, mut mistakes) = (BTreeSet::new(), Vec::new());
    for line in text.lines() {
        if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|it| it.split_once(' '))
        {
            let listed = table.get(name).map(|row| row.kind.as_str());
            // The format without OpenMetrics has no type for it.
            let listed = listed.map(|it| it.replace("info", "gauge"));
            if listed.as_deref() != Some(kind) {
                mistakes.push(format!("{name} is a {kind}: the table has {listed:?}"));
            }
        } else if !line.starts_with('#') {
            let series = line.split(['{', ' ']).next().unwrap_or_default();
            match metric_of(&table, series) {
                Some((name, row)) => {
                    served.insert(name);
                    mistakes.extend(mistake(row, line));
                }
                None => mistakes.push(format!("{series} is not in the table")),
            }
        }
    }
    assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
    let unserved = table.keys().filter(|name| !served.contains(name.as_str()));
    let unserved: Vec<&String> = unserved.filter(|name| !is_rare(name)).collect();
    assert!(unserved.is_empty(), "nothing made {unserved:?}");
}

#[test]
fn every_panel_and_every_alert_has_data_of_a_real_run() {
    // The operator works on kinds without a namespace too, so it has a cluster of its own.
    let cluster = || Arc::new(Cluster::installed());
    blackbox_on(cluster, "monitoring", async |scene| {
        let workload = Workload::start(&scene).await;
        let operator = &workload.operator;
        let address = operator.listens("http").unwrap();
        let rules = file("monitoring/alerts.yaml");
        let prometheus = PrometheusServer::scraping(&scene.namespace, &[address], &rules).await;
        for round in 0..ROUNDS {
            workload.round(round).await;
            prometheus.scrapes().await;
        }
        workload.lose_candidate();
        check_dashboard(&prometheus).await;
        check_alerts(&prometheus).await;
        check_table(operator);
    });
}
