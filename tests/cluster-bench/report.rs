//! The figures, as a table for people and as JSON.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::audit::{RequestCounts, is_event, is_overhead, is_reading, is_write};
use crate::browsers::Progress;
use crate::operator::{Figures, Growth, Rest, Restart};
use crate::plane::PlaneCost;
use crate::warm::{Pool, Sessions, Start};

/// A row of the table.
pub(crate) struct Row {
    what: String,
    key: Option<&'static str>,
    value: Value,
    goal: Option<f64>,
}

/// The table.
#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    /// Adds a figure that only the table has.
    fn detail(&mut self, what: &str, value: Value) {
        self.add(what, None, value, None);
    }

    /// Adds a figure that the JSON has too.
    fn figure(&mut self, what: &str, key: &'static str, value: Value) {
        self.add(what, Some(key), value, None);
    }

    /// Adds a figure that must not be higher than its goal.
    fn goal(&mut self, what: &str, key: &'static str, value: Value, goal: f64) {
        self.add(what, Some(key), value, Some(goal));
    }

    fn add(&mut self, what: &str, key: Option<&'static str>, value: Value, goal: Option<f64>) {
        self.0.push(Row {
            what: what.to_owned(),
            key,
            value,
            goal,
        });
    }

    fn requests(&mut self, requests: &RequestCounts, browsers: usize) {
        for (request, count) in requests {
            self.detail(&format!("  {request}"), rounded(share(*count, browsers)));
        }
    }
}

/// Makes the table.
pub(crate) fn table(bare: Option<&Progress>, figures: &Figures, browsers: usize) -> Vec<Row> {
    let mut table = Table::default();
    times(&mut table, bare, &figures.progress);
    if let Some(requests) = &figures.start_requests {
        start_requests(&mut table, requests, browsers);
    }
    if let Some(requests) = &figures.all_requests {
        let events: usize = requests
            .iter()
            .filter(|(request, _)| is_event(request))
            .map(|(_, count)| count)
            .sum();
        let what = "Events per Browser that runs and is deleted";
        let events = rounded(share(events, browsers));
        table.goal(what, "events_per_browser", events, 2.0);
    }
    resources(&mut table, figures, browsers);
    control_plane(&mut table, &figures.plane, browsers);
    if let Some(growth) = &figures.growth {
        memory_growth(&mut table, growth);
    }
    rest(&mut table, &figures.rest);
    if let Some(restart) = &figures.restart {
        restarted(&mut table, restart);
    }
    let deletion = seconds(figures.deletion);
    table.figure("all deleted and gone, s", "deletion_seconds", deletion);
    if let Some(requests) = &figures.deletion_requests {
        table.requests(requests, browsers);
    }
    table.0
}

/// Makes the table of sessions with and without pods that wait.
pub(crate) fn warm(all: &[Sessions], pool: &Pool) -> Vec<Row> {
    let mut table = Table::default();
    for sessions in all {
        let (count, rate, start) = (sessions.times.len(), sessions.rate, sessions.start.name());
        let at = |what: &str| format!("{start}, {rate} a second: {what}");
        let [p50, p99] = [50, 99].map(|it| rounded(sessions.percentile(it).as_secs_f64() * 1000.0));
        match (sessions.start, rate) {
            (Start::Warm, 10) => {
                table.goal(&at("p50, ms"), "warm_p50_ms", p50, 50.0);
                table.goal(&at("p99, ms"), "warm_p99_ms", p99, 150.0);
            }
            (Start::Warm, 50) => {
                table.goal(&at("p50, ms"), "warm_busy_p50_ms", p50, 50.0);
                table.goal(&at("p99, ms"), "warm_busy_p99_ms", p99, 150.0);
            }
            (Start::Cold, 10) => {
                table.figure(&at("p50, ms"), "cold_p50_ms", p50);
                table.figure(&at("p99, ms"), "cold_p99_ms", p99);
            }
            _ => {
                table.detail(&at("p50, ms"), p50);
                table.detail(&at("p99, ms"), p99);
            }
        }
        let taken = rounded(share(sessions.taken * 100, count));
        table.detail(&at("took a pod that waited, %"), taken);
        let cpu = rounded(per(sessions.cpu.as_secs_f64() * 1000.0, count));
        table.detail(&at("operator's CPU for each, ms"), cpu);
        if let Some(requests) = &sessions.requests {
            let is_own = |request: &str| {
                let is_of_pool = sessions.start != Start::Cold
                    && (request == "create pods" || request.contains("browserconfigs"));
                !is_overhead(request) && !is_reading(request) && !is_of_pool
            };
            let own = requests.iter().filter(|(request, _)| is_own(request));
            let own = rounded(share(own.map(|(_, count)| count).sum(), count));
            let what = at("requests for each, without those of the pool and Events");
            match (sessions.start, rate) {
                (Start::Warm, 10) => table.goal(&what, "warm_requests", own, 3.0),
                _ => table.detail(&what, own),
            }
            table.requests(requests, count);
        }
    }
    let memory = rounded(kibibytes(pool.memory) / f64::from(pool.pods));
    let what = "a pool at rest: memory for each pod, KiB";
    table.goal(what, "warm_pod_kib", memory, 8.0);
    if let Some(requests) = &pool.requests {
        let writes = requests
            .iter()
            .filter(|(it, _)| is_write(it) && !is_overhead(it));
        let writes: usize = writes.map(|(_, count)| count).sum();
        table.goal(
            "a pool at rest: writes",
            "warm_rest_writes",
            json!(writes),
            0.0,
        );
    }
    table.0
}

fn times(table: &mut Table, bare: Option<&Progress>, operator: &Progress) {
    let created = seconds(operator.last_created);
    table.detail("operator: all Browser objects created, s", created);
    let pod = seconds(operator.last_pod);
    table.figure("operator: last pod created, s", "last_pod_seconds", pod);
    let running = seconds(operator.last_running);
    let what = "operator: last Running in status, s";
    table.figure(what, "last_running_seconds", running);
    let Some(bare) = bare else {
        return;
    };
    let created = seconds(bare.last_created);
    table.detail("bare client: all Browser objects created, s", created);
    let pod = seconds(bare.last_pod);
    table.detail("bare client: last pod created, s", pod);
    let what = "bare client: last Running in status, s";
    table.figure(what, "bare_client_seconds", seconds(bare.last_running));
    let ratio = operator.last_running.as_secs_f64() / bare.last_running.as_secs_f64();
    let what = "ratio of operator to bare client";
    table.goal(what, "browsers_vs_bare_client", rounded(ratio), 1.5);
}

fn start_requests(table: &mut Table, requests: &RequestCounts, browsers: usize) {
    let work: usize = requests
        .iter()
        .filter(|(request, _)| !is_overhead(request) && !is_reading(request))
        .map(|(_, count)| count)
        .sum();
    let what = "requests per Browser, creation to Running, without Events";
    let work = rounded(share(work, browsers));
    table.goal(what, "requests_per_browser", work, 4.0);
    table.requests(requests, browsers);
}

fn resources(table: &mut Table, figures: &Figures, browsers: usize) {
    let cpu = figures.running.cpu.saturating_sub(figures.ready.cpu);
    let what = "processor time from creation to Running, s";
    table.figure(what, "operator_cpu_seconds", seconds(cpu));
    let what = "processor time per Browser, creation to Running, ms";
    let each = rounded(per(cpu.as_secs_f64() * 1000.0, browsers));
    table.goal(what, "operator_cpu_ms_per_browser", each, 2.2);
    let what = "maximum memory after compiling plugins, MiB";
    let resident = mebibytes(figures.resident_max);
    table.goal(what, "operator_rss_mib", resident, 64.0);
    let what = "of it when all run, without pages of files, MiB";
    let anonymous = mebibytes(figures.running.anonymous);
    table.figure(what, "operator_anon_mib", anonymous);
    let what = "maximum memory while compiling plugins, MiB";
    table.figure(what, "compile_peak_mib", mebibytes(figures.ready.peak));
}

/// What the control plane needed for the same Browsers, to see what saturates first.
fn control_plane(table: &mut Table, plane: &[PlaneCost], browsers: usize) {
    for cost in plane {
        let name = cost.program.name();
        let each = rounded(per(cost.cpu.as_secs_f64() * 1000.0, browsers));
        table.detail(&format!("{name}: processor time per Browser, ms"), each);
        let resident = mebibytes(cost.resident);
        table.detail(&format!("{name}: memory when all run, MiB"), resident);
    }
}

fn memory_growth(table: &mut Table, growth: &Growth) {
    let what = format!("memory for each of {} more Browsers, KiB", growth.browsers);
    let grown = growth.after.saturating_sub(growth.before);
    let each = rounded(per(kibibytes(grown), growth.browsers));
    table.goal(&what, "rss_kib_per_browser", each, 8.0);
}

fn rest(table: &mut Table, rest: &Rest) {
    if let Some(requests) = &rest.requests {
        let writes: usize = requests
            .iter()
            .filter(|(request, _)| is_write(request) && !is_overhead(request))
            .map(|(_, count)| count)
            .sum();
        let time = rest.time.as_secs();
        let what = format!("writes in {time} s at rest, without the Lease");
        table.goal(&what, "rest_writes", json!(writes), 0.0);
        for (request, count) in requests {
            table.detail(&format!("  {request}"), json!(count));
        }
    }
    let what = "processor time at rest, s";
    table.figure(what, "rest_cpu_seconds", seconds(rest.cpu));
    let time = rest.time.as_secs_f64();
    let percent = rounded(rest.cpu.as_secs_f64() / time * 100.0);
    let what = "processor time at rest, percent of a core";
    table.goal(what, "rest_cpu_percent", percent, 0.1);
    let wakeups = rounded(count(rest.wakeups) / time);
    let what = "wake-ups a second at rest";
    table.goal(what, "rest_wakeups", wakeups, 20.0);
}

fn restarted(table: &mut Table, restart: &Restart) {
    let what = "killed and started again, until ready, s";
    table.figure(what, "restart_seconds", seconds(restart.time));
    let what = "processor time of that start, the Lease, and one look at all, s";
    table.figure(what, "restart_cpu_seconds", seconds(restart.cpu));
    let what = "memory afterwards, MiB";
    table.figure(what, "restart_rss_mib", mebibytes(restart.resident));
    if let Some((cpu, memory)) = restart.api_server {
        let what = "API server: processor time of that start, s";
        table.figure(what, "restart_api_server_cpu_seconds", seconds(cpu));
        let what = "API server: more memory at most, MiB";
        table.figure(what, "restart_api_server_mib", mebibytes(memory));
    }
    for (request, count) in restart.requests.iter().flatten() {
        table.detail(&format!("  {request}"), json!(count));
    }
}

/// Prints the table to standard error, like the progress.
pub(crate) fn print(lines: &[Row]) {
    eprintln!(
        "\n{:<58} {:<24} {:>9} {:>12}",
        "what", "key", "measured", "goal"
    );
    for line in lines {
        let goal = line
            .goal
            .map(|goal| format!("at most {goal}"))
            .unwrap_or_default();
        let missed = match (line.goal, line.value.as_f64()) {
            (Some(goal), Some(value)) if value > goal => "  MISSED",
            _ => "",
        };
        let key = line.key.unwrap_or_default();
        eprintln!(
            "{:<58} {key:<24} {:>9} {goal:>12}{missed}",
            line.what,
            line.value.to_string()
        );
    }
}

/// Writes the figures that have a key.
pub(crate) fn write(lines: &[Row], path: &Path) -> Result<()> {
    let object: Map<String, Value> = lines
        .iter()
        .filter_map(|line| Some((line.key?.to_owned(), line.value.clone())))
        .collect();
    let text = serde_json::to_string_pretty(&object)? + "\n";
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and bytes are far below 2^52"
)]
fn count(number: u64) -> f64 {
    number as f64
}

fn share(number: usize, browsers: usize) -> f64 {
    per(count(number as u64), browsers)
}

fn per(amount: f64, browsers: usize) -> f64 {
    amount / count(browsers as u64)
}

fn kibibytes(bytes: u64) -> f64 {
    count(bytes) / 1024.0
}

fn mebibytes(bytes: u64) -> Value {
    rounded(kibibytes(bytes) / 1024.0)
}

fn seconds(time: Duration) -> Value {
    rounded(time.as_secs_f64())
}

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}
