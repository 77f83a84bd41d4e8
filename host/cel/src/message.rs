//! Messages for users: short, and safe to show; and what to write instead of texts that CEL does not read, such as `7d` for a duration.

use std::fmt::{self, Write as _};

use cel::ExecutionError;
use chrono::DateTime;

/// The longest message, in bytes: what a status holds.
pub const LONGEST_MESSAGE: usize = 256;
const CUT: &str = "...";
/// What is said of a value that conditions do not see.
pub(crate) const HIDDEN: &str = "conditions do not see this value";

/// A text that ends where it is full, so that writing a huge value into a message costs nothing.
struct Bounded {
    text: String,
    full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for character in part.chars() {
            let character = if character.is_control() {
                ' '
            } else {
                character
            };
            if self.text.len() + character.len_utf8() > LONGEST_MESSAGE - CUT.len() {
                self.full = true;
                return Err(fmt::Error);
            }
            self.text.push(character);
        }
        Ok(())
    }
}

/// The text, cut to the longest message, in one line.
pub(crate) fn short(message: &(impl fmt::Display + ?Sized)) -> String {
    let mut bounded = Bounded {
        text: String::new(),
        full: false,
    };
    let written = write!(bounded, "{message}");
    if written.is_err() && bounded.full {
        bounded.text.push_str(CUT);
    }
    bounded.text
}

/// What went wrong in an evaluation, in our words.
pub(crate) fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => short(&format_args!(
            "no such key {key:?}; ask for it first, with has() or with `in`"
        )),
        ExecutionError::IndexOutOfBounds(index) => {
            short(&format_args!("no element {} in the list", shown(index)))
        }
        ExecutionError::UndeclaredReference(name) => short(&format_args!("unknown name {name:?}")),
        ExecutionError::NoSuchOverload(overload) => {
            let types = overload.argument_types().join(", ");
            short(&format_args!(
                "{} does not take ({types})",
                plain(overload.function())
            ))
        }
        ExecutionError::UnexpectedType { got, want } => {
            short(&format_args!("{got} where {want} is needed"))
        }
        ExecutionError::FunctionError { function, message } => short(&format_args!(
            "{function}: {}",
            in_plain_words(function, message)
        )),
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => {
            let operator = sign(operator);
            match (kind(one), kind(other)) {
                (Some(one), Some(other)) => format!("{operator} does not take ({one}, {other})"),
                _ => format!("{operator} does not take values of these types"),
            }
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "remainder of a division by zero".to_owned(),
        ExecutionError::Overflow(operator, _, _) => {
            format!("the result of {} is too large", sign(operator))
        }
        // What `cel` says of the others has values as Rust writes them.
        ExecutionError::NotSupportedAsMethod { method, .. } => {
            short(&format_args!("{method} does not take a value of this type"))
        }
        ExecutionError::UnsupportedKeyType(_) => {
            "a key is a text, a whole number or a bool".to_owned()
        }
        ExecutionError::ValuesNotComparable(one, other) => match (kind(one), kind(other)) {
            (Some(one), Some(other)) => format!("{one} cannot be compared with {other}"),
            _ => "values of these types cannot be compared".to_owned(),
        },
        ExecutionError::DuplicateKey(_) => "a map has a repeated key".to_owned(),
        ExecutionError::InvalidArgumentCount { .. } | ExecutionError::MissingArgumentOrTarget => {
            short(error)
        }
        _ => "it takes a value of another type".to_owned(),
    }
}

/// What a function says, in our words where `cel` has those of its parsers.
fn in_plain_words<'a>(function: &str, message: &'a str) -> &'a str {
    match function {
        // The function may be the key of a value that is not shown.
        _ if message.contains("range") || message == HIDDEN => message,
        "duration" => {
            "the text is no duration: write numbers with the units h, m and s, such as \"168h\""
        }
        "timestamp" => {
            "the text is no timestamp: write a date, a time and a zone, such as \"2026-01-15T00:00:00Z\""
        }
        "timezone" => "the text is no time zone: write one such as \"Europe/Madrid\" or \"+02:00\"",
        _ => message,
    }
}

/// A function or an operator as it is written: `cel` calls `+` `_+_`, and ours have `@` in front.
fn plain(function: &str) -> String {
    let name = function.trim_start_matches('@');
    if name.starts_with('_') || name.ends_with('_') {
        name.replace('_', "")
    } else {
        name.to_owned()
    }
}

/// The sign of an operator that `cel` calls by a word.
fn sign(operator: &str) -> &str {
    match operator {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other,
    }
}

/// The type of a value; `None` where `cel` does not know: it takes our lists and maps for null.
fn kind(value: &cel::Value) -> Option<&'static str> {
    match value {
        cel::Value::Bool(_) => Some("bool"),
        cel::Value::Int(_) => Some("int"),
        cel::Value::UInt(_) => Some("uint"),
        cel::Value::Float(_) => Some("double"),
        cel::Value::String(_) => Some("string"),
        cel::Value::Bytes(_) => Some("bytes"),
        cel::Value::Duration(_) => Some("duration"),
        cel::Value::Timestamp(_) => Some("timestamp"),
        _ => None,
    }
}

fn shown(value: &cel::Value) -> String {
    match value {
        cel::Value::Int(int) => int.to_string(),
        cel::Value::UInt(uint) => uint.to_string(),
        _ => "of this type".to_owned(),
    }
}

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
pub(crate) fn hinted_duration(text: &str) -> Option<String> {
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
pub(crate) fn hinted_timestamp(text: &str) -> Option<String> {
    let text = text.trim().replacen(' ', "T", 1);
    let short = text.strip_suffix('Z').unwrap_or(&text);
    let candidates = ["T00:00:00Z", "Z", ":00Z"].map(|rest| format!("{short}{rest}"));
    candidates
        .into_iter()
        .find(|it| DateTime::parse_from_rfc3339(it).is_ok())
}

#[cfg(test)]
mod tests;
