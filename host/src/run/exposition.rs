//! The two text formats of metrics: OpenMetrics 1.0, and the older Prometheus format that people and simple scrapers read.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    OpenMetrics,
    Prometheus,
}

impl MetricsFormat {
    /// Returns the format for a request: OpenMetrics where `Accept` names it, as Prometheus does, else the older one.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter();
        let ranges = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        match ranges.into_iter().any(asks_for_open_metrics) {
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

    /// Converts a text in OpenMetrics. In the older format a counter's type and help name the sample, with `_total`, and there is
    /// neither a unit nor a mark at the end.
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
            let next = lines.peek().and_then(|next| counter(next));
            let (start, name) = match (counter(line), help(line)) {
                (Some(name), _) => ("# TYPE ", name),
                (None, Some(name)) if next == Some(name) => ("# HELP ", name),
                _ => ("", ""),
            };
            let end = line.strip_prefix(start).unwrap_or(line);
            let end = end.strip_prefix(name).unwrap_or(end);
            let total = if name.is_empty() { "" } else { "_total" };
            for part in [start, name, total, end, "\n"] {
                converted.push_str(part);
            }
        }
        converted
    }
}

/// Whether a media range of `Accept` is OpenMetrics, and is not excluded by a quality of zero.
fn asks_for_open_metrics(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_named = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(OPEN_METRICS));
    let quality = parts.find_map(|part| part.strip_prefix("q="));
    is_named && quality.and_then(|text| text.parse::<f32>().ok()) != Some(0.0)
}

/// The name in the line with a counter's type.
fn counter(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}

/// The name in a line of help.
fn help(line: &str) -> Option<&str> {
    line.strip_prefix("# HELP ")?.split(' ').next()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::MetricsFormat;

    fn accepted(accept: &str) -> MetricsFormat {
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_str(accept).unwrap());
        MetricsFormat::accepted(&headers)
    }

    #[test]
    fn open_metrics_is_for_those_who_name_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
        assert_eq!(accepted(prometheus), MetricsFormat::OpenMetrics);
        for other in [
            "*/*",
            "text/plain",
            "text/html, application/xml;q=0.9",
            "application/openmetrics-text; q=0, text/plain",
        ] {
            assert_eq!(accepted(other), MetricsFormat::Prometheus, "{other}");
        }
        assert_eq!(
            MetricsFormat::accepted(&HeaderMap::new()),
            MetricsFormat::Prometheus
        );
    }

    #[test]
    fn the_older_format_has_the_same_samples() {
        let text = "\
# HELP pods Pods by outcome.
# TYPE pods counter
pods_total{outcome=\"ok\"} 3
# HELP cpu_seconds Processor time.
# TYPE cpu_seconds counter
# UNIT cpu_seconds seconds
cpu_seconds_total 1.5
# HELP leader 1 if it leads.
# TYPE leader gauge
leader 1
# EOF
";
        let expected = "\
# HELP pods_total Pods by outcome.
# TYPE pods_total counter
pods_total{outcome=\"ok\"} 3
# HELP cpu_seconds_total Processor time.
# TYPE cpu_seconds_total counter
cpu_seconds_total 1.5
# HELP leader 1 if it leads.
# TYPE leader gauge
leader 1
";
        let converted = MetricsFormat::Prometheus.of_open_metrics(text.to_owned());
        assert_eq!(converted, expected);
        let same = MetricsFormat::OpenMetrics.of_open_metrics(text.to_owned());
        assert_eq!(same, text);
    }
}
