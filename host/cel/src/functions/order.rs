//! Sorting, and the smallest and largest element.

use std::cmp::Ordering;

use cel::ExecutionError;
use cel::common::value::Val;

use super::{Arguments, Returned, list};
use crate::meter;
use crate::value::{List, Value, no_overload, text_steps};

/// `[2, 1].sort()`: the elements from the smallest to the largest.
pub(super) fn sort<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let list = list("sort", &arguments)?;
    let keyed = list.elements().iter().map(|element| (element, element));
    sorted("sort", keyed.collect())
}

/// `list.sort_by(v, key)`, which the macro has made a list of pairs of element and key. Elements with the same key keep their
/// order.
pub(super) fn sort_by<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let pairs = list("sort_by", &arguments)?;
    let mut keyed = Vec::with_capacity(pairs.elements().len());
    for pair in pairs.elements() {
        let Value::List(pair) = pair else { continue };
        if let [element, key] = pair.elements() {
            keyed.push((key, element));
        }
    }
    sorted("sort_by", keyed)
}

/// Sorts elements by their keys.
///
/// # Errors
/// If keys are of different types, or cannot be compared: a list, a map, null or NaN.
fn sorted<'b, 'v>(function: &str, mut keyed: Vec<(&Value, &Value)>) -> Returned<'b, 'v> {
    // Paid before: a comparison that fails in the middle of sorting would give an order that is none, for which sort_by may
    // panic.
    let rounds = u64::from(keyed.len().checked_ilog2().unwrap_or(0)) + 1;
    for (key, _) in &keyed {
        meter::charge((1 + text_steps(key.as_val())) * rounds)?;
    }
    // As above: if each key compares with the first one, all of them compare with each other.
    if let Some((first, _)) = keyed.first() {
        for (key, _) in &keyed {
            if key.as_val().get_type() != first.as_val().get_type() {
                return Err(no_overload(function, &[first.as_val(), key.as_val()]));
            }
            compare(function, key.as_val(), key.as_val())?;
            compare(function, first.as_val(), key.as_val())?;
        }
    }
    keyed.sort_by(|(one, _), (other, _)| {
        compare(function, one.as_val(), other.as_val()).unwrap_or(Ordering::Equal)
    });
    let elements: Result<Vec<_>, _> = keyed.iter().map(|(_, element)| element.copied()).collect();
    Ok(Value::List(List::new(elements?)).into_cow())
}

fn compare(function: &str, one: &dyn Val, other: &dyn Val) -> Result<Ordering, ExecutionError> {
    let unlike = || no_overload(function, &[one, other]);
    one.as_comparer()
        .ok_or_else(unlike)?
        .compare(other)
        .map_err(|_| unlike())
}

/// `[1, 2].isSorted()`: whether no element is smaller than the one before it.
pub(super) fn is_sorted<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let elements = list("isSorted", &arguments)?.elements();
    let mut sorted = true;
    for (one, next) in elements.iter().zip(elements.iter().skip(1)) {
        pay(next)?;
        sorted &= compare("isSorted", one.as_val(), next.as_val())?.is_le();
    }
    Ok(Value::Bool(sorted.into()).into_cow())
}

/// `[1, 2].min()`.
///
/// # Errors
/// If the list is empty.
pub(super) fn min<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    extreme("min", &arguments, Ordering::Less)
}

/// `[1, 2].max()`.
///
/// # Errors
/// If the list is empty.
pub(super) fn max<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    extreme("max", &arguments, Ordering::Greater)
}

fn extreme<'b, 'v>(
    function: &str,
    arguments: &Arguments<'b, 'v>,
    wins: Ordering,
) -> Returned<'b, 'v> {
    let mut elements = list(function, arguments)?.elements().iter();
    let Some(mut best) = elements.next() else {
        let message = format!("{function}() of an empty list");
        return Err(ExecutionError::function_error(function, message));
    };
    // A single element is compared too, so that it is an error if it cannot be.
    compare(function, best.as_val(), best.as_val())?;
    for element in elements {
        pay(element)?;
        if compare(function, element.as_val(), best.as_val())? == wins {
            best = element;
        }
    }
    best.copied().map(Value::into_cow)
}

/// Pays for a look at an element.
fn pay(element: &Value) -> Result<(), ExecutionError> {
    meter::charge(1 + text_steps(element.as_val()))
}
