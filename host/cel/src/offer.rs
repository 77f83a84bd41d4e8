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

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) name: &'static str,
    pub(crate) style: Style,
    /// How many arguments, without the target of a method.
    pub(crate) arguments: RangeInclusive<usize>,
    pub(crate) cost: Cost,
}

const fn global(name: &'static str, least: usize, most: usize, cost: Cost) -> Offer {
    Offer {
        name,
        style: Style::Global,
        arguments: least..=most,
        cost,
    }
}

const fn method(name: &'static str, least: usize, most: usize, cost: Cost) -> Offer {
    Offer {
        name,
        style: Style::Method,
        arguments: least..=most,
        cost,
    }
}

/// The functions. A name with `@` is what a macro makes; no condition can write it.
const FUNCTIONS: &[Offer] = &[
    // The standard library.
    global("bool", 1, 1, Cost::Brief),
    global("bytes", 1, 1, Cost::Text),
    global("double", 1, 1, Cost::Brief),
    global("duration", 1, 1, Cost::Duration),
    global("dyn", 1, 1, Cost::Constant),
    global("int", 1, 1, Cost::Brief),
    global("matches", 2, 2, Cost::Own),
    global("size", 1, 1, Cost::Text),
    global("string", 1, 1, Cost::Text),
    global("timestamp", 1, 1, Cost::Brief),
    global("type", 1, 1, Cost::Constant),
    global("uint", 1, 1, Cost::Brief),
    method("contains", 1, 1, Cost::Text),
    method("endsWith", 1, 1, Cost::Text),
    method("matches", 1, 1, Cost::Own),
    method("size", 0, 0, Cost::Text),
    method("startsWith", 1, 1, Cost::Text),
    // Times; the argument is a time zone.
    method("getDate", 0, 1, Cost::Brief),
    method("getDayOfMonth", 0, 1, Cost::Brief),
    method("getDayOfWeek", 0, 1, Cost::Brief),
    method("getDayOfYear", 0, 1, Cost::Brief),
    method("getFullYear", 0, 1, Cost::Brief),
    method("getHours", 0, 1, Cost::Brief),
    method("getMilliseconds", 0, 1, Cost::Brief),
    method("getMinutes", 0, 1, Cost::Brief),
    method("getMonth", 0, 1, Cost::Brief),
    method("getSeconds", 0, 1, Cost::Brief),
    // The extension strings.
    method("charAt", 1, 1, Cost::Text),
    method("format", 1, 1, Cost::Deep),
    method("indexOf", 1, 2, Cost::Own),
    method("join", 0, 1, Cost::Own),
    method("lastIndexOf", 1, 2, Cost::Own),
    method("lowerAscii", 0, 0, Cost::Text),
    method("replace", 2, 3, Cost::Own),
    method("reverse", 0, 0, Cost::Own),
    method("split", 1, 2, Cost::Own),
    global("strings.quote", 1, 1, Cost::Text),
    method("substring", 1, 2, Cost::Text),
    method("trim", 0, 0, Cost::Text),
    method("upperAscii", 0, 0, Cost::Text),
    // The extension lists, and what Kubernetes has of lists. indexOf, lastIndexOf and reverse are above.
    method("distinct", 0, 0, Cost::Own),
    method("flatten", 0, 1, Cost::Own),
    method("isSorted", 0, 0, Cost::Own),
    global("lists.range", 1, 1, Cost::Own),
    method("max", 0, 0, Cost::Own),
    method("min", 0, 0, Cost::Own),
    method("reverse_list", 0, 0, Cost::Own),
    method("slice", 2, 2, Cost::Own),
    method("sort", 0, 0, Cost::Own),
    global("@sort_by", 1, 1, Cost::Constant),
    method("sum", 0, 0, Cost::Own),
    // The extension math.
    global("math.@max", 1, 2, Cost::Constant),
    global("math.@min", 1, 2, Cost::Constant),
    global("math.abs", 1, 1, Cost::Constant),
    global("math.bitAnd", 2, 2, Cost::Constant),
    global("math.bitNot", 1, 1, Cost::Constant),
    global("math.bitOr", 2, 2, Cost::Constant),
    global("math.bitShiftLeft", 2, 2, Cost::Constant),
    global("math.bitShiftRight", 2, 2, Cost::Constant),
    global("math.bitXor", 2, 2, Cost::Constant),
    global("math.ceil", 1, 1, Cost::Constant),
    global("math.floor", 1, 1, Cost::Constant),
    global("math.isFinite", 1, 1, Cost::Constant),
    global("math.isInf", 1, 1, Cost::Constant),
    global("math.isNaN", 1, 1, Cost::Constant),
    global("math.round", 1, 1, Cost::Constant),
    global("math.sign", 1, 1, Cost::Constant),
    global("math.sqrt", 1, 1, Cost::Constant),
    global("math.trunc", 1, 1, Cost::Constant),
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
    global("cel.bind", 3, 3, Cost::Own),
    global("has", 1, 1, Cost::Own),
    global("math.greatest", 1, usize::MAX, Cost::Own),
    global("math.least", 1, usize::MAX, Cost::Own),
    method("all", 2, 2, Cost::Own),
    method("exists", 2, 2, Cost::Own),
    method("existsOne", 2, 2, Cost::Own),
    method("exists_one", 2, 2, Cost::Own),
    method("filter", 2, 2, Cost::Own),
    method("map", 2, 3, Cost::Own),
    method("sortBy", 2, 2, Cost::Own),
    method("sort_by", 2, 2, Cost::Own),
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
    let is_it = |offer: &&Offer| offer.name == name && offer.style == style;
    FUNCTIONS.iter().find(is_it)
}

/// The macro with this name.
pub(crate) fn macro_call(name: &str, style: Style) -> Option<&'static Offer> {
    let is_it = |offer: &&Offer| offer.name == name && offer.style == style;
    MACROS.iter().find(is_it)
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
