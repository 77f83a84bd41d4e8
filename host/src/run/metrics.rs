//! Metrics of duties and of the process itself, and the two text formats of metrics: OpenMetrics 1.0, and the older Prometheus format
//! that people and simple scrapers read.

use std::{fmt, fs};

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use podloom_metrics::{By, metrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Unit;

metrics! {
    /// Metrics of each enabled duty.
    pub(super) struct DutyMetrics {
        pub(super) leader: By<1, Gauge> = "leader", "1 if this replica is the leader of the duty", By::new(["duty"]);
        pub(super) missing_rights: By<1, Gauge> = "optional_rights_missing", "Optional rights of the duty that are missing; /readyz?verbose says which, and what they cost", By::new(["duty"]);
    }
}

/// Clock ticks per second in /proc. Linux uses this value on all architectures that we support.
const TICKS: f64 = 100.0;

/// Metrics under the names that all Prometheus exporters use. Without /proc there are none.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name, help, unit: Option<&Unit>, value: Option<i64>| {
            let Some(gauge) = value.map(ConstGauge::new) else {
                return Ok(());
            };
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
        };
        let bytes = Some(&Unit::Bytes);
        gauge(
            "process_resident_memory",
            "Memory in use",
            bytes,
            process_now(),
        )?;
        let space = resident("VmSize:");
        gauge(
            "process_virtual_memory",
            "Address space in use",
            bytes,
            space,
        )?;
        let files = fs::read_dir("/proc/self/fd").ok();
        let files = files.map(|files| i64::try_from(files.count()).unwrap_or(i64::MAX));
        gauge("process_open_fds", "Open files", None, files)?;
        let Some(counter) = cpu_seconds().map(ConstCounter::new) else {
            return Ok(());
        };
        let (seconds, kind) = (Some(&Unit::Seconds), counter.metric_type());
        counter.encode(encoder.encode_descriptor(
            "process_cpu",
            "Time on processors",
            seconds,
            kind,
        )?)
    }
}

/// The peak memory of the process, in bytes.
pub(super) fn process_peak() -> Option<i64> {
    resident("VmHWM:")
}

/// The current memory of the process, in bytes.
pub(super) fn process_now() -> Option<i64> {
    resident("VmRSS:")
}

/// A row of /proc/self/status, which counts in KiB.
fn resident(row: &str) -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(row))?;
    let kib: i64 = value.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The process name may contain anything, so fields are counted from behind it, where field 3 starts.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u32>().ok().map(f64::from);
    Some((ticks(14)? + ticks(15)?) / TICKS)
}

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    OpenMetrics,
    Prometheus,
}

impl MetricsFormat {
    /// Returns the format for a request: OpenMetrics where `Accept` names it and does not prefer the older one.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let accepted = |media_type| {
            let values = headers.get_all(ACCEPT).iter();
            values
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','))
                .filter_map(|range| quality(range, media_type))
                .fold(0.0, f32::max)
        };
        let open_metrics = accepted(OPEN_METRICS);
        match open_metrics > 0.0 && open_metrics >= accepted("text/plain") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a text in OpenMetrics. In the older format, type and help of a counter name the sample, with `_total`; an info is a
    /// gauge; and there is neither a unit nor a mark at the end.
    pub(super) fn of_open_metrics(self, text: String) -> String {
        if self == Self::OpenMetrics {
            return text;
        }
        let mut converted = String::with_capacity(text.len());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("# UNIT ") || line == "# EOF" {
                continue;
            }
            // A family's help comes right before its type.
            let next = lines.peek().and_then(|next| renamed(next));
            let parts = match (renamed(line), help(line), next) {
                (Some((name, suffix, kind)), ..) => ["# TYPE ", name, suffix, " ", kind],
                (None, Some((name, sentence)), Some((family, suffix, _))) if name == family => {
                    ["# HELP ", name, suffix, sentence, ""]
                }
                _ => [line, "", "", "", ""],
            };
            for part in parts {
                converted.push_str(part);
            }
            converted.push('\n');
        }
        converted
    }
}

/// The quality of a media range, if it is of this type: 1 unless it says otherwise.
fn quality(range: &str, media_type: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    let is_it = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(media_type));
    let quality = parts.find_map(|part| part.strip_prefix("q="));
    is_it.then(|| quality.map_or(1.0, |text| text.parse().unwrap_or_default()))
}

/// For the line with a family's type: its name, what its samples add to the name, and its type in the older format.
fn renamed(line: &str) -> Option<(&str, &str, &str)> {
    let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
    match kind {
        "counter" => Some((name, "_total", "counter")),
        "info" => Some((name, "_info", "gauge")),
        _ => None,
    }
}

/// The name in a line of help, and the rest of the line.
fn help(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("# HELP ")?;
    Some(rest.split_at(rest.find(' ').unwrap_or(rest.len())))
}

#[cfg(test)]
mod tests;
