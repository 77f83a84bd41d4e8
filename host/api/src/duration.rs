//! Durations as Go writes them, with days and weeks: `360h`, `1.5h`, `1w2d3h`.
//!
//! Objects keep them as text, so that one that cannot be parsed spoils nothing but its own object.

use std::time::Duration;

/// The longest duration that is accepted, and the longest that Go has: about 292 years.
pub const LONGEST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// How many characters a duration in a spec may have.
pub(crate) const CHARACTERS: usize = 64;

/// What a duration looks like. It says nothing about how long it may be: that, only [`parse`] knows.
pub(crate) const PATTERN: &str = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w))+)$";

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The units that are printed, the longest first, with their nanoseconds. Days and weeks are only read: `kubectl` and Go print
/// hours.
const PRINTED: [(&str, u64); 6] = [
    ("h", HOUR),
    ("m", MINUTE),
    ("s", SECOND),
    ("ms", MILLISECOND),
    ("us", MICROSECOND),
    ("ns", 1),
];

/// More digits after the point than these are less than a nanosecond, whatever the unit is.
const FRACTION_DIGITS: usize = 18;

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DurationError {
    /// It is not written like one.
    #[error(
        "this is no duration; write numbers with units, such as 90s, 1.5h, 360h or 1w2d (units: ns, us, ms, s, m, h, d, w)"
    )]
    Syntax,
    /// It is longer than [`LONGEST`].
    #[error("the duration is longer than 292 years, use a shorter one")]
    TooLong,
}

/// Reads a duration: `0`, or numbers with units, each number with or without decimals. It is never negative.
///
/// A day has 24 hours and a week 7 days. What is shorter than a nanosecond is dropped.
///
/// ```
/// use std::time::Duration;
///
/// use podloom_api::duration::{DurationError, parse};
///
/// assert_eq!(parse("1.5h"), Ok(Duration::from_secs(5400)));
/// assert_eq!(parse("1w2d3h"), parse("219h"));
/// assert_eq!(parse("360"), Err(DurationError::Syntax));
/// assert_eq!(parse("300000w"), Err(DurationError::TooLong));
/// ```
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    // None once it is too long: the rest is still read, so that a text that is no duration is never called a long one.
    let mut total = Some(0_u64);
    loop {
        let (nanoseconds, after) = first_part(rest).ok_or(DurationError::Syntax)?;
        total = total
            .zip(nanoseconds)
            .and_then(|(sum, more)| sum.checked_add(more));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    total
        .map(Duration::from_nanos)
        .filter(|total| *total <= LONGEST)
        .ok_or(DurationError::TooLong)
}

/// Reads the first number with its unit, and returns what follows. The number of nanoseconds is none if it is too large.
fn first_part(text: &str) -> Option<(Option<u64>, &str)> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = nanoseconds(unit)?;
    let whole = digits(whole).and_then(|number| number.checked_mul(unit));
    Some((
        whole.and_then(|it| it.checked_add(part_of(fraction, unit))),
        rest,
    ))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The number of nanoseconds of a unit.
fn nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Unicode has two such letters: the micro sign, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return None,
    })
}

/// The number that these digits are, if it is small enough.
fn digits(text: &str) -> Option<u64> {
    text.bytes().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// This part of a unit, in nanoseconds. It is less than the unit.
fn part_of(fraction: &str, unit: u64) -> u64 {
    let mut scale = 1_u128;
    let mut number = 0_u128;
    for digit in fraction.bytes().take(FRACTION_DIGITS) {
        scale *= 10;
        number = number * 10 + u128::from(digit - b'0');
    }
    u64::try_from(number * u128::from(unit) / scale).unwrap_or(unit)
}

/// Writes a duration such that [`parse`] reads the same again, in hours and smaller units.
///
/// ```
/// use podloom_api::duration::{parse, print};
///
/// assert_eq!(parse("1w1.5h").map(print).as_deref(), Ok("169h30m"));
/// ```
pub fn print(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (unit, nanoseconds) in PRINTED {
        let nanoseconds = u128::from(nanoseconds);
        if rest >= nanoseconds {
            text += &format!("{}{unit}", rest / nanoseconds);
            rest %= nanoseconds;
        }
    }
    match text.is_empty() {
        true => "0".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
