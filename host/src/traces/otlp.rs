//! OTLP over HTTP, in JSON: where steps are sent, and how they are written.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::Uri;
use axum::http::uri::Scheme;
use serde_json::{Value, json};

use super::step::{FieldValue, Step};

/// Where the receiver takes traces, below its URL.
const PATH: &str = "/v1/traces";

/// How many characters of a receiver's reason are logged.
const WHY: usize = 200;

/// A receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(pub(super) Uri);

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let example = "for example http://collector.monitoring:4318";
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("it is no URL: {error}; {example}"))?;
        if uri.scheme() == Some(&Scheme::HTTPS) {
            return Err(format!(
                "https is not supported: name a collector in the cluster, {example}"
            ));
        }
        if uri.scheme() != Some(&Scheme::HTTP) || uri.query().is_some() {
            return Err(format!(
                "it must be a URL with http and without a query, {example}"
            ));
        }
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err(format!("it must not have a password, {example}"));
        }
        let full = format!("{}{PATH}", text.trim_end_matches('/'));
        full.parse()
            .map(Self)
            .map_err(|error| format!("it is no URL: {error}; {example}"))
    }
}

/// The body of a request with these steps, by this process.
pub(super) fn body(steps: &[Step], instance: Option<&str>) -> Vec<u8> {
    let mut resource = vec![
        attribute("service.name", &text("podloom")),
        attribute("service.version", &text(env!("CARGO_PKG_VERSION"))),
    ];
    resource.extend(instance.map(|name| attribute("service.instance.id", &text(name))));
    let spans: Vec<Value> = steps.iter().map(span).collect();
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "podloom", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        }],
    }] });
    body.to_string().into_bytes()
}

/// What a receiver did not take of a request that it answered with success.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    /// How many spans.
    pub(super) spans: usize,
    /// What it says about them, in one line.
    pub(super) why: String,
}

/// Reads the answer of a receiver; an answer that is no JSON, as of those that only speak protobuf, rejects nothing.
pub(super) fn rejected(answer: &[u8]) -> Rejected {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let count = &partial["rejectedSpans"];
    // 64-bit numbers are texts in this format, but not every sender cares.
    let spans = count.as_str().and_then(|count| count.parse().ok());
    let spans = spans.or_else(|| count.as_u64()?.try_into().ok());
    let why = partial["errorMessage"].as_str().unwrap_or_default();
    let why = why.chars().filter(|letter| !letter.is_control());
    Rejected {
        spans: spans.unwrap_or(0),
        why: why.take(WHY).collect(),
    }
}

fn span(step: &Step) -> Value {
    let fields = step.fields.iter();
    let attributes = fields.map(|(name, value)| {
        let value = match value {
            FieldValue::Text(value) => text(value),
            // 64-bit numbers are texts in this format.
            FieldValue::Integer(value) => json!({ "intValue": value.to_string() }),
            FieldValue::Truth(value) => json!({ "boolValue": value }),
        };
        attribute(name, &value)
    });
    let attributes: Vec<Value> = attributes.collect();
    let status = match &step.error {
        Some(error) => json!({ "code": 2, "message": error }),
        None => json!({}),
    };
    json!({
        "traceId": step.trace.shown(),
        "spanId": step.id.shown(),
        "parentSpanId": step.parent.map(|id| id.shown()).unwrap_or_default(),
        "name": step.name,
        // Internal: neither the client nor the server of a request.
        "kind": 1,
        "startTimeUnixNano": nanoseconds(step.start),
        "endTimeUnixNano": nanoseconds(step.end),
        "attributes": attributes,
        "status": status,
    })
}

fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

fn text(value: &str) -> Value {
    json!({ "stringValue": value })
}

fn attribute(key: &str, value: &Value) -> Value {
    json!({ "key": key, "value": value })
}
