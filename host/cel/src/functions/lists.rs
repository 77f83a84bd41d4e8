//! The functions of lists.

use std::cmp::Ordering;
use std::collections::HashSet;

use cel::ExecutionError;
use cel::common::types::CelInt;
use cel::common::value::Val;

use super::{Arguments, Returned, int, list, number, place, wrong};
use crate::meter;
use crate::value::{Key, List, Value, equal, no_overload, text_steps};

/// `[1, 2].sum()`, of numbers of one type, or of durations; 0 of an empty list.
pub(super) fn sum<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let mut elements = list("sum", &arguments)?.elements().iter();
    let Some(first) = elements.next() else {
        return Ok(number(0).into_cow());
    };
    let mut sum = first.clone();
    // The first one too, so that a list of one text has no sum.
    for element in std::iter::once(first).chain(elements.clone()) {
        if !matches!(
            element,
            Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Duration(_)
        ) {
            return Err(no_overload("sum", &[first.as_val(), element.as_val()]));
        }
    }
    for element in elements {
        meter::charge(1)?;
        let unlike = || no_overload("sum", &[sum.as_val(), element.as_val()]);
        let adder = sum.as_val().as_adder().ok_or_else(unlike)?;
        let next = match adder.add(element.as_val()) {
            Ok(next) => Value::adopt(next.as_ref())?,
            Err(ExecutionError::Overflow(..)) => {
                return Err(ExecutionError::function_error(
                    "sum",
                    "the sum is too large",
                ));
            }
            Err(_) => return Err(unlike()),
        };
        sum = next;
    }
    Ok(sum.into_cow())
}

/// `list.slice(from, to)`: the elements from one position up to, but without, another.
pub(super) fn slice<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let elements = list("slice", &arguments)?.elements();
    let (Some(from), Some(to)) = (int(&arguments, 1), int(&arguments, 2)) else {
        return Err(wrong("slice", &arguments));
    };
    let range = usize::try_from(from)
        .ok()
        .zip(usize::try_from(to).ok())
        .and_then(|(from, to)| elements.get(from..to));
    let Some(part) = range else {
        let message = format!("no elements {from} to {to} in a list of {}", elements.len());
        return Err(ExecutionError::function_error("slice", message));
    };
    copies(part.iter())
}

/// `list.flatten()` and `list.flatten(depth)`: the elements of the lists in it, in their place.
pub(super) fn flatten<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let list = list("flatten", &arguments)?;
    let depth = match (arguments.len(), int(&arguments, 1)) {
        (1, _) => 1,
        (_, Some(depth)) if depth >= 0 => depth,
        (_, Some(_)) => {
            let message = "the depth is below 0";
            return Err(ExecutionError::function_error("flatten", message));
        }
        (_, None) => return Err(wrong("flatten", &arguments)),
    };
    let mut flat = Vec::new();
    flatten_into(&mut flat, list, depth)?;
    Ok(Value::List(List::new(flat)).into_cow())
}

fn flatten_into(flat: &mut Vec<Value>, list: &List, depth: i64) -> Result<(), ExecutionError> {
    for element in list.elements() {
        meter::charge(1)?;
        match element {
            Value::List(inner) if depth > 0 => flatten_into(flat, inner, depth - 1)?,
            other => flat.push(other.copied()?),
        }
    }
    Ok(())
}

/// `list.distinct()`: the first of each set of equal elements, in their order.
pub(super) fn distinct<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let elements = list("distinct", &arguments)?.elements();
    let mut keys = HashSet::new();
    // What cannot be a key is compared with all the others that cannot.
    let mut others: Vec<&Value> = Vec::new();
    let mut kept = Vec::new();
    for element in elements {
        meter::charge(1)?;
        let new = match Key::of(element.as_val()) {
            Some(key) => keys.insert(key),
            None => {
                let new = !others
                    .iter()
                    .any(|other| equal(other.as_val(), element.as_val()));
                if new {
                    others.push(element);
                }
                new
            }
        };
        if new {
            kept.push(element.copied()?);
        }
    }
    Ok(Value::List(List::new(kept)).into_cow())
}

/// `list.reverse_list()`, and `list.reverse()`.
pub(super) fn reverse<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    copies(list("reverse_list", &arguments)?.elements().iter().rev())
}

/// `lists.range(n)`: the numbers from 0 up to, but without, n.
pub(super) fn range<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let end = int(&arguments, 0).ok_or_else(|| wrong("lists.range", &arguments))?;
    let Ok(length) = u64::try_from(end) else {
        let message = "the length is below 0";
        return Err(ExecutionError::function_error("lists.range", message));
    };
    meter::charge(length)?;
    let numbers = (0..end).map(|number| Value::Int(CelInt::from(number)));
    Ok(Value::List(List::new(numbers.collect())).into_cow())
}

/// Where an element is in a list, from its start or from its end; -1 if it is not there.
pub(super) fn position<'b, 'v>(
    function: &str,
    arguments: &Arguments<'b, 'v>,
    from_end: bool,
) -> Returned<'b, 'v> {
    let elements = list(function, arguments)?.elements();
    let [_, wanted] = arguments.as_slice() else {
        return Err(wrong(function, arguments));
    };
    let is_wanted = |element: &Value| equal(element.as_val(), wanted.as_ref());
    let found = if from_end {
        elements.iter().rposition(is_wanted)
    } else {
        elements.iter().position(is_wanted)
    };
    // A comparison that the budget ended looks like one that failed.
    meter::charge(0)?;
    Ok(place(found))
}

fn copies<'a, 'b, 'v>(elements: impl ExactSizeIterator<Item = &'a Value>) -> Returned<'b, 'v> {
    meter::charge(meter::of_size(elements.len()))?;
    let copies: Result<_, _> = elements.map(Value::copied).collect();
    Ok(Value::List(List::new(copies?)).into_cow())
}

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
