use std::time::Duration;

use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{DurationError, LONGEST, parse, print};

/// Reads a text, and prints what was read.
#[track_caller]
fn check(text: &str, expected: Result<&str, DurationError>) {
    let read = parse(text).map(print);
    assert_eq!(
        read.as_deref().map_err(|error| *error),
        expected,
        "{text:?}"
    );
}

#[test]
fn numbers_with_units_are_durations() {
    for (text, printed) in [
        ("0", "0"),
        ("0s", "0"),
        ("0.0h", "0"),
        ("360h", "360h"),
        ("5m", "5m"),
        ("1.5h", "1h30m"),
        (".5h", "30m"),
        ("1.h", "1h"),
        ("2d", "48h"),
        ("1w2d3h", "219h"),
        ("0.5w", "84h"),
        ("90s", "1m30s"),
        ("1h1h", "2h"),
        ("1s1h", "1h1s"),
        ("007m", "7m"),
        ("1500ms", "1s500ms"),
        ("1us", "1us"),
        ("1\u{b5}s", "1us"),
        ("1\u{3bc}s", "1us"),
        ("1ns", "1ns"),
        ("0.000000001s", "1ns"),
    ] {
        check(text, Ok(printed));
    }
}

#[test]
fn everything_else_is_none() {
    for text in [
        "", " ", "360", "00", "-1h", "+1h", "-0", "1 day", "1day", "1 h", " 1h", "1h ", "1h\n",
        "h", ".", ".h", "1..5h", "1.5.5h", "1,5h", "1e3s", "1H", "1M", "1y", "1hm", "1h30",
        "1h-1m", "\u{661}h", "0x1h", "P1D", "PT1H", "1\u{b5}", "infinity", "NaN",
    ] {
        check(text, Err(DurationError::Syntax));
    }
}

#[test]
fn what_is_shorter_than_a_nanosecond_is_dropped() {
    check("0.9ns", Ok("0"));
    check("1.9ns", Ok("1ns"));
    check(
        "0.33333333333333333333333333333333333333333333333333s",
        Ok("333ms333us333ns"),
    );
    check(
        "0.99999999999999999999999999999999999999999999999999ns",
        Ok("0"),
    );
    check(&format!("0.{}s", "9".repeat(10_000)), Ok("999ms999us999ns"));
}

/// Go's limit: the number of nanoseconds fits in a signed integer of 64 bits.
#[test]
fn more_than_292_years_are_too_long() {
    check("9223372036854775807ns", Ok("2562047h47m16s854ms775us807ns"));
    check(
        "2562047h47m16.854775807s",
        Ok("2562047h47m16s854ms775us807ns"),
    );
    for text in [
        "9223372036854775808ns",
        "2562047h47m16.854775808s",
        "2562048h",
        "106752d",
        "15251w",
        "18446744073709551616ns",
        "99999999999999999999999999999999999999999w",
        "9223372036854775807ns1ns",
        "18446744073709551615ns1ns",
    ] {
        check(text, Err(DurationError::TooLong));
    }
    check(
        &format!("{}h", "9".repeat(10_000)),
        Err(DurationError::TooLong),
    );
    check(&format!("{}h", "0".repeat(10_000)), Ok("0"));
    check("99999999999999999999w1", Err(DurationError::Syntax));
}

#[test]
fn errors_say_what_to_write() {
    let error = parse("1 day").unwrap_err();
    assert!(error.to_string().contains("such as 90s"), "{error}");
    let error = parse("300y300w").unwrap_err();
    assert_eq!(error, DurationError::Syntax);
    let error = parse("300000w").unwrap_err();
    assert!(error.to_string().contains("292 years"), "{error}");
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(nanoseconds in any::<i64>()) {
        let duration = Duration::from_nanos(nanoseconds.unsigned_abs()).min(LONGEST);
        prop_assert_eq!(parse(&print(duration)), Ok(duration));
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC*|[0-9.]{0,40}(ns|us|ms|[smhdw\u{b5}]){0,2}[0-9.]{0,40}[hw]") {
        if let Ok(duration) = parse(&text) {
            prop_assert_eq!(parse(&print(duration)), Ok(duration));
        }
    }
}
