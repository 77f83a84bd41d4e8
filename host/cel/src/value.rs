//! The values of conditions: scalars are those of `cel`, lists and maps are our own.
//!
//! The lists and maps of `cel` are copied with all they hold whenever a macro's variable is bound, and their comparison cannot be
//! stopped. Ours are shared, so a copy costs nothing, and what walks through them pays for each element.
//! A map goes through its keys in order, so an evaluation always gives the same result.

mod hidden;
mod json;
mod key;
mod list;
mod map;

use cel::ExecutionError;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelNull, CelString,
    CelTimestamp, CelType, CelUInt,
};
use cel::common::value::{CowVal, Val};

use crate::meter;

pub(crate) use self::hidden::Hidden;
pub use self::json::TooDeep;
pub(crate) use self::key::Key;
pub(crate) use self::list::List;
pub(crate) use self::map::Map;

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

impl Value {
    /// The value as `cel` knows it.
    pub(crate) fn as_val(&self) -> &(dyn Val + 'static) {
        match self {
            Self::Null(value) => value,
            Self::Bool(value) => value,
            Self::Int(value) => value,
            Self::UInt(value) => value,
            Self::Double(value) => value,
            Self::String(value) => value,
            Self::Bytes(value) => value,
            Self::Timestamp(value) => value,
            Self::Duration(value) => value,
            Self::Type(value) => value,
            Self::List(value) => value,
            Self::Map(value) => value,
            Self::Hidden(value) => value,
        }
    }

    /// The value as the result of a function.
    pub(crate) fn into_cow<'b, 'v>(self) -> CowVal<'b, 'v> {
        match self {
            Self::Null(value) => CowVal::owned(value),
            Self::Bool(value) => CowVal::owned(value),
            Self::Int(value) => CowVal::owned(value),
            Self::UInt(value) => CowVal::owned(value),
            Self::Double(value) => CowVal::owned(value),
            Self::String(value) => CowVal::owned(value),
            Self::Bytes(value) => CowVal::owned(value),
            Self::Timestamp(value) => CowVal::owned(value),
            Self::Duration(value) => CowVal::owned(value),
            Self::Type(value) => CowVal::owned(value),
            Self::List(value) => CowVal::owned(value),
            Self::Map(value) => CowVal::owned(value),
            Self::Hidden(value) => CowVal::owned(value),
        }
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
            let adopted: Result<_, _> = list
                .inner()
                .iter()
                .map(|element| Self::adopt(element.as_ref()))
                .collect();
            return Ok(Self::List(List::new(adopted?)));
        }
        if let Some(map) = val.downcast_ref::<CelMap>() {
            meter::charge(meter::of_size(map.inner().len()))?;
            let adopted: Result<_, _> = map
                .inner()
                .iter()
                .map(|(key, value)| Ok((Self::adopt(key.inner())?, Self::adopt(value.as_ref())?)))
                .collect();
            return Ok(Self::Map(Map::new(adopted?)));
        }
        Err(ExecutionError::UnexpectedType {
            got: val.get_type().name().to_owned(),
            want: "a value of a condition".to_owned(),
        })
    }

    /// The value, if a copy of it costs nothing.
    fn shared(val: &dyn Val) -> Option<Self> {
        if let Some(value) = val.downcast_ref::<CelBool>() {
            Some(Self::Bool(*value))
        } else if let Some(value) = val.downcast_ref::<CelInt>() {
            Some(Self::Int(*value))
        } else if let Some(value) = val.downcast_ref::<CelUInt>() {
            Some(Self::UInt(*value))
        } else if let Some(value) = val.downcast_ref::<CelDouble>() {
            Some(Self::Double(*value))
        } else if let Some(value) = val.downcast_ref::<List>() {
            Some(Self::List(value.clone()))
        } else if let Some(value) = val.downcast_ref::<Map>() {
            Some(Self::Map(value.clone()))
        } else if let Some(value) = val.downcast_ref::<CelTimestamp>() {
            Some(Self::Timestamp(value.clone()))
        } else if let Some(value) = val.downcast_ref::<CelDuration>() {
            Some(Self::Duration(*value))
        } else if let Some(value) = val.downcast_ref::<CelType>() {
            Some(Self::Type(value.clone()))
        } else {
            val.downcast_ref::<CelNull>()
                .map(|value| Self::Null(*value))
        }
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
    let types = values
        .iter()
        .map(|value| value.get_type().name().to_owned());
    ExecutionError::no_such_overload(function, types.collect())
}
