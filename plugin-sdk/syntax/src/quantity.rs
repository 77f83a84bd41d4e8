//! Amounts of CPU, memory and storage, as Kubernetes has them.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};
use std::str::FromStr;

#[cfg(feature = "serde")]
pub use read::NUMBER_AS_WRITTEN;

/// An amount of CPU, memory, storage or anything else that Kubernetes counts: `500m`, `1.5`, `2Gi`, `1e3`.
///
/// It is exact, a fixed-point number and no floating-point number, and has Kubernetes' limits: nine decimal places, where
/// smaller parts are rounded up (away from zero), and at most 2^63 - 1 on either side of zero, where larger numbers stand for the
/// largest. Kubernetes itself keeps larger ones of some spellings.
///
/// It is printed in Kubernetes' canonical form, in the family of suffixes in which it was written: as a whole number with the
/// largest suffix that loses nothing.
///
/// ```
/// use podloom_syntax::Quantity;
///
/// let limit: Quantity = "1.5Gi".parse()?;
/// assert_eq!(limit.to_string(), "1536Mi");
/// assert!(limit < "2G".parse()?);
///
/// let total: Quantity = ["250m", "0.75", "1"].map(|cpu| cpu.parse().unwrap_or_default()).into_iter().sum();
/// assert_eq!(total, Quantity::from(2));
/// # Ok::<(), podloom_syntax::quantity::InvalidQuantity>(())
/// ```
///
/// Two quantities are equal if they are the same amount, however they are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    /// The amount in units of 10^-9. It is within ±[`MAX`].
    nanos: i128,
    format: Format,
}

/// The family of suffixes in which a quantity was written, and is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, ...: powers of 1000.
    #[default]
    DecimalSi,
    /// `Ki`, `Mi`, ...: powers of 1024.
    BinarySi,
    /// `e3`, `E-6`: powers of 10.
    DecimalExponent,
}

/// How many of the smallest parts make one.
const NANOS: i128 = 1_000_000_000;

/// The largest amount, in its smallest parts.
const MAX: i128 = i64::MAX as i128 * NANOS;

/// A text that is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidQuantity;

impl fmt::Display for InvalidQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "is no quantity: write a number, and one of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or none, \
             as in 500m, 1.5 or 2Gi",
        )
    }
}

impl std::error::Error for InvalidQuantity {}

impl Quantity {
    /// Returns the amount as a whole number, rounded up (away from zero): bytes of memory, or CPUs.
    #[must_use]
    pub const fn units(self) -> i64 {
        self.in_parts(NANOS)
    }

    /// Returns the amount in thousandths, rounded up (away from zero), as CPU is counted: `0.25` is 250. What does not fit
    /// becomes the largest `i64`.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.in_parts(NANOS / 1000)
    }

    const fn in_parts(self, nanos: i128) -> i64 {
        let rounded = self.nanos / nanos + (self.nanos % nanos).signum();
        if rounded > i64::MAX as i128 {
            i64::MAX
        } else if rounded < i64::MIN as i128 {
            i64::MIN
        } else {
            rounded as i64
        }
    }

    /// Returns whether the amount is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns whether the amount is less than 0.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

/// A whole number.
impl From<i64> for Quantity {
    fn from(units: i64) -> Self {
        Self {
            nanos: (i128::from(units) * NANOS).max(-MAX),
            format: Format::DecimalSi,
        }
    }
}

/// The sum is printed like the first of the two, or like the second if the first is 0, as in Kubernetes. A sum beyond the limits
/// is the largest amount, or the smallest.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nanos: (self.nanos + other.nanos).clamp(-MAX, MAX),
            format: if self.is_zero() {
                other.format
            } else {
                self.format
            },
        }
    }
}

/// So many times the amount, printed like it. A product beyond the limits is the largest amount, or the smallest.
impl Mul<i64> for Quantity {
    type Output = Self;

    fn mul(self, times: i64) -> Self {
        let nanos = self.nanos.saturating_mul(i128::from(times));
        Self {
            nanos: nanos.clamp(-MAX, MAX),
            format: self.format,
        }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::default(), Add::add)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How many decimal places are kept.
const PLACES: usize = 9;

/// Reads a quantity from text, without floating-point numbers and without dividing.
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
        let (power, mut format) = suffix(rest).ok_or(InvalidQuantity)?;
        let amount = match format {
            Format::BinarySi => binary(whole, fraction, power),
            Format::DecimalSi | Format::DecimalExponent => decimal(whole, fraction, power),
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

/// The power of 10, or of 1024, that a suffix stands for.
fn suffix(text: &str) -> Option<(i64, Format)> {
    let si = |exponent| Some((exponent, Format::DecimalSi));
    let binary = |power| Some((power, Format::BinarySi));
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
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Kubernetes keeps the lowest 32 bits; anything else would read another amount than the API server.
            let exponent = i64::from(exponent as i32);
            Some((exponent, Format::DecimalExponent))
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
fn binary(whole: &str, fraction: &str, power: i64) -> i128 {
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

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10^-9 on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The place of the suffix for 1.
const ONES: usize = 3;

/// Prints a quantity in canonical form.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.nanos.unsigned_abs();
        // Both fit: an amount is at most 2^63 - 1.
        let mut units = (amount / NANOS as u128) as u64;
        let mut nanos = (amount % NANOS as u128) as u32;
        if self.is_negative() {
            f.write_str("-")?;
        }
        if amount == 0 {
            f.write_str("0")
        } else if self.format == Format::BinarySi && units >= 1024 && nanos == 0 {
            let power = divisions(&mut units, 1024);
            write!(f, "{units}{}", BINARY.get(power).unwrap_or(&""))
        } else if nanos == 0 {
            let power = ONES + divisions(&mut units, 1000);
            write!(f, "{units}")?;
            self.write_suffix(power, f)
        } else {
            let mut wide = u64::from(nanos);
            let power = divisions(&mut wide, 1000);
            nanos = wide as u32;
            let places = 9 - 3 * power;
            if units == 0 {
                write!(f, "{nanos}")?;
            } else {
                write!(f, "{units}{nanos:0places$}")?;
            }
            self.write_suffix(power, f)
        }
    }
}

impl Quantity {
    fn write_suffix(&self, power: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format != Format::DecimalExponent {
            return f.write_str(DECIMAL.get(power).unwrap_or(&""));
        }
        match 3 * power as i32 - 9 {
            0 => Ok(()),
            exponent => write!(f, "e{exponent}"),
        }
    }
}

/// Divides a number that is not 0 as often as nothing is lost, and returns how often that was.
fn divisions(number: &mut u64, by: u64) -> usize {
    let mut count = 0;
    while number.is_multiple_of(by) {
        *number /= by;
        count += 1;
    }
    count
}

/// Quantities in JSON and YAML: a string, or a number.
#[cfg(feature = "serde")]
mod read {
    use std::fmt;

    use serde::de::{self, Deserialize, Deserializer, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::Quantity;

    /// By this name of a newtype a reader knows that it should give a number as it is written, with `visit_bytes`: read as a
    /// floating-point number it would not be exact. The SDK's reader does; others read the number as one of their own.
    #[doc(hidden)]
    pub const NUMBER_AS_WRITTEN: &str = "$podloom::json::Value";

    impl<'de> Deserialize<'de> for Quantity {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_newtype_struct(NUMBER_AS_WRITTEN, QuantityVisitor)
        }
    }

    struct QuantityVisitor;

    impl<'de> Visitor<'de> for QuantityVisitor {
        type Value = Quantity;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a quantity, as in 500m, 1.5 or 2Gi")
        }

        /// Nothing is 0, as in Kubernetes.
        fn visit_unit<E>(self) -> Result<Quantity, E> {
            Ok(Quantity::default())
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
            let quantity = text.trim_ascii().parse();
            quantity.map_err(|error| E::custom(format_args!("{text} {error}")))
        }

        fn visit_bytes<E: de::Error>(self, digits: &[u8]) -> Result<Quantity, E> {
            self.visit_str(str::from_utf8(digits).unwrap_or_default())
        }

        /// Another reader than the SDK's.
        #[cfg(not(target_family = "wasm"))]
        fn visit_newtype_struct<D: Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> Result<Quantity, D::Error> {
            deserializer.deserialize_any(self)
        }

        #[cfg(not(target_family = "wasm"))]
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
            Ok(number.into())
        }

        #[cfg(not(target_family = "wasm"))]
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
            self.visit_str(&number.to_string())
        }

        #[cfg(not(target_family = "wasm"))]
        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
            self.visit_str(&number.to_string())
        }
    }

    /// As a string, in canonical form.
    impl Serialize for Quantity {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(&self.to_string())
        }
    }

    #[cfg(feature = "schemars")]
    impl schemars::JsonSchema for Quantity {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Quantity".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({ "type": ["string", "number"] })
        }
    }
}

#[cfg(test)]
mod tests;
