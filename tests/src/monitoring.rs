//! What `deploy/` has for people who watch the operator: the table of metrics, the dashboard and the alerts.

mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::cluster::root;
pub use promql::{Selector, grouped_by, selectors};

/// What the table says of a metric.
#[derive(Clone, Debug)]
pub struct MetricRow {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// The labels, with their values where the table lists them.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// A query of the dashboard.
#[derive(Clone, Debug)]
pub struct PanelQuery {
    /// The title of its panel.
    pub panel: String,
    /// The query, with Grafana's variables in it.
    pub query: String,
    /// The names of its lines: a template with labels.
    pub legend: String,
}

/// An alert.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// When it fires.
    pub query: String,
    /// `critical` or `warning`.
    pub severity: String,
    /// `summary`, `description` and `runbook_url`.
    pub annotations: BTreeMap<String, String>,
}

/// A file of `deploy/`.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    root().join("deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap()
}

/// The rows of METRICS.md, by metric. A histogram has its name without an ending.
#[must_use]
pub fn table() -> BTreeMap<String, MetricRow> {
    let page = read("METRICS.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, _, _, _] = cells[..] else {
            return None;
        };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        let row = MetricRow {
            kind: kind.to_owned(),
            labels: labels.split("<br>").filter_map(label).collect(),
        };
        Some((name.to_owned(), row))
    });
    rows.collect()
}

/// A label of a cell: its name is the first code in it, and its values are all others.
fn label(text: &str) -> Option<(String, BTreeSet<String>)> {
    let mut code = text.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((code.next()?, code.collect()))
}

/// The metric that a series belongs to, and its row.
#[must_use]
pub fn metric_of<'t>(
    table: &'t BTreeMap<String, MetricRow>,
    series: &str,
) -> Option<(&'t str, &'t MetricRow)> {
    let endings = ["_bucket", "_sum", "_count"];
    let stems = endings
        .iter()
        .filter_map(|ending| series.strip_suffix(ending));
    let histogram = stems
        .filter_map(|stem| table.get_key_value(stem))
        .find(|(_, row)| row.kind == "histogram");
    let other = || {
        table
            .get_key_value(series)
            .filter(|(_, row)| row.kind != "histogram")
    };
    let (name, row) = histogram.or_else(other)?;
    Some((name.as_str(), row))
}

/// The dashboard.
#[must_use]
pub fn dashboard() -> Value {
    serde_json::from_str(&read("monitoring/dashboard.json")).unwrap()
}

/// All queries of the dashboard.
#[must_use]
pub fn panel_queries() -> Vec<PanelQuery> {
    let dashboard = dashboard();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| PanelQuery {
            panel: text(&panel["title"]),
            query: text(&target["expr"]),
            legend: text(&target["legendFormat"]),
        })
    });
    queries.collect()
}

/// All alerts.
#[must_use]
pub fn alerts() -> Vec<Alert> {
    let rules: Value = serde_saphyr::from_str(&read("monitoring/alerts.yaml")).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.filter_map(|group| group["rules"].as_array());
    let alerts = rules.flatten().map(|rule| Alert {
        name: text(&rule["alert"]),
        query: text(&rule["expr"]),
        severity: text(&rule["labels"]["severity"]),
        annotations: serde_json::from_value(rule["annotations"].clone()).unwrap(),
    });
    alerts.collect()
}
