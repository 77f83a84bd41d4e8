//! The keys of maps.

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, CelUInt};
use cel::common::value::Val;

/// A key as it is looked up: numbers are equal by value whatever their type, so `{1u: "one"}[1]` finds "one".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key<'a> {
    Bool(bool),
    Number(i128),
    Text(&'a str),
}

impl<'a> Key<'a> {
    /// The value as a key; `None` if it cannot be one: no map has a list or a fraction as a key.
    pub(crate) fn of(val: &'a dyn Val) -> Option<Self> {
        if let Some(text) = val.downcast_ref::<CelString>() {
            Some(Self::Text(text.inner()))
        } else if let Some(int) = val.downcast_ref::<CelInt>() {
            Some(Self::Number((*int.inner()).into()))
        } else if let Some(uint) = val.downcast_ref::<CelUInt>() {
            Some(Self::Number((*uint.inner()).into()))
        } else if let Some(double) = val.downcast_ref::<CelDouble>() {
            whole(*double.inner()).map(Self::Number)
        } else {
            val.downcast_ref::<CelBool>()
                .map(|value| Self::Bool(*value.inner()))
        }
    }
}

/// The number, if it is a whole one that an `int` or a `uint` can be.
#[expect(
    clippy::cast_possible_truncation,
    reason = "whole and below 2^64, so it fits"
)]
pub(super) fn whole(number: f64) -> Option<i128> {
    let fits = number.fract() == 0.0 && number.abs() < 2_f64.powi(64);
    fits.then_some(number as i128)
}
