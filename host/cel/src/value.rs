//! The values of conditions: scalars are those of `cel`, lists and maps are our own.
//!
//! The lists and maps of `cel` are copied with all they hold whenever a macro's variable is bound, and their comparison cannot be
//! stopped. Ours are shared, so a copy costs nothing, and what walks through them pays for each element.
//! A map goes through its keys in order, so an evaluation always gives the same result.

mod collections;

use std::any::Any;

use cel::ExecutionError;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelNull, CelString,
    CelTimestamp, CelType, CelUInt, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use serde_json::Value as Json;

pub(crate) use self::collections::{List, Map};
use crate::meter;

/// A value that owns what it holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null(CelNull),
    Bool(CelBool),
    Int(CelInt),
    UInt(CelUInt),
    Double(CelDouble),
    String(CelString<'static>),
    Bytes(CelBytes<'static>),
    Timestamp(CelTimestamp),
    Duration(CelDuration),
    Type(CelType),
    List(List),
    Map(Map),
    Hidden(Hidden),
}

/// Does the same with whatever a value is.
macro_rules! each {
    ($it:expr, $value:ident => $result:expr) => {
        match $it {
            Self::Null($value) => $result,
            Self::Bool($value) => $result,
            Self::Int($value) => $result,
            Self::UInt($value) => $result,
            Self::Double($value) => $result,
            Self::String($value) => $result,
            Self::Bytes($value) => $result,
            Self::Timestamp($value) => $result,
            Self::Duration($value) => $result,
            Self::Type($value) => $result,
            Self::List($value) => $result,
            Self::Map($value) => $result,
            Self::Hidden($value) => $result,
        }
    };
}

impl Value {
    /// The value as `cel` knows it.
    pub(crate) fn as_val(&self) -> &(dyn Val + 'static) {
        each!(self, value => value)
    }

    /// The value as the result of a function.
    pub(crate) fn into_cow<'b, 'v>(self) -> CowVal<'b, 'v> {
        each!(self, value => CowVal::owned(value))
    }

    /// Takes over a value of `cel`: its lists and maps become ours, which costs a step for each element, and text is copied,
    /// which costs its bytes.
    ///
    /// # Errors
    /// If the budget is spent, or the value is of a kind that conditions do not have.
    pub(crate) fn adopt(val: &dyn Val) -> Result<Self, ExecutionError> {
        if let Some(value) = Self::shared(val) {
            return Ok(value);
        }
        if let Some(value) = val.downcast_ref::<CelString>() {
            meter::charge(meter::of_text(value.len()))?;
            return Ok(Self::String(value.clone().into_static()));
        }
        if let Some(value) = val.downcast_ref::<CelBytes>() {
            meter::charge(meter::of_text(value.inner().len()))?;
            return Ok(Self::Bytes(CelBytes::from(value.inner().to_vec())));
        }
        if let Some(list) = val.downcast_ref::<CelList>() {
            meter::charge(meter::of_size(list.inner().len()))?;
            let elements = list.inner().iter();
            let adopted: Result<_, _> = elements.map(|it| Self::adopt(it.as_ref())).collect();
            return Ok(Self::List(List::new(adopted?)));
        }
        if let Some(map) = val.downcast_ref::<CelMap>() {
            meter::charge(meter::of_size(map.inner().len()))?;
            let adopted = map.inner().iter().map(|(key, value)| {
                Ok::<_, ExecutionError>((Self::adopt(key.inner())?, Self::adopt(value.as_ref())?))
            });
            let adopted: Result<_, _> = adopted.collect();
            return Ok(Self::Map(Map::new(adopted?)));
        }
        Err(ExecutionError::UnexpectedType {
            got: val.get_type().name().to_owned(),
            want: "a value of a condition".to_owned(),
        })
    }

    /// The value, if a copy of it costs nothing.
    fn shared(val: &dyn Val) -> Option<Self> {
        macro_rules! first {
            ($($variant:ident($type:ty)),+) => {
                $(if let Some(value) = val.downcast_ref::<$type>() {
                    return Some(Self::$variant(<$type>::clone(value)));
                })+
            };
        }
        first!(
            Bool(CelBool),
            Int(CelInt),
            UInt(CelUInt),
            Double(CelDouble),
            List(List),
            Map(Map)
        );
        first!(
            Timestamp(CelTimestamp),
            Duration(CelDuration),
            Type(CelType),
            Null(CelNull)
        );
        None
    }

    /// A copy. Only text costs anything.
    ///
    /// # Errors
    /// If the budget is spent.
    pub(crate) fn copied(&self) -> Result<Self, ExecutionError> {
        meter::charge(text_steps(self.as_val()))?;
        Ok(self.clone())
    }
}

/// The steps of reading or copying a value's text; 0 if it is no text.
pub(crate) fn text_steps(val: &dyn Val) -> u64 {
    if let Some(text) = val.downcast_ref::<CelString>() {
        meter::of_text(text.len())
    } else if let Some(bytes) = val.downcast_ref::<CelBytes>() {
        meter::of_text(bytes.inner().len())
    } else {
        0
    }
}

/// Compares two elements, for a step and their text. `false` if the budget is spent.
pub(crate) fn equal(one: &dyn Val, other: &dyn Val) -> bool {
    let text = text_steps(one).min(text_steps(other));
    meter::charge(1 + text).is_ok() && one.equals(other)
}

/// No function takes values of these types.
pub(crate) fn no_overload(function: &str, values: &[&dyn Val]) -> ExecutionError {
    let types = values.iter().map(|it| it.get_type().name().to_owned());
    ExecutionError::no_such_overload(function, types.collect())
}

/// A value that conditions must not read: a map that has it gives it to nobody, and it equals nothing, not even itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden;

impl Val for Hidden {
    fn get_type(&self) -> &Type {
        Self::cel_type()
    }

    fn cel_type() -> &'static Type {
        static TYPE: Type = Type::new_unspecified_type("hidden");
        &TYPE
    }

    fn equals(&self, _: &dyn Val) -> bool {
        false
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Hidden {}

/// As deep as serde_json reads, so every object that the API server sends fits.
const DEPTH: usize = 128;

/// An object is nested more than 128 levels deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object is nested more than 128 levels deep")]
pub struct TooDeep;

/// Which values are hidden, by the names of the fields that lead to them. The place of an element in a list adds nothing.
pub(crate) type Hides<'a> = &'a dyn Fn(&[&str]) -> bool;

impl Value {
    /// Converts JSON. A number is an `int` if it fits, else a `double`: `cel` reads a whole number that is not negative as a `uint`, so
    /// `n + 1` would fail, since no `uint` adds to an `int`.
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
            let values = elements.iter();
            let values = values.map(|element| convert(element, inside, path, hides));
            Value::List(List::new(values.collect::<Result<_, _>>()?))
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

/// A key as it is looked up: numbers are equal by value whatever their type, so `{1u: "one"}[1]` finds "one".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key<'a> {
    Bool(bool),
    Number(i128),
    Text(&'a str),
}

impl<'a> Key<'a> {
    /// The value as a key; `None` if it cannot be one: no map has a list or a fraction as a key.
    pub(crate) fn of(val: &'a dyn Val) -> Option<Self> {
        if let Some(text) = val.downcast_ref::<CelString>() {
            Some(Self::Text(text.inner()))
        } else if let Some(int) = val.downcast_ref::<CelInt>() {
            Some(Self::Number((*int.inner()).into()))
        } else if let Some(uint) = val.downcast_ref::<CelUInt>() {
            Some(Self::Number((*uint.inner()).into()))
        } else if let Some(double) = val.downcast_ref::<CelDouble>() {
            whole(*double.inner()).map(Self::Number)
        } else {
            val.downcast_ref::<CelBool>()
                .map(|value| Self::Bool(*value.inner()))
        }
    }
}

/// The number, if it is a whole one that an `int` or a `uint` can be.
#[expect(
    clippy::cast_possible_truncation,
    reason = "whole and below 2^64, so it fits"
)]
fn whole(number: f64) -> Option<i128> {
    let fits = number.fract() == 0.0 && number.abs() < 2_f64.powi(64);
    fits.then_some(number as i128)
}
