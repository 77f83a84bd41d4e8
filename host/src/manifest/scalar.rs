//! What a plain scalar is, by the rules of kubectl's YAML library: go-yaml v2, which knows YAML 1.1's booleans, numbers with
//! underscores, and YAML 1.2's octals. A number that is too large for a float stays a text, such as the commit `83e2010`.

use serde_json::Number;

/// What a plain scalar is read as.
#[derive(Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    /// Infinity, or no number: JSON has neither, and kubectl refuses them.
    NotFinite,
    Text,
}

/// Reads a plain scalar without a tag.
pub(super) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => return Scalar::NotFinite,
        _ => {}
    }
    let number = match text.bytes().next() {
        Some(b'.') => float(text),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| float(&plain))
        }
        _ => None,
    };
    number.map_or(Scalar::Text, Scalar::Number)
}

/// An integer of 64 bits, with a sign or without, in the base that its prefix says.
fn integer(text: &str) -> Option<Number> {
    let (sign, unsigned) = match text.split_at_checked(1) {
        Some((sign @ ("+" | "-"), rest)) => (sign, rest),
        _ => ("", text),
    };
    let (radix, digits) = match unsigned.split_at_checked(2) {
        Some(("0x" | "0X", digits)) => (16, digits),
        Some(("0b" | "0B", digits)) => (2, digits),
        Some(("0o" | "0O", digits)) => (8, digits),
        _ => match unsigned.strip_prefix('0') {
            Some(digits) if !digits.is_empty() => (8, digits),
            _ => (10, unsigned),
        },
    };
    // A second sign would be read, too.
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(number) => Some(number.into()),
        Err(_) if sign.is_empty() => u64::from_str_radix(digits, radix).ok().map(Number::from),
        Err(_) => None,
    }
}

/// A decimal number that a float can hold, perhaps with an exponent.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    // Rust reads `inf` and `nan` too.
    if !starts(unsigned) && !unsigned.strip_prefix('.').is_some_and(starts) {
        return None;
    }
    Number::from_f64(text.parse().ok()?)
}

#[cfg(test)]
mod tests;
