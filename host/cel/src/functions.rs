//! The functions that `cel` does not have, and those whose own implementation in `cel` could take too long or make too much in
//! one call.
//!
//! Each is an overload that takes any values, under its own name with `@` in front, which no expression can write: `instrument`
//! puts these names in place of those that users write. So `[1].sum()` calls `@sum`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cel calls its functions through pointers that take the arguments by value"
)]

mod lists;
mod order;
mod pay;
mod strings;

use cel::common::functions::Function;
use cel::common::types::{CelInt, CelString, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use crate::value::{List, Value, no_overload};

/// What a function gets, and what it returns.
type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Returned<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Each function, and how many arguments it takes; the target of a method is the first one.
const FUNCTIONS: [(&str, &[usize], Function); 23] = [
    ("@text", &[1], pay::text),
    ("@brief", &[1], pay::brief),
    ("@duration", &[1], pay::duration),
    ("@deep", &[1], pay::deep),
    ("@own", &[1], pay::own),
    ("@sort_by", &[1], order::sort_by),
    ("@sort", &[1], order::sort),
    ("@isSorted", &[1], order::is_sorted),
    ("@min", &[1], order::min),
    ("@max", &[1], order::max),
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

/// The name of a function without its mark, as users know it.
fn wrong(function: &str, arguments: &[CowVal<'_, '_>]) -> ExecutionError {
    let values: Vec<&dyn Val> = arguments.iter().map(AsRef::as_ref).collect();
    no_overload(function, &values)
}

/// The argument at a place, as a list.
fn list<'a>(function: &str, arguments: &'a [CowVal<'_, '_>]) -> Result<&'a List, ExecutionError> {
    arguments
        .first()
        .and_then(|argument| argument.downcast_ref::<List>())
        .ok_or_else(|| wrong(function, arguments))
}

/// The argument at a place, as text.
fn text<'a>(arguments: &'a [CowVal<'_, '_>], place: usize) -> Option<&'a str> {
    arguments
        .get(place)?
        .downcast_ref::<CelString>()
        .map(CelString::inner)
}

/// The argument at a place, as a whole number.
fn int(arguments: &[CowVal<'_, '_>], place: usize) -> Option<i64> {
    arguments
        .get(place)?
        .downcast_ref::<CelInt>()
        .map(|int| *int.inner())
}

/// A position, or how many there are of something.
fn number(count: usize) -> Value {
    Value::Int(CelInt::from(i64::try_from(count).unwrap_or(i64::MAX)))
}
