//! deploy/METRICS.md lists what an operator with everything switched on can serve, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kube::Config;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::arguments;
use crate::run::wiring::operator;
use crate::traces;

/// All duties, and everything that brings metrics of its own.
const EVERYTHING: [&str; 17] = [
    "--controllers",
    "browser,portal,infrastructure,cleaner,rollout",
    "--webhook",
    "127.0.0.1:0",
    "--webhook-drift-interval",
    "5m",
    "--webhook-gate",
    "--webhook-heal",
    "--webhook-reports=openreports.io",
    "--plugins",
    "/nowhere",
    "--candidate",
    "/nowhere-else",
    "--lease-namespace",
    "home",
    "--pod-namespace",
    "home",
];

/// What the page says of a metric.
struct Row {
    kind: String,
    /// The labels, with their values where the page lists them.
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// The rows of the table, by the name under which Prometheus shows the metric. A histogram has its name without a suffix.
fn table() -> BTreeMap<String, Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/METRICS.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, meaning, served, _] = cells[..] else {
            continue;
        };
        let Some(name) = name.strip_prefix('`').and_then(|it| it.strip_suffix('`')) else {
            continue;
        };
        assert!(!meaning.is_empty() && !served.is_empty(), "{line}");
        let row = Row {
            kind: kind.to_owned(),
            labels: labels.split("<br>").filter_map(label).collect(),
        };
        assert!(rows.insert(name.to_owned(), row).is_none(), "{name} twice");
    }
    rows
}

/// A label of a cell: its name is the first code in it, and its values are all others.
fn label(text: &str) -> Option<(String, BTreeSet<String>)> {
    let mut code = text.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((code.next()?, code.collect()))
}

/// The names of everything in a registry, as Prometheus knows them but for the endings of their types. Its text has only those with
/// a sample, so the others are read from what it is for `Debug`.
fn registered(registry: &Registry) -> BTreeSet<String> {
    let shown = format!("{registry:?}");
    let descriptors = shown.split("Descriptor { name: \"").skip(1).map(|rest| {
        let (name, rest) = rest.split_once('"').expect("a name");
        let (_, unit) = rest.split_once("unit: ").expect("a unit");
        let unit = unit.strip_prefix("Some(").and_then(|it| it.split_once(')'));
        let unit = unit.map(|(unit, _)| format!("_{}", unit.to_lowercase()));
        format!("podloom_{name}{}", unit.unwrap_or_default())
    });
    descriptors.chain(types(registry).into_keys()).collect()
}

/// The types in a registry's text, by name without the ending of the type.
fn types(registry: &Registry) -> BTreeMap<String, String> {
    let encoded = encoded(registry);
    let types = encoded
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let types = types.filter_map(|line| line.split_once(' '));
    types
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

fn encoded(registry: &Registry) -> String {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry).expect("encoded");
    encoded
}

/// A name without the ending that its type adds to it.
fn stem<'a>(name: &'a str, kind: &str) -> &'a str {
    let ending = match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    name.strip_suffix(ending)
        .unwrap_or_else(|| panic!("{name} is a {kind} and does not end in {ending}"))
}

/// The labels of a sample, without the bound of a bucket.
fn labels(sample: &str) -> BTreeMap<&str, &str> {
    let inside = sample
        .split_once('{')
        .and_then(|(_, it)| it.rsplit_once('}'));
    let pairs = inside.map_or("", |(inside, _)| inside).split("\",");
    let pairs = pairs.filter_map(|pair| pair.trim_end_matches('"').split_once("=\""));
    pairs.filter(|(label, _)| *label != "le").collect()
}

#[tokio::test]
async fn every_metric_is_in_the_table_and_no_other() {
    let config = Config::new("http://127.0.0.1:9".parse().expect("a URL"));
    let (_, exporter) = traces::to("http://127.0.0.1:9".parse().expect("a receiver")).unwrap();
    let (operator, _loading) = operator(
        &config,
        &arguments(&EVERYTHING),
        &CancellationToken::new(),
        Some(&exporter),
    )
    .expect("an operator");
    let registry = &*operator.registry;
    let table = table();
    let listed: BTreeSet<String> = table
        .iter()
        .map(|(name, row)| stem(name, &row.kind).to_owned())
        .collect();
    let registered = registered(registry);
    let unlisted: Vec<&String> = registered.difference(&listed).collect();
    assert!(unlisted.is_empty(), "deploy/METRICS.md lacks {unlisted:?}");
    let unknown: Vec<&String> = listed.difference(&registered).collect();
    assert!(unknown.is_empty(), "only in deploy/METRICS.md: {unknown:?}");

    let types = types(registry);
    let encoded = encoded(registry);
    for (name, row) in &table {
        let stem = stem(name, &row.kind);
        if types.get(stem).is_some_and(|kind| *kind != row.kind) {
            panic!("{name} is a {}, not a {}", types[stem], row.kind);
        }
        let endings = ["", "_total", "_info", "_bucket", "_sum", "_count"];
        let is_its = |line: &&str| {
            let sample = line.split(['{', ' ']).next().unwrap_or_default();
            endings
                .iter()
                .any(|ending| sample.strip_suffix(ending) == Some(stem))
        };
        for sample in encoded.lines().filter(is_its) {
            let found = labels(sample);
            let names: BTreeSet<&str> = found.keys().copied().collect();
            let expected: BTreeSet<&str> = row.labels.keys().map(String::as_str).collect();
            assert_eq!(names, expected, "the labels of {name}");
            for (label, value) in found {
                let known = &row.labels[label];
                assert!(
                    known.is_empty() || known.contains(value),
                    "{name} has {label}={value:?}, which deploy/METRICS.md does not list"
                );
            }
        }
    }
}
