//! JSON as values.
//!
//! `cel` reads a whole number that is not negative as a `uint`, so `n + 1` would fail: no `uint` adds to an `int`. Here a number
//! is an `int` if it fits, else a `double`.

use cel::common::types::{CelBool, CelDouble, CelInt, CelNull, CelString};
use serde_json::Value as Json;

use super::{Hidden, List, Map, Value};

/// As deep as serde_json reads, so every object that the API server sends fits.
const DEPTH: usize = 128;

/// An object is nested more than 128 levels deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object is nested more than 128 levels deep")]
pub struct TooDeep;

/// Which values are hidden, by the names of the fields that lead to them. The place of an element in a list adds nothing.
pub(crate) type Hides<'a> = &'a dyn Fn(&[&str]) -> bool;

impl Value {
    /// Converts JSON.
    ///
    /// # Errors
    /// If it is nested too deep.
    pub(crate) fn from_json(json: &Json, hides: Hides<'_>) -> Result<Self, TooDeep> {
        convert(json, DEPTH, &mut Vec::new(), hides)
    }
}

fn convert<'j>(
    json: &'j Json,
    depth: usize,
    path: &mut Vec<&'j str>,
    hides: Hides<'_>,
) -> Result<Value, TooDeep> {
    let inside = depth.checked_sub(1).ok_or(TooDeep)?;
    Ok(match json {
        Json::Null => Value::Null(CelNull),
        Json::Bool(value) => Value::Bool(CelBool::from(*value)),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::Int(CelInt::from(int)),
            (None, double) => Value::Double(CelDouble::from(double.unwrap_or(f64::NAN))),
        },
        Json::String(text) => text_of(text),
        Json::Array(elements) => {
            let values: Result<_, _> = elements
                .iter()
                .map(|element| convert(element, inside, path, hides))
                .collect();
            Value::List(List::new(values?))
        }
        Json::Object(fields) => {
            let mut entries = Vec::with_capacity(fields.len());
            for (key, value) in fields {
                path.push(key);
                let value = match hides(path) {
                    true => Ok(Value::Hidden(Hidden)),
                    false => convert(value, inside, path, hides),
                };
                path.pop();
                entries.push((text_of(key), value?));
            }
            Value::Map(Map::new(entries))
        }
    })
}

fn text_of(text: &str) -> Value {
    Value::String(CelString::from(text.to_owned()))
}
