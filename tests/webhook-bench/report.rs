//! The figures, as tables for people and as JSON.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Measured>,
    goals: Vec<Reached>,
}

/// A row of the table.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) chain: String,
    pub(crate) connections: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// What a load measured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) requests_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    max_ms: f64,
    pub(crate) failures: usize,
    /// The server's processor time for each request; none if its process is not known.
    pub(crate) cpu_ms: Option<f64>,
}

/// What a figure is to be at most, if anything.
pub(crate) struct Goal {
    pub(crate) key: &'static str,
    pub(crate) what: &'static str,
    pub(crate) most: Option<f64>,
}

/// A goal, what was reached, and what it is compared with: a figure of the same run.
struct Reached {
    goal: &'static Goal,
    value: f64,
    against: Option<f64>,
}

impl Figures {
    pub(crate) fn of(
        mut latencies: Vec<Duration>,
        failures: usize,
        took: Duration,
        cpu: Option<Duration>,
    ) -> Self {
        latencies.sort_unstable();
        let at = |share: f64| {
            let index = (count(latencies.len()) * share) as usize;
            let latency = latencies.get(index.min(latencies.len().saturating_sub(1)));
            milliseconds(latency.copied().unwrap_or_default())
        };
        let requests = count(latencies.len().max(1));
        Self {
            requests_per_second: (requests / took.as_secs_f64()).round(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
            failures,
            cpu_ms: cpu.map(|cpu| rounded(cpu.as_secs_f64() * 1000.0 / requests)),
        }
    }
}

pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

fn milliseconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1000.0)
}

pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

impl Reached {
    fn ratio(&self) -> Option<f64> {
        self.against.map(|against| rounded(self.value / against))
    }
}

impl Report {
    /// The figures of a row, by its chain and connections.
    pub(crate) fn row(&self, chain: &str, connections: usize) -> Option<&Figures> {
        let is_it = |row: &&Measured| row.chain == chain && row.connections == connections;
        Some(&self.rows.iter().find(is_it)?.figures)
    }

    pub(crate) fn reached(&mut self, goal: &'static Goal, value: f64, against: Option<f64>) {
        self.goals.push(Reached {
            goal,
            value,
            against,
        });
    }

    pub(crate) fn print(&self) {
        eprintln!(
            "\n{:<52} connections requests/s     p50 ms     p99 ms   p99.9 ms     max ms     failed CPU ms each",
            "chain"
        );
        for row in &self.rows {
            let it = &row.figures;
            let latencies =
                [it.p50_ms, it.p99_ms, it.p999_ms, it.max_ms].map(|ms| format!("{ms:>11}"));
            eprintln!(
                "{:<52} {:>11}{:>11}{} {:>10} {:>11}",
                row.chain,
                row.connections,
                it.requests_per_second,
                latencies.concat(),
                it.failures,
                or_dash(it.cpu_ms)
            );
        }
        if self.goals.is_empty() {
            return;
        }
        eprintln!(
            "\n{:<50} {:<26} {:>8} {:>8} {:>8} {:>6}",
            "what", "key", "reached", "at most", "against", "ratio"
        );
        for reached in &self.goals {
            let Goal { key, what, most } = reached.goal;
            let is_missed = most.is_some_and(|most| reached.value > most);
            let verdict = if is_missed { "  MISSED" } else { "" };
            let [most, against, ratio] = [*most, reached.against, reached.ratio()].map(or_dash);
            eprintln!(
                "{what:<50} {key:<26} {:>8} {most:>8} {against:>8} {ratio:>6}{verdict}",
                reached.value
            );
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let mut object = json!({ "rows": self.rows, "ratios": {} });
        for reached in &self.goals {
            object[reached.goal.key] = json!(reached.value);
            object["ratios"][reached.goal.key] = json!(reached.ratio());
        }
        let text = serde_json::to_string_pretty(&object)? + "\n";
        fs::write(path, text).with_context(|| path.display().to_string())
    }
}

fn or_dash(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
