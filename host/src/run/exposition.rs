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
            "text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.1",
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
# HELP build The version.
# TYPE build info
build_info{version=\"1\"} 1
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
# HELP build_info The version.
# TYPE build_info gauge
build_info{version=\"1\"} 1
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
