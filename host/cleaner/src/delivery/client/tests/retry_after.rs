use http::HeaderValue;

use super::super::*;

/// What is said by a sink with these headers, at 08:49:07 on our clock.
fn said(retry_after: &str, date: Option<&str>) -> Option<u64> {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_str(retry_after).unwrap());
    if let Some(date) = date {
        headers.insert(DATE, HeaderValue::from_str(date).unwrap());
    }
    let now = "1994-11-06T08:49:07Z".parse().unwrap();
    super::super::retry_after(&headers, now).map(|wait| wait.as_secs())
}

#[test]
fn seconds_are_read() {
    assert_eq!(said("120", None), Some(120));
    assert_eq!(said("0", None), Some(0));
    assert_eq!(said(" 7 ", None), Some(7));
    assert_eq!(said("99999999999999999999999", None), Some(u64::MAX));
}

#[test]
fn all_forms_of_dates_are_read() {
    for date in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        assert_eq!(said(date, None), Some(30), "{date}");
    }
}

#[test]
fn a_date_counts_from_the_clock_of_the_sink() {
    let until = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(said(until, Some("Sun, 06 Nov 1994 08:49:27 GMT")), Some(10));
    assert_eq!(said(until, Some("nonsense")), Some(30));
}

#[test]
fn a_date_that_has_passed_is_no_wait() {
    assert_eq!(said("Sun, 06 Nov 1994 08:00:00 GMT", None), Some(0));
}

#[test]
fn nonsense_is_ignored() {
    for text in [
        "",
        "soon",
        "-1",
        "1.5",
        "+3",
        "1e3",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Mon, 06 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(said(text, None), None, "{text}");
    }
    assert_eq!(
        super::super::retry_after(&HeaderMap::new(), Timestamp::UNIX_EPOCH),
        None
    );
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_bytes(b"\xff").unwrap());
    assert_eq!(
        super::super::retry_after(&headers, Timestamp::UNIX_EPOCH),
        None
    );
}
