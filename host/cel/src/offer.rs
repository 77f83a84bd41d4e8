//! What conditions can call: every function and operator, how many arguments each takes, and what a call costs.
//!
//! Whatever is not in these tables is an error when a condition is compiled. `cel` would find it only when it gets there, which
//! may be never: `true || nonsense()` is true.

use std::ops::RangeInclusive;

use cel::common::ast::operators;

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `f(x)`, and `math.f(x)`.
    Global,
    /// `x.f()`.
    Method,
}

/// How a call is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// It takes the same time whatever its arguments, or goes once through the elements of a list, which pay.
    Constant,
    /// It reads its arguments' text once.
    Text,
    /// It reads short text, such as a number or a time zone; long text is refused, of which `cel` could make more than it costs.
    Brief,
    /// It reads a duration, which is short.
    Duration,
    /// It writes out all of its arguments.
    Deep,
    /// It pays for itself: it is a function of ours.
    Own,
}

/// Functions that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Their names, with a space between them.
    names: &'static str,
    style: Style,
    /// How many arguments, without the target of a method.
    pub(crate) arguments: RangeInclusive<usize>,
    pub(crate) cost: Cost,
}

const fn global(names: &'static str, arguments: RangeInclusive<usize>, cost: Cost) -> Offer {
    Offer {
        names,
        style: Style::Global,
        arguments,
        cost,
    }
}

const fn method(names: &'static str, arguments: RangeInclusive<usize>, cost: Cost) -> Offer {
    Offer {
        names,
        style: Style::Method,
        arguments,
        cost,
    }
}

/// The functions. A name with `@` is what a macro makes; no condition can write it.
const FUNCTIONS: &[Offer] = &[
    // The standard library.
    global("bytes size string", 1..=1, Cost::Text),
    global("bool double int timestamp uint", 1..=1, Cost::Brief),
    global("duration", 1..=1, Cost::Duration),
    global("dyn type", 1..=1, Cost::Constant),
    global("matches", 2..=2, Cost::Own),
    method("matches", 1..=1, Cost::Own),
    method("size", 0..=0, Cost::Text),
    method("contains endsWith startsWith", 1..=1, Cost::Text),
    // Times; the argument is a time zone.
    method("getDate getFullYear getMonth", 0..=1, Cost::Brief),
    method(
        "getDayOfMonth getDayOfWeek getDayOfYear",
        0..=1,
        Cost::Brief,
    ),
    method(
        "getHours getMinutes getSeconds getMilliseconds",
        0..=1,
        Cost::Brief,
    ),
    // The extension strings.
    method("lowerAscii trim upperAscii", 0..=0, Cost::Text),
    method("charAt", 1..=1, Cost::Text),
    method("substring", 1..=2, Cost::Text),
    global("strings.quote", 1..=1, Cost::Text),
    method("format", 1..=1, Cost::Deep),
    method("reverse", 0..=0, Cost::Own),
    method("join", 0..=1, Cost::Own),
    method("indexOf lastIndexOf split", 1..=2, Cost::Own),
    method("replace", 2..=3, Cost::Own),
    // The extension lists, and what Kubernetes has of lists. indexOf, lastIndexOf and reverse are above.
    method(
        "distinct isSorted max min reverse_list sort sum",
        0..=0,
        Cost::Own,
    ),
    method("flatten", 0..=1, Cost::Own),
    method("slice", 2..=2, Cost::Own),
    global("lists.range", 1..=1, Cost::Own),
    global("@sort_by", 1..=1, Cost::Constant),
    // The extension math.
    global("math.@max math.@min", 1..=2, Cost::Constant),
    global(
        "math.abs math.sign math.sqrt math.bitNot",
        1..=1,
        Cost::Constant,
    ),
    global(
        "math.ceil math.floor math.round math.trunc",
        1..=1,
        Cost::Constant,
    ),
    global("math.isFinite math.isInf math.isNaN", 1..=1, Cost::Constant),
    global("math.bitAnd math.bitOr math.bitXor", 2..=2, Cost::Constant),
    global(
        "math.bitShiftLeft math.bitShiftRight",
        2..=2,
        Cost::Constant,
    ),
];

/// The operators, and how many operands each has.
const OPERATORS: &[(&str, usize)] = &[
    (operators::ADD, 2),
    (operators::CONDITIONAL, 3),
    (operators::DIVIDE, 2),
    (operators::EQUALS, 2),
    (operators::GREATER, 2),
    (operators::GREATER_EQUALS, 2),
    (operators::IN, 2),
    (operators::INDEX, 2),
    (operators::LESS, 2),
    (operators::LESS_EQUALS, 2),
    (operators::LOGICAL_AND, 2),
    (operators::LOGICAL_NOT, 1),
    (operators::LOGICAL_OR, 2),
    (operators::MODULO, 2),
    (operators::MULTIPLY, 2),
    (operators::NEGATE, 1),
    (operators::NOT_EQUALS, 2),
    (operators::NOT_STRICTLY_FALSE, 1),
    (operators::SUBSTRACT, 2),
];

/// The macros, for what is said about one with the wrong number of arguments: `cel` leaves it a call.
const MACROS: &[Offer] = &[
    global("cel.bind", 3..=3, Cost::Own),
    global("has", 1..=1, Cost::Own),
    global("math.greatest math.least", 1..=usize::MAX, Cost::Own),
    method(
        "all exists existsOne exists_one filter sortBy sort_by",
        2..=2,
        Cost::Own,
    ),
    method("map", 2..=3, Cost::Own),
];

/// The types that a condition can name, as in `type(x) == int`.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
];

/// The function with this name.
pub(crate) fn function(name: &str, style: Style) -> Option<&'static Offer> {
    find(FUNCTIONS, name, style)
}

/// The macro with this name.
pub(crate) fn macro_call(name: &str, style: Style) -> Option<&'static Offer> {
    find(MACROS, name, style)
}

fn find(offers: &'static [Offer], name: &str, style: Style) -> Option<&'static Offer> {
    let is_it = |it: &&Offer| it.style == style && it.names.split(' ').any(|it| it == name);
    offers.iter().find(is_it)
}

/// Whether this is an operator with so many operands.
pub(crate) fn is_operator(name: &str, operands: usize) -> bool {
    OPERATORS.contains(&(name, operands))
}

/// Whether this is the name of a type.
pub(crate) fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

#[cfg(test)]
mod tests;
