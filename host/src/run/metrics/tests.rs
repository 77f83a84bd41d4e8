use axum::http::{HeaderMap, HeaderValue};

use super::MetricsFormat;

fn accepted(accept: &str) -> MetricsFormat {
    let mut headers = HeaderMap::new();
    headers.insert("accept", HeaderValue::from_str(accept).unwrap());
    MetricsFormat::accepted(&headers)
}

#[test]
fn open_metrics_is_for_those_who_name_it() {
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
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
