//! Quantities and numbers: how a program makes them of texts, and calculates with them.

use podloom_plugin_sdk::decimal;
use podloom_plugin_sdk::prelude::*;
use rhai::{Dynamic, Engine, FLOAT, INT};

use crate::strict::Answer;

pub(crate) fn register(engine: &mut Engine) {
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
