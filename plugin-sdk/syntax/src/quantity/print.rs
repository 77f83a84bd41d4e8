//! Prints a quantity in canonical form.

use std::fmt;

use super::{Format, NANOS, Quantity};

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10^-9 on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The place of the suffix for 1.
const ONES: usize = 3;

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
