//! Comparisons that never answer where they cannot know: values of different types, and absent ones, are an error of the program.
//!
//! Rhai itself answers `false` there, and a rule that denies what is larger lets everything pass. Its quick operators do not ask
//! what is registered here, so `language` switches them off.

use std::cmp::Ordering;

use podloom_plugin_sdk::decimal;
use podloom_plugin_sdk::prelude::*;
use rhai::{Array, Dynamic, Engine, EvalAltResult, FLOAT, INT, ImmutableString, Map};

/// A result of a function that programs call.
pub(crate) type Answer<T> = Result<T, Box<EvalAltResult>>;

/// A kind of value, as far as comparisons distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Absent,
    Bool,
    /// With or without a fraction.
    Number,
    Quantity,
    Text,
    List,
    Map,
    Other,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Absent => "an absent value",
            Self::Bool => "a bool",
            Self::Number => "a number",
            Self::Quantity => "a quantity",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Other => "an object",
        }
    }

    const fn is_amount(self) -> bool {
        matches!(self, Self::Number | Self::Quantity)
    }

    /// Whether one of two values can be larger than the other one.
    pub(crate) fn have_order(self, other: Self) -> bool {
        let has_order = matches!(self, Self::Bool | Self::Text);
        self.is_amount() && other.is_amount() || self == other && has_order
    }

    /// Whether two values can be the same, or one of them asks whether the other one is there.
    pub(crate) fn can_be_equal(self, other: Self) -> bool {
        let is_whole = |kind| matches!(kind, Self::Absent | Self::List | Self::Map);
        self == Self::Absent
            || other == Self::Absent
            || self.have_order(other)
            || self == other && is_whole(self)
    }
}

/// What to write in place of a comparison that has no answer.
pub(crate) const fn advice(one: Kind, other: Kind) -> &'static str {
    match (one, other) {
        (Kind::Absent, _) | (_, Kind::Absent) => {
            "ask `x != ()` first, or give a default, as in `x ?? 0`"
        }
        (Kind::Text, Kind::Quantity) | (Kind::Quantity, Kind::Text) => {
            "write quantity(...) around the text"
        }
        (Kind::Text, Kind::Number) | (Kind::Number, Kind::Text) => {
            "write parse_int(...) or quantity(...) around the text, or `.to_string()` behind the number"
        }
        (Kind::Text, Kind::Bool) | (Kind::Bool, Kind::Text) => {
            "write \"true\" or \"false\" for the bool"
        }
        (Kind::Text, Kind::Text) => {
            "texts are compared letter by letter, so write quantity(...) around both"
        }
        _ => "compare values of one type; type_of(x) tells which one it is",
    }
}

/// A value as comparisons see it.
enum Seen {
    Bool(bool),
    Number(INT),
    Fraction(FLOAT),
    Quantity(Quantity),
    Text(ImmutableString),
    Other(Kind),
}

impl Seen {
    fn of(value: &Dynamic) -> Self {
        if let Ok(number) = value.as_int() {
            return Self::Number(number);
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            return Self::Text(text.clone());
        }
        if let Ok(truth) = value.as_bool() {
            return Self::Bool(truth);
        }
        if let Ok(fraction) = value.as_float() {
            return Self::Fraction(fraction);
        }
        if let Ok(letter) = value.as_char() {
            return Self::Text(letter.to_string().into());
        }
        if let Some(quantity) = value.read_lock::<Quantity>() {
            return Self::Quantity(*quantity);
        }
        Self::Other(match () {
            () if value.is_unit() => Kind::Absent,
            () if value.is_array() => Kind::List,
            () if value.is_map() => Kind::Map,
            () => Kind::Other,
        })
    }

    const fn kind(&self) -> Kind {
        match self {
            Self::Bool(_) => Kind::Bool,
            Self::Number(_) | Self::Fraction(_) => Kind::Number,
            Self::Quantity(_) => Kind::Quantity,
            Self::Text(_) => Kind::Text,
            Self::Other(kind) => *kind,
        }
    }

    const fn fraction(&self) -> Option<FLOAT> {
        match self {
            Self::Number(number) => Some(*number as FLOAT),
            Self::Fraction(fraction) => Some(*fraction),
            _ => None,
        }
    }

    /// The amount of a number or quantity.
    fn amount(&self) -> Option<Quantity> {
        match self {
            Self::Number(number) => Some(Quantity::from(*number)),
            Self::Fraction(fraction) => decimal(*fraction, 9)?.parse().ok(),
            Self::Quantity(quantity) => Some(*quantity),
            _ => None,
        }
    }
}

fn no_answer<T>(operator: &str, one: Kind, other: Kind) -> Answer<T> {
    let what = match (one, other) {
        (Kind::Text, Kind::Text) => "texts with a quantity among them".to_owned(),
        _ => format!("{} with {}", one.name(), other.name()),
    };
    Err(format!("`{operator}` compares {what}: {}", advice(one, other)).into())
}

/// Which of two values is larger. Texts that look like amounts are an error too: `10Gi` comes before `4Gi` in the alphabet.
pub(crate) fn order(operator: &str, one: &Dynamic, other: &Dynamic) -> Answer<Ordering> {
    let (one, other) = (Seen::of(one), Seen::of(other));
    match (&one, &other) {
        (Seen::Number(one), Seen::Number(other)) => Ok(one.cmp(other)),
        (Seen::Bool(one), Seen::Bool(other)) => Ok(one.cmp(other)),
        (Seen::Text(text), Seen::Text(with)) if !are_amounts(operator, text, with) => {
            Ok(text.cmp(with))
        }
        _ => match (one.fraction(), other.fraction()) {
            (Some(one), Some(other)) => nearly(one, other),
            _ => one
                .amount()
                .zip(other.amount())
                .map(|(one, other)| one.cmp(&other)),
        }
        .map_or_else(|| no_answer(operator, one.kind(), other.kind()), Ok),
    }
}

/// None if one of them is no number. `0.1 + 0.2` is `0.3`.
fn nearly(one: FLOAT, other: FLOAT) -> Option<Ordering> {
    let largest = one.abs().max(other.abs());
    if largest.is_finite() && (one - other).abs() <= FLOAT::EPSILON * largest {
        return Some(Ordering::Equal);
    }
    one.partial_cmp(&other)
}

/// Whether a rule means amounts and not letters. For an operator one amount is enough: the pod's author writes the other text.
fn are_amounts(operator: &str, one: &str, other: &str) -> bool {
    match operator {
        "<" | "<=" | ">" | ">=" => is_quantity(one) || is_quantity(other),
        _ => is_quantity(one) && is_quantity(other),
    }
}

pub(crate) fn is_quantity(text: &str) -> bool {
    text.parse::<Quantity>().is_ok()
}

/// Whether two values are the same. An absent one is like no other, so that a program can ask what there is.
pub(crate) fn equal(operator: &str, one: &Dynamic, other: &Dynamic) -> Answer<bool> {
    if one.is_unit() || other.is_unit() {
        return Ok(one.is_unit() && other.is_unit());
    }
    if let (Ok(one), Ok(other)) = (one.as_array_ref(), other.as_array_ref()) {
        return same_list(operator, &one, &other);
    }
    if let (Ok(one), Ok(other)) = (one.as_map_ref(), other.as_map_ref()) {
        return same_map(operator, &one, &other);
    }
    match (Seen::of(one), Seen::of(other)) {
        (Seen::Text(one), Seen::Text(other)) => Ok(one == other),
        _ => order(operator, one, other).map(Ordering::is_eq),
    }
}

fn same_list(operator: &str, one: &Array, other: &Array) -> Answer<bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    for (one, other) in one.iter().zip(other) {
        if !equal(operator, one, other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_map(operator: &str, one: &Map, other: &Map) -> Answer<bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    for (key, one) in one {
        let is_same = match other.get(key) {
            Some(other) => equal(operator, one, other)?,
            None => false,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where a value is in a list, from a position on. An error if it is of another type than all that is there.
pub(crate) fn position(
    operator: &str,
    list: &Array,
    value: &Dynamic,
    from: usize,
) -> Answer<Option<usize>> {
    let (mut wrong, mut is_like_one) = (None, false);
    for (at, element) in list.iter().enumerate().skip(from) {
        match equal(operator, element, value) {
            Ok(true) => return Ok(Some(at)),
            // An absent element is like no value, so it says nothing about types.
            Ok(false) => is_like_one |= !element.is_unit(),
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    match wrong {
        Some(error) if !is_like_one => Err(error),
        _ => Ok(None),
    }
}

pub(crate) fn register(engine: &mut Engine) {
    register_orders(engine);
    // For lists and maps there are operators in Rhai's packages, which come before those for all types.
    engine
        .register_fn("==", |one: &mut Dynamic, other: Dynamic| {
            equal("==", one, &other)
        })
        .register_fn("!=", |one: &mut Dynamic, other: Dynamic| {
            equal("!=", one, &other).map(|same| !same)
        })
        .register_fn("==", |one: &mut Array, other: Array| {
            same_list("==", one, &other)
        })
        .register_fn("!=", |one: &mut Array, other: Array| {
            same_list("!=", one, &other).map(|same| !same)
        })
        .register_fn("==", |one: &mut Map, other: Map| {
            same_map("==", one, &other)
        })
        .register_fn("!=", |one: &mut Map, other: Map| {
            same_map("!=", one, &other).map(|same| !same)
        })
        .register_fn("!", |truth: bool| !truth);
    register_texts(engine);
}

/// An absent value is empty in a text, and every text begins with an empty one.
fn register_texts(engine: &mut Engine) {
    type Holds = fn(&str, &str) -> bool;
    let searches: [(&'static str, Holds); 3] = [
        ("starts_with", |text, part| text.starts_with(part)),
        ("ends_with", |text, part| text.ends_with(part)),
        ("contains", |text, part| text.contains(part)),
    ];
    for (name, holds) in searches {
        engine.register_fn(
            name,
            move |text: ImmutableString, part: ImmutableString| match part.is_empty() {
                true => Answer::Err(
                    format!("{name}: an empty text is in every text; ask `x != \"\"` first").into(),
                ),
                false => Ok(holds(&text, &part)),
            },
        );
    }
}

fn register_orders(engine: &mut Engine) {
    type Holds = fn(Ordering) -> bool;
    let orders: [(&str, Holds); 4] = [
        ("<", Ordering::is_lt),
        ("<=", Ordering::is_le),
        (">", Ordering::is_gt),
        (">=", Ordering::is_ge),
    ];
    for (operator, holds) in orders {
        engine.register_fn(operator, move |one: &mut Dynamic, other: Dynamic| {
            order(operator, one, &other).map(holds)
        });
    }
    // Those of texts take the place of some in Rhai's packages.
    engine
        .register_fn("max", |one: Dynamic, other: Dynamic| larger(one, other))
        .register_fn("min", |one: Dynamic, other: Dynamic| smaller(one, other))
        .register_fn("max", |one: ImmutableString, other: ImmutableString| {
            larger(one.into(), other.into())
        })
        .register_fn("min", |one: ImmutableString, other: ImmutableString| {
            smaller(one.into(), other.into())
        });
}

fn larger(one: Dynamic, other: Dynamic) -> Answer<Dynamic> {
    let is_less = order("max", &one, &other)?.is_lt();
    Ok(if is_less { other } else { one })
}

fn smaller(one: Dynamic, other: Dynamic) -> Answer<Dynamic> {
    let is_more = order("min", &one, &other)?.is_gt();
    Ok(if is_more { other } else { one })
}

/// Quantities and numbers: how a program makes them of texts, and calculates with them.
pub(crate) fn register_numbers(engine: &mut Engine) {
    engine
        .register_type_with_name::<Quantity>("quantity")
        .register_fn("quantity", quantity)
        .register_fn("to_string", |quantity: Quantity| quantity.to_string())
        .register_fn("+", |one: Quantity, other: Quantity| one + other)
        .register_fn("*", |one: Quantity, times: INT| one * times)
        .register_fn("*", |times: INT, one: Quantity| one * times)
        .register_fn("parse_int", |text: &str| {
            let number = text.trim().parse::<INT>();
            number.or_else(|_| wrong("parse_int: the text is no whole number"))
        })
        .register_fn("parse_float", |text: &str| {
            let number = text.trim().parse::<FLOAT>().ok();
            let number = number.filter(|number| number.is_finite());
            number.map_or_else(|| wrong("parse_float: the text is no number"), Ok)
        })
        .register_fn("to_int", |number: INT| number)
        .register_fn("to_int", |number: FLOAT| whole("to_int", number.trunc()))
        .register_fn("to_float", |number: INT| number as FLOAT)
        .register_fn("to_float", |number: FLOAT| number)
        .register_fn("round", |number: INT| number)
        .register_fn("round", |number: FLOAT| whole("round", number.round()))
        .register_fn("abs", |number: INT| {
            let number = number.checked_abs();
            number.map_or_else(|| wrong("abs: the number is too large"), Ok)
        })
        .register_fn("abs", |number: FLOAT| number.abs())
        .register_fn("-", |number: INT| {
            let number = number.checked_neg();
            number.map_or_else(|| wrong("-: the number is too large"), Ok)
        })
        .register_fn("-", |number: FLOAT| -number);
}

fn wrong<T>(message: &str) -> Answer<T> {
    Err(message.into())
}

/// The amount that a value stands for: a text such as `1.5Gi`, or a number.
fn quantity(value: Dynamic) -> Answer<Quantity> {
    if let Ok(text) = value.as_immutable_string_ref() {
        let quantity = text.parse::<Quantity>();
        return quantity.or_else(|error| wrong(&format!("quantity: the text {error}")));
    }
    if let Ok(number) = value.as_int() {
        return Ok(Quantity::from(number));
    }
    if let Some(text) = value.as_float().ok().and_then(|number| decimal(number, 9)) {
        return text
            .parse()
            .or_else(|_| wrong("quantity: the number is too large"));
    }
    match value.try_cast_result::<Quantity>() {
        Ok(quantity) => Ok(quantity),
        Err(value) if value.is_unit() => wrong(
            "quantity: there is no value: ask `x != ()` first, or give a default, as in `x ?? \"0\"`",
        ),
        Err(value) => wrong(&format!(
            "quantity: give a text or a number, not a value of type {}",
            value.type_name()
        )),
    }
}

fn whole(function: &str, number: FLOAT) -> Answer<INT> {
    // All whole numbers below are exact.
    if number.abs() < 9.0e15 {
        return Ok(number as INT);
    }
    wrong(&format!("{function}: the number is too large"))
}
