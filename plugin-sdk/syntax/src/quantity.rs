//! Amounts of CPU, memory and storage, as Kubernetes has them.

mod parse;
mod print;
#[cfg(feature = "serde")]
mod read;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

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
