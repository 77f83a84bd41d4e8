//! What to write instead of texts that CEL does not read, such as `7d` for a duration.

use chrono::DateTime;

/// Units that people write, and how many seconds each has.
const UNITS: [(&[&str], f64); 5] = [
    (&["w", "week", "weeks"], 604_800.0),
    (&["d", "day", "days"], 86_400.0),
    (&["h", "hr", "hrs", "hour", "hours"], 3600.0),
    (&["m", "min", "mins", "minute", "minutes"], 60.0),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
];
/// The units that CEL reads.
const OF_CEL: [&str; 6] = ["h", "m", "s", "ms", "us", "ns"];
/// The most seconds that are converted: a larger number might not be exact.
const SECONDS_MAX: f64 = 1e15;

/// Whether CEL reads all of a text as a duration. `cel` stops where it cannot go on: for it, `1h2d` is an hour.
pub(crate) fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    text == "0" || parts(text).is_some_and(|parts| parts.iter().all(|(_, it)| OF_CEL.contains(it)))
}

/// A duration as CEL reads it; `None` if nobody knows what the text means.
pub(crate) fn duration(text: &str) -> Option<String> {
    let mut seconds = 0.0;
    for (number, unit) in parts(text.trim())? {
        let unit = unit.to_ascii_lowercase();
        let (_, of_unit) = UNITS.iter().find(|(names, _)| names.contains(&&*unit))?;
        seconds += number * of_unit;
    }
    if !(1.0..SECONDS_MAX).contains(&seconds) || seconds.fract() != 0.0 {
        return None;
    }
    let part = |count: f64, unit| {
        if count > 0.0 {
            format!("{count}{unit}")
        } else {
            String::new()
        }
    };
    let (hours, minutes) = (
        (seconds / 3600.0).trunc(),
        (seconds % 3600.0 / 60.0).trunc(),
    );
    Some(part(hours, "h") + &part(minutes, "m") + &part(seconds % 60.0, "s"))
}

/// Numbers and the units behind them; `None` if there is anything else in the text.
fn parts(mut text: &str) -> Option<Vec<(f64, &str)>> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, rest) = text.split_at(text.find(|c| !is_number(c))?);
        let rest = rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        parts.push((number.parse().ok()?, unit));
        text = rest.trim_start();
    }
    (!parts.is_empty()).then_some(parts)
}

/// A timestamp as CEL reads it; `None` if nobody knows what the text means.
pub(crate) fn timestamp(text: &str) -> Option<String> {
    let text = text.trim().replacen(' ', "T", 1);
    let short = text.strip_suffix('Z').unwrap_or(&text);
    let candidates = ["T00:00:00Z", "Z", ":00Z"].map(|rest| format!("{short}{rest}"));
    candidates
        .into_iter()
        .find(|it| DateTime::parse_from_rfc3339(it).is_ok())
}

#[cfg(test)]
mod tests;
