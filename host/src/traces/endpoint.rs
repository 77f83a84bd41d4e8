//! The URL of a receiver of traces.

use axum::http::Uri;
use axum::http::uri::Scheme;

/// Where the receiver takes traces, below its URL.
const PATH: &str = "/v1/traces";

/// Parses the URL of a receiver; returns where it takes traces.
///
/// # Errors
///
/// What to write instead.
pub(crate) fn endpoint(text: &str) -> Result<Uri, String> {
    checked(text)?;
    checked(&format!("{}{PATH}", text.trim_end_matches('/')))
}

/// Parses the whole URL at which a receiver takes traces.
pub(super) fn checked(text: &str) -> Result<Uri, String> {
    let example = "for example http://collector.monitoring:4318";
    let parsed: Result<Uri, _> = text.parse();
    let uri = parsed.map_err(|error| format!("it is no URL: {error}; {example}"))?;
    let is_http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&uri.scheme());
    let wrong = if !is_http || uri.query().is_some() {
        "it must be a URL with http or https and without a query"
    } else if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
        "it must not have a password"
    } else {
        return Ok(uri);
    };
    Err(format!("{wrong}, {example}"))
}
