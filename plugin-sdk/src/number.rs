//! Prints floating-point numbers.

/// Returns a number as text, rounded to at most so many decimal places (9 are the most), without zeros at its end; `None` if
/// it is not finite, or 10^18 or larger.
///
/// Printing a `f64` with `format!` or `serde_json` adds 46 KiB to a plugin, since that finds the shortest text for any number.
/// This is a few lines. The text is JSON, so [`Pod::set_json`](crate::Pod::set_json) takes it.
///
/// ```
/// use podloom_plugin_sdk::decimal;
///
/// assert_eq!(decimal(0.1 + 0.2, 3).as_deref(), Some("0.3"));
/// assert_eq!(decimal(-2.0 / 3.0, 2).as_deref(), Some("-0.67"));
/// assert_eq!(decimal(1e6, 2).as_deref(), Some("1000000"));
/// assert_eq!(decimal(f64::NAN, 2), None);
/// ```
#[must_use]
pub fn decimal(number: f64, places: u32) -> Option<String> {
    if !number.is_finite() || number.abs() >= 1e18 {
        return None;
    }
    let mut scale = 10_u64.pow(places.min(9));
    let mut whole = number.abs().trunc() as u64;
    // The part after the point is exact, so only its product is rounded.
    let mut part = (number.abs().fract() * scale as f64).round() as u64;
    if part == scale {
        whole += 1;
        part = 0;
    }
    let sign = if number < 0.0 && (whole, part) != (0, 0) {
        "-"
    } else {
        ""
    };
    let mut text = format!("{sign}{whole}");
    if part > 0 {
        text.push('.');
    }
    while part > 0 {
        scale /= 10;
        let digit = (part / scale) as u8;
        text.push(char::from(b'0' + digit));
        part %= scale;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[track_caller]
    fn check(number: f64, places: u32, expected: &str) {
        assert_eq!(decimal(number, places).as_deref(), Some(expected));
    }

    #[test]
    fn numbers_are_rounded_to_their_places() {
        check(0.0, 3, "0");
        check(-0.0, 3, "0");
        check(-0.0001, 3, "0");
        check(0.25, 3, "0.25");
        check(0.25, 1, "0.3");
        check(1.05, 9, "1.05");
        check(0.999_999, 3, "1");
        check(9.999, 0, "10");
        check(0.000_000_001, 20, "0.000000001");
        check(123_456_789.125, 2, "123456789.13");
        check(-999_999_999_999_999_900.0, 9, "-999999999999999872");
    }

    #[test]
    fn what_has_no_short_text_is_refused() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e18, -1e300] {
            assert_eq!(decimal(number, 2), None);
        }
    }

    #[test]
    fn every_hundredth_is_printed_as_the_standard_library_does() {
        for hundredths in -10_000..10_000 {
            let number = f64::from(hundredths) / 100.0;
            let expected = format!("{number}");
            let expected = if hundredths == 0 { "0" } else { &expected };
            check(number, 2, expected);
        }
    }
}
