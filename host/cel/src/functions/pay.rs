//! What `instrument` puts around parts of an expression: each pays for what happens next, and returns its argument as it is.

use cel::ExecutionError;
use cel::common::types::CelString;
use cel::common::value::Val;

use super::{Arguments, Returned, wrong};
use crate::value::{List, Map, Value, text_steps};
use crate::{hint, meter};

/// The steps of the longest text that is short: about 512 bytes.
const BRIEF: u64 = 8;

/// A function that goes through a text, or the copy of one.
pub(super) fn text<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = only(arguments)?;
    meter::charge(text_steps(value.as_ref()))?;
    Ok(value)
}

/// A function that reads short text.
///
/// # Errors
/// If the text is longer than anything that it could stand for.
pub(super) fn brief<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
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
pub(super) fn duration<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = brief(arguments)?;
    match value.as_ref().downcast_ref::<CelString>() {
        Some(text) if !hint::is_duration(text.inner()) => {
            Err(ExecutionError::function_error("duration", "it is none"))
        }
        _ => Ok(value),
    }
}

/// A function that writes out all of a value.
pub(super) fn deep<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = only(arguments)?;
    walk(value.as_ref())?;
    Ok(value)
}

/// Takes over a list or a map that `cel` has made.
pub(super) fn own<'b, 'v>(arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Value::adopt(only(arguments)?.as_ref()).map(Value::into_cow)
}

fn only<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    match (arguments.pop(), arguments.is_empty()) {
        (Some(value), true) => Ok(value),
        _ => Err(wrong("@", &arguments)),
    }
}

fn length(val: &dyn Val) -> u64 {
    if let Some(list) = val.downcast_ref::<List>() {
        meter::of_size(list.elements().len())
    } else if let Some(map) = val.downcast_ref::<Map>() {
        meter::of_size(map.entries().len())
    } else {
        0
    }
}

fn walk(val: &dyn Val) -> Result<(), ExecutionError> {
    meter::charge(text_steps(val) + length(val))?;
    if let Some(list) = val.downcast_ref::<List>() {
        list.elements()
            .iter()
            .try_for_each(|element| walk(element.as_val()))?;
    } else if let Some(map) = val.downcast_ref::<Map>() {
        for (key, value) in map.entries() {
            walk(key.as_val())?;
            walk(value.as_val())?;
        }
    }
    Ok(())
}
