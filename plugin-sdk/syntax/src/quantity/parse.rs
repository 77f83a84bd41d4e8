//! Reads a quantity from text, without floating-point numbers and without dividing.

use std::str::FromStr;

use super::{Format, InvalidQuantity, MAX, NANOS, Quantity};

/// How many decimal places are kept.
const PLACES: usize = 9;

/// What a suffix stands for.
enum Suffix {
    /// A power of 10.
    Decimal(i64, Format),
    /// A power of 1024.
    Binary(u32),
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    /// Accepts what the API server accepts: a sign, digits before or after a point, and a suffix. Of texts without a digit, which
    /// the API server refuses or takes for 0 (`Ki`), it accepts none.
    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(InvalidQuantity);
        }
        let (amount, mut format) = match suffix(rest).ok_or(InvalidQuantity)? {
            Suffix::Decimal(exponent, format) => (decimal(whole, fraction, exponent), format),
            Suffix::Binary(power) => (binary(whole, fraction, power), Format::BinarySi),
        };
        if format == Format::BinarySi && amount > 0 && amount < NANOS {
            format = Format::DecimalSi;
        }
        Ok(Self {
            nanos: if is_negative { -amount } else { amount },
            format,
        })
    }
}

/// Splits a text after the digits that it begins with.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    // All before is ASCII.
    text.split_at(end)
}

fn suffix(text: &str) -> Option<Suffix> {
    let si = |exponent| Some(Suffix::Decimal(exponent, Format::DecimalSi));
    match text {
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "" => si(0),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => Some(Suffix::Binary(1)),
        "Mi" => Some(Suffix::Binary(2)),
        "Gi" => Some(Suffix::Binary(3)),
        "Ti" => Some(Suffix::Binary(4)),
        "Pi" => Some(Suffix::Binary(5)),
        "Ei" => Some(Suffix::Binary(6)),
        _ => {
            let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Kubernetes keeps the lowest 32 bits; anything else would read another amount than the API server.
            let exponent = i64::from(exponent as i32);
            Some(Suffix::Decimal(exponent, Format::DecimalExponent))
        }
    }
}

/// The digits of a number, from the first that is not 0.
fn significant<'t>(whole: &'t str, fraction: &'t str) -> impl Iterator<Item = u8> + 't {
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|byte| byte - b'0');
    digits.skip_while(|digit| *digit == 0)
}

/// Returns a number times a power of 10, in units of 10^-9, rounded up, at most [`MAX`].
fn decimal(whole: &str, fraction: &str, exponent: i64) -> i128 {
    let count = significant(whole, fraction).count();
    if count == 0 {
        return 0;
    }
    // How many digits there are before those that are rounded away. Zeros are appended if there are more than the number has.
    let places = exponent.saturating_add(PLACES as i64);
    let kept = places.saturating_add(count as i64 - fraction.len() as i64);
    let mut digits = significant(whole, fraction);
    let mut amount: i128 = 0;
    for _ in 0..kept {
        amount = amount * 10 + i128::from(digits.next().unwrap_or_default());
        // The first digit is not 0, so this ends soon.
        if amount > MAX {
            return MAX;
        }
    }
    let is_rounded = kept < 0 || digits.any(|digit| digit != 0);
    (amount + i128::from(is_rounded)).min(MAX)
}

/// Returns a number times a power of 1024, in units of 10^-9, rounded up, at most [`MAX`].
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let mut units: i128 = decimal(whole, "", 0) / NANOS;
    let mut places: Vec<u8> = fraction.bytes().map(|byte| byte - b'0').collect();
    for _ in 0..power {
        // By hand on paper: what does not fit a place is carried to the one before it.
        let mut carry = 0_u16;
        for place in places.iter_mut().rev() {
            let product = u16::from(*place) * 1024 + carry;
            *place = (product % 10) as u8;
            carry = product / 10;
        }
        units = units * 1024 + i128::from(carry);
        if units * NANOS > MAX {
            return MAX;
        }
    }
    let mut amount = units;
    let mut places = places.into_iter();
    for _ in 0..PLACES {
        amount = amount * 10 + i128::from(places.next().unwrap_or_default());
    }
    (amount + i128::from(places.any(|place| place != 0))).min(MAX)
}
