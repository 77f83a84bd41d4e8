//! When a sink wants to be asked again: the header `Retry-After`. Pure.

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The three forms of a date in HTTP; servers write the first, and clients must read all.
const DATES: [&str; 3] = [
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %e %H:%M:%S %Y",
];

/// Returns how long a sink wants to be left alone, if it says so. A date counts from the one of the answer, so it does not matter if its
/// clock differs from ours; from `now` if the answer has none.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large for us is a long time.
        return Some(value.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let until = date(value)?;
    let from = text(headers, &DATE).and_then(date).unwrap_or(now);
    // A date that has passed is no wait.
    Some(Duration::try_from(until.duration_since(from)).unwrap_or_default())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn date(text: &str) -> Option<Timestamp> {
    let date = DATES
        .iter()
        .find_map(|form| DateTime::strptime(form, text).ok())?;
    let date = date.to_zoned(TimeZone::UTC).ok()?;
    Some(date.timestamp())
}

#[cfg(test)]
mod tests;
