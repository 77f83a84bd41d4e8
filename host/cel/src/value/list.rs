//! A list that is shared instead of copied, and whose walks are paid for.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cel::ExecutionError;
use cel::common::traits::{self, Adder, Container, Indexer, Iterable, Sizer};
use cel::common::types::{CelDouble, CelInt, CelUInt, LIST_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};

use super::{Value, equal, key, no_overload};
use crate::meter;

static TYPE: Type = LIST_TYPE;

/// A list of a condition.
#[derive(Clone)]
pub(crate) struct List(Arc<[Value]>);

impl List {
    pub(crate) fn new(elements: Vec<Value>) -> Self {
        Self(elements.into())
    }

    pub(crate) fn elements(&self) -> &[Value] {
        &self.0
    }
}

/// A list can hold another one often, so to write all of it out could take forever.
impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.0.len())
    }
}

impl Val for List {
    fn get_type(&self) -> &Type {
        &TYPE
    }

    fn cel_type() -> &'static Type {
        &TYPE
    }

    fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| {
            let pairs = self.0.iter().zip(other.0.iter());
            self.0.len() == other.0.len()
                && pairs
                    .into_iter()
                    .all(|(one, other)| equal(one.as_val(), other.as_val()))
        })
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for List {}

impl Adder for List {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(other) = other.downcast_ref::<Self>() else {
            return Err(no_overload("_+_", &[self, other]));
        };
        let length = self.0.len() + other.0.len();
        meter::charge(meter::of_size(length))?;
        let sum: Result<Vec<_>, _> = self
            .0
            .iter()
            .chain(other.0.iter())
            .map(Value::copied)
            .collect();
        Ok(CowVal::owned(Self::new(sum?)))
    }
}

impl Container for List {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        let found = self.0.iter().any(|element| equal(element.as_val(), value));
        // A comparison that the budget ended looks like one that failed.
        meter::charge(0).map(|()| found)
    }
}

impl List {
    fn at(&self, index: &dyn Val) -> Result<&Value, ExecutionError> {
        let position = if let Some(int) = index.downcast_ref::<CelInt>() {
            i128::from(*int.inner())
        } else if let Some(uint) = index.downcast_ref::<CelUInt>() {
            i128::from(*uint.inner())
        } else if let Some(double) = index.downcast_ref::<CelDouble>() {
            key::whole(*double.inner()).ok_or_else(|| no_overload("_[_]", &[self, index]))?
        } else {
            return Err(no_overload("_[_]", &[self, index]));
        };
        let element = usize::try_from(position)
            .ok()
            .and_then(|position| self.0.get(position));
        element.ok_or_else(|| {
            let position = i64::try_from(position).unwrap_or(i64::MAX);
            ExecutionError::IndexOutOfBounds(position.into())
        })
    }
}

impl Indexer for List {
    fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.at(index)
            .map(|element| CowVal::Borrowed(element.as_val()))
    }

    fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.at(index)
            .map(|element| element.as_val().clone_as_boxed())
    }
}

impl Iterable for List {
    fn iter<'b, 'v>(&'b self) -> Box<dyn traits::Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Elements(self.0.iter()))
    }
}

/// Goes through a list for a step each: this is where the rounds of macros are counted. It ends when the budget is spent, and
/// with it every loop; what the loop comes to is then of no interest.
struct Elements<'b>(std::slice::Iter<'b, Value>);

impl<'b, 'v> traits::Iterator<'b, 'v> for Elements<'b> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        let element = self.0.next()?;
        meter::charge(1).ok()?;
        Some(element.as_val())
    }
}

impl Sizer for List {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.0.len()).unwrap_or(i64::MAX))
    }
}
