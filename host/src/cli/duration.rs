//! Durations as people write them: `90s`, `5m`, `1h30m`, `500ms`.

use std::time::Duration;

/// The units in milliseconds. `ms` must come before `m`, its prefix.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// Longer than any sensible setting: a longer duration must be a typing error.
const LONGEST: Duration = Duration::from_hours(8_784);

const ADVICE: &str = "write a number and a unit, for example 500ms, 90s, 5m or 1h30m";

/// Parses a duration.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        return Err(match text {
            "0" => "the unit is missing: write 0s".to_owned(),
            _ => format!("the unit is missing: write {text}s for seconds or {text}m for minutes"),
        });
    }
    let mut rest = text;
    let mut milliseconds = 0_u64;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let (part, unit, after) = first_part(rest).ok_or(ADVICE)?;
        if unit >= last_unit {
            return Err("write each unit once, the largest first, for example 1h30m".to_owned());
        }
        last_unit = unit;
        milliseconds = part
            .checked_mul(unit)
            .and_then(|part| milliseconds.checked_add(part))
            .ok_or("the duration is longer than a year")?;
        rest = after;
    }
    let duration = Duration::from_millis(milliseconds);
    match duration {
        _ if text.is_empty() => Err(ADVICE.to_owned()),
        _ if duration > LONGEST => Err("the duration is longer than a year".to_owned()),
        _ => Ok(duration),
    }
}

/// Parses a duration that must not be zero.
pub(super) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Splits off a number and its unit: the number, the unit's milliseconds, and the rest.
fn first_part(text: &str) -> Option<(u64, u64, &str)> {
    let digits = text.find(|char: char| !char.is_ascii_digit())?;
    let (number, rest) = text.split_at_checked(digits)?;
    let number = number.parse().ok()?;
    UNITS
        .into_iter()
        .find_map(|(name, unit)| Some((number, unit, rest.strip_prefix(name)?)))
}

#[cfg(test)]
mod tests;
