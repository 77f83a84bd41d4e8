use std::time::Duration;

use super::{parse, parse_positive};

#[track_caller]
fn check(text: &str, expected: Result<u64, &str>) {
    let found = parse(text).map(|duration| u64::try_from(duration.as_millis()).expect("short"));
    assert_eq!(
        found.as_ref().copied().map_err(String::as_str),
        expected,
        "{text}"
    );
}

#[test]
fn durations_are_numbers_with_units() {
    for (text, milliseconds) in [
        ("0s", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1h30m15s250ms", 5_415_250),
        ("2m500ms", 120_500),
        ("007s", 7_000),
    ] {
        check(text, Ok(milliseconds));
    }
}

#[test]
fn a_wrong_duration_says_what_to_write() {
    let advice = "write a number and a unit, for example 500ms, 90s, 5m or 1h30m";
    for text in [
        "", "s", "-5s", "5 m", "five", "5d", "1.5h", "5m ", "5µs", "5mss",
    ] {
        check(text, Err(advice));
    }
    check("0", Err("the unit is missing: write 0s"));
    check(
        "5",
        Err("the unit is missing: write 5s for seconds or 5m for minutes"),
    );
    for text in ["30m1h", "1m1m", "1ms1s"] {
        check(
            text,
            Err("write each unit once, the largest first, for example 1h30m"),
        );
    }
    check(
        "18446744073709551615h",
        Err("the duration is longer than a year"),
    );
    check("9000h", Err("the duration is longer than a year"));
}

#[test]
fn some_durations_must_not_be_zero() {
    assert_eq!(parse_positive("1ms"), Ok(Duration::from_millis(1)));
    assert_eq!(
        parse_positive("0m").unwrap_err(),
        "it must be longer than 0"
    );
}
