//! The functions that `cel` does not have, and those whose own implementation in `cel` could take too long or make too much in
//! one call.
//!
//! Each is an overload that takes any values, under its own name with `@` in front, which no expression can write: `instrument`
//! puts these names in place of those that users write. So `[1].sum()` calls `@sum`. Those whose names begin with `pay_` are what
//! `instrument` puts around parts of an expression: each pays for what happens next, and returns its argument as it is.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cel calls its functions through pointers that take the arguments by value"
)]

mod lists;
mod strings;

use cel::common::functions::Function;
use cel::common::types::{CelInt, CelString, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use crate::value::{List, Map, Value, no_overload, text_steps};
use crate::{message, meter};

/// The steps of the longest text that is short: about 512 bytes.
const BRIEF: u64 = 8;

/// What a function gets, and what it returns.
type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Returned<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Each function, and how many arguments it takes; the target of a method is the first one.
const FUNCTIONS: [(&str, &[usize], Function); 23] = [
    ("@text", &[1], pay_text),
    ("@brief", &[1], pay_brief),
    ("@duration", &[1], pay_duration),
    ("@deep", &[1], pay_deep),
    ("@own", &[1], pay_own),
    ("@sort_by", &[1], lists::sort_by),
    ("@sort", &[1], lists::sort),
    ("@isSorted", &[1], lists::is_sorted),
    ("@min", &[1], lists::min),
    ("@max", &[1], lists::max),
    ("@sum", &[1], lists::sum),
    ("@slice", &[3], lists::slice),
    ("@flatten", &[1, 2], lists::flatten),
    ("@distinct", &[1], lists::distinct),
    ("@reverse_list", &[1], lists::reverse),
    ("@lists.range", &[1], lists::range),
    ("@reverse", &[1], strings::reverse_any),
    ("@indexOf", &[2, 3], strings::index_of_any),
    ("@lastIndexOf", &[2, 3], strings::last_index_of_any),
    ("@join", &[1, 2], strings::join),
    ("@split", &[2, 3], strings::split),
    ("@replace", &[3, 4], strings::replace),
    ("@matches", &[2], strings::matches),
];

/// Adds the functions to an environment.
///
/// # Errors
/// If one of them is there already.
pub(crate) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    for (name, counts, function) in FUNCTIONS {
        for count in counts {
            let types = (0..*count).map(|_| DYN_TYPE).collect();
            env.add_overload(name, &format!("{name}/{count}"), types, function)?;
        }
    }
    Ok(())
}

/// A function that goes through a text, or the copy of one.
fn pay_text<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = only(arguments)?;
    meter::charge(text_steps(value.as_ref()))?;
    Ok(value)
}

/// A function that reads short text.
///
/// # Errors
/// If the text is longer than anything that it could stand for.
fn pay_brief<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = only(arguments)?;
    if text_steps(value.as_ref()) > BRIEF {
        let message = "the text is too long for a number, a time or a zone";
        return Err(ExecutionError::function_error("text", message));
    }
    Ok(value)
}

/// The function that reads a duration. `cel` reads the start of a text that is none.
///
/// # Errors
/// If the text is no duration.
fn pay_duration<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = pay_brief(arguments)?;
    match value.as_ref().downcast_ref::<CelString>() {
        Some(text) if !message::is_duration(text.inner()) => {
            Err(ExecutionError::function_error("duration", "it is none"))
        }
        _ => Ok(value),
    }
}

/// A function that writes out all of a value.
fn pay_deep<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = only(arguments)?;
    walk(value.as_ref())?;
    Ok(value)
}

/// Takes over a list or a map that `cel` has made.
fn pay_own<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Value::adopt(only(arguments)?.as_ref()).map(Value::into_cow)
}

fn only<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    match (arguments.pop(), arguments.is_empty()) {
        (Some(value), true) => Ok(value),
        _ => Err(wrong("@", &arguments)),
    }
}

fn walk(val: &dyn Val) -> Result<(), ExecutionError> {
    if let Some(list) = val.downcast_ref::<List>() {
        let mut elements = list.elements().iter();
        meter::charge(meter::of_size(elements.len()))?;
        elements.try_for_each(|element| walk(element.as_val()))
    } else if let Some(map) = val.downcast_ref::<Map>() {
        let mut entries = map.entries().iter();
        meter::charge(meter::of_size(entries.len()))?;
        entries.try_for_each(|(key, value)| walk(key.as_val()).and_then(|()| walk(value.as_val())))
    } else {
        meter::charge(text_steps(val))
    }
}

/// The name of a function without its mark, as users know it.
fn wrong(function: &str, arguments: &[CowVal<'_, '_>]) -> ExecutionError {
    let values: Vec<&dyn Val> = arguments.iter().map(AsRef::as_ref).collect();
    no_overload(function, &values)
}

/// The argument at a place, as a list.
fn list<'a>(function: &str, arguments: &'a [CowVal<'_, '_>]) -> Result<&'a List, ExecutionError> {
    let list = arguments.first().and_then(|it| it.downcast_ref::<List>());
    list.ok_or_else(|| wrong(function, arguments))
}

/// The argument at a place, as text.
fn text<'a>(arguments: &'a [CowVal<'_, '_>], place: usize) -> Option<&'a str> {
    let text = arguments.get(place)?.downcast_ref::<CelString>();
    text.map(CelString::inner)
}

/// The argument at a place, as a whole number.
fn int(arguments: &[CowVal<'_, '_>], place: usize) -> Option<i64> {
    let int = arguments.get(place)?.downcast_ref::<CelInt>();
    int.map(|int| *int.inner())
}

/// A position, or how many there are of something.
fn number(count: usize) -> Value {
    Value::Int(CelInt::from(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// The position at which something was found; -1 if it was not.
fn place<'b, 'v>(found: Option<usize>) -> CowVal<'b, 'v> {
    let place = found.map_or_else(|| Value::Int(CelInt::from(-1)), number);
    place.into_cow()
}
