//! The figures, as a table for people and as JSON.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// A row of the table.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) connections: usize,
    pub(crate) figures: Figures,
}

/// What a load measured.
pub(crate) struct Figures {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// The server's processor time for each request; none if its process is not known.
    cpu_ms: Option<f64>,
}

/// What the processor time of one review is to be at most, with three plugins over TLS.
const GOAL: f64 = 0.15;

impl Figures {
    pub(crate) fn of(mut latencies: Vec<Duration>, took: Duration, cpu: Option<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |share: f64| {
            let index = (count(latencies.len()) * share) as usize;
            let latency = latencies.get(index.min(latencies.len().saturating_sub(1)));
            milliseconds(latency.copied().unwrap_or_default())
        };
        let requests = count(latencies.len().max(1));
        Self {
            per_second: (requests / took.as_secs_f64()).round(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            cpu_ms: cpu.map(|cpu| rounded(cpu.as_secs_f64() * 1000.0 / requests)),
        }
    }
}

fn count(number: usize) -> f64 {
    number as f64
}

fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0)
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

pub(crate) fn print(rows: &[Measured]) {
    eprintln!(
        "\n{:<28} {:>11} {:>10} {:>8} {:>8} {:>11}",
        "chain", "connections", "requests/s", "p50 ms", "p99 ms", "CPU ms each"
    );
    for Measured {
        name,
        connections,
        figures,
    } in rows
    {
        let cpu = figures
            .cpu_ms
            .map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        eprintln!(
            "{name:<28} {connections:>11} {:>10} {:>8} {:>8} {cpu:>11}",
            figures.per_second, figures.p50_ms, figures.p99_ms
        );
    }
    if let Some(cpu) = webhook_cpu(rows) {
        let verdict = if cpu <= GOAL { "" } else { "  MISSED" };
        eprintln!("\nwebhook_cpu_ms: {cpu}, goal at most {GOAL}{verdict}");
    }
}

/// The figure of the first row with the most connections that is not alone: the three plugins over TLS, under load.
fn webhook_cpu(rows: &[Measured]) -> Option<f64> {
    let first = &rows.first()?.name;
    let same = rows.iter().filter(|row| row.name == *first);
    same.max_by_key(|row| row.connections)?.figures.cpu_ms
}

pub(crate) fn write(rows: &[Measured], path: &Path) -> Result<()> {
    let mut object = Map::new();
    if let Some(cpu) = webhook_cpu(rows) {
        object.insert("webhook_cpu_ms".to_owned(), json!(cpu));
    }
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "chain": row.name,
                "connections": row.connections,
                "requestsPerSecond": row.figures.per_second,
                "p50Ms": row.figures.p50_ms,
                "p99Ms": row.figures.p99_ms,
                "cpuMs": row.figures.cpu_ms,
            })
        })
        .collect();
    object.insert("rows".to_owned(), rows.into());
    let text = serde_json::to_string_pretty(&object)? + "\n";
    fs::write(path, text).with_context(|| path.display().to_string())
}
