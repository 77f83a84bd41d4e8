//! What can be seen in the files alone. `promtool` checks the alerts further.

use std::collections::BTreeSet;
use std::fs;

use podloom_tests::monitoring::{
    Selector, alerts, dashboard, file, grouped_by, metric_of, panel_queries, selectors, table,
};

/// Labels that Prometheus adds, or that belong to its type of histograms. A label of ours that is also one of the target gets the
/// prefix `exported_`.
const OTHERS: [&str; 5] = ["namespace", "job", "instance", "le", "exported_namespace"];

/// Metrics that no panel has: another one says the same.
const WITHOUT_A_PANEL: [&str; 1] = ["process_virtual_memory_bytes"];

/// A query, and where it is.
fn queries() -> Vec<(String, String)> {
    let panels = panel_queries().into_iter().map(|it| (it.panel, it.query));
    let alerts = alerts().into_iter().map(|it| (it.name, it.query));
    panels.chain(alerts).collect()
}

fn check(place: &str, selector: &Selector) -> Vec<String> {
    if selector.series == "up" {
        return Vec::new();
    }
    let table = table();
    let series = &selector.series;
    let Some((_, row)) = metric_of(&table, series) else {
        return vec![format!("{place}: {series} is not in deploy/METRICS.md")];
    };
    let mut offences = Vec::new();
    for (label, _, pattern) in &selector.matchers {
        let Some(values) = row.labels.get(label) else {
            if !OTHERS.contains(&label.as_str()) {
                offences.push(format!("{place}: {series} has no label {label}"));
            }
            continue;
        };
        let is_word = |it: &&str| {
            it.bytes()
                .all(|it| it.is_ascii_alphanumeric() || it == b'_')
        };
        let unknown = pattern
            .split('|')
            .filter(is_word)
            .filter(|it| !values.is_empty() && !values.contains(*it));
        offences.extend(unknown.map(|it| format!("{place}: {series} never has {label}={it:?}")));
    }
    offences
}

#[test]
fn every_query_reads_what_the_table_lists() {
    let table = table();
    let mut offences = Vec::new();
    for (place, query) in queries() {
        let read = selectors(&query);
        assert!(!read.is_empty(), "{place}: {query} reads nothing");
        offences.extend(read.iter().flat_map(|it| check(&place, it)));
        let rows = read.iter().filter_map(|it| metric_of(&table, &it.series));
        let labels: BTreeSet<&str> = rows
            .flat_map(|(_, row)| row.labels.keys().map(String::as_str))
            .chain(OTHERS)
            .collect();
        let unknown = grouped_by(&query).into_iter();
        let unknown = unknown.filter(|label| !labels.contains(label));
        offences.extend(unknown.map(|it| format!("{place}: no metric has the label {it}")));
    }
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

#[test]
fn every_metric_is_on_a_panel() {
    let table = table();
    let queries = panel_queries();
    let read = queries.iter().flat_map(|it| selectors(&it.query));
    let shown: BTreeSet<String> = read
        .filter_map(|it| Some(metric_of(&table, &it.series)?.0.to_owned()))
        .collect();
    let hidden: Vec<&str> = table
        .keys()
        .map(String::as_str)
        .filter(|it| !shown.contains(*it))
        .collect();
    assert_eq!(hidden, WITHOUT_A_PANEL);
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    // The upper left and lower right corner.
    let corners = |panel: &serde_json::Value| {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        (x, y, x + w, y + h)
    };
    for (index, panel) in panels.iter().enumerate() {
        let (left, top, right, bottom) = corners(panel);
        assert!(right <= 24 && bottom > top, "{}", panel["title"]);
        for other in &panels[index + 1..] {
            let (other_left, other_top, other_right, other_bottom) = corners(other);
            let is_apart = right <= other_left
                || other_right <= left
                || bottom <= other_top
                || other_bottom <= top;
            assert!(is_apart, "{} covers {}", panel["title"], other["title"]);
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables: Vec<&str> = variables.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(variables, ["datasource", "namespace", "job"]);
    for query in panel_queries() {
        for selector in selectors(&query.query) {
            for variable in ["namespace", "job"] {
                let wanted = (variable.to_owned(), "=~".to_owned(), format!("${variable}"));
                assert!(selector.matchers.contains(&wanted), "{query:?}");
            }
        }
        let by = grouped_by(&query.query);
        let named = query.legend.split("{{").skip(1);
        for label in named.filter_map(|rest| Some(rest.split_once("}}")?.0)) {
            let is_there = by.contains(&label) || (by.is_empty() && label == "instance");
            assert!(is_there, "the query has no {label}: {query:?}");
        }
    }
    let sources = dashboard["panels"].to_string();
    let own = sources.matches("\"uid\":").count();
    assert_eq!(sources.matches("\"uid\":\"${datasource}\"").count(), own);
}

#[test]
fn every_alert_says_what_to_do() {
    let table = table();
    let page = fs::read_to_string(file("METRICS.md")).unwrap();
    let tests = fs::read_to_string(file("monitoring/alerts_test.yaml")).unwrap();
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = &alert.name;
        assert!(names.insert(name.clone()), "{name} twice");
        assert!(
            ["critical", "warning"].contains(&alert.severity.as_str()),
            "{name}"
        );
        let annotations: Vec<&str> = alert.annotations.keys().map(String::as_str).collect();
        assert_eq!(
            annotations,
            ["description", "runbook_url", "summary"],
            "{name}"
        );
        let link = &alert.annotations["runbook_url"];
        let (_, anchor) = link.split_once("/deploy/TROUBLESHOOTING.md#").unwrap();
        let mark = if alert.severity == "critical" {
            " (critical)"
        } else {
            ""
        };
        let row = format!("| [`{name}`](TROUBLESHOOTING.md#{anchor}){mark} | ");
        assert!(page.contains(&row), "deploy/METRICS.md lacks {row}");
        assert!(
            tests.contains(&format!("'{{alertname=\"{name}\", job=\"bad\"}}'")),
            "alerts_test.yaml does not let {name} fire"
        );
        let words = alert.annotations["description"].split([' ', ',', ':', '.', ';']);
        for word in words.filter(|word| word.starts_with("podloom_")) {
            assert!(table.contains_key(word), "{name} speaks of {word}");
        }
    }
    assert!(names.len() > 20, "{names:?}");
    let rows = page.lines().filter(|line| line.starts_with("| [`Podloom"));
    assert_eq!(rows.count(), names.len(), "METRICS.md lists other alerts");
}
