//! Lists and maps, which are shared instead of copied, and whose walks are paid for.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cel::ExecutionError;
use cel::common::traits::{self, Adder, Container, Indexer, Iterable, Sizer};
use cel::common::types::{CelDouble, CelInt, CelUInt, LIST_TYPE, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};

use super::{Key, Value, equal, no_overload, whole};
use crate::message::HIDDEN;
use crate::meter;

/// What lists and maps are for `cel`: the same but for their type, what they have besides, and how they are compared.
macro_rules! collection {
    ($collection:ty, $kind:expr, |$one:ident, $other:ident| $equals:expr $(, $more:item)?) => {
        impl Val for $collection {
            fn get_type(&self) -> &Type {
                Self::cel_type()
            }

            fn cel_type() -> &'static Type {
                static TYPE: Type = $kind;
                &TYPE
            }

            $($more)?

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
                    let mut pairs = self.0.iter().zip(other.0.iter());
                    self.0.len() == other.0.len() && pairs.all(|($one, $other)| $equals)
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

        impl StaticVal for $collection {}

        impl Indexer for $collection {
            fn get<'b, 'v>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
            where
                Self: 'v,
            {
                self.at(index).map(|value| CowVal::Borrowed(value.as_val()))
            }

            fn steal<'v>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
            where
                Self: 'v,
            {
                self.at(index).map(|value| value.as_val().clone_as_boxed())
            }
        }

        impl Sizer for $collection {
            fn size(&self) -> CelInt {
                CelInt::from(i64::try_from(self.0.len()).unwrap_or(i64::MAX))
            }
        }
    };
}

/// Goes through a list or the keys of a map for a step each: this is where the rounds of macros are counted. It ends when the budget
/// is spent, and with it every loop; what the loop comes to is then of no interest.
struct Walk<I>(I);

impl<'b, 'v, I: Iterator<Item = &'b Value>> traits::Iterator<'b, 'v> for Walk<I> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        let value = self.0.next()?;
        meter::charge(1).ok()?;
        Some(value.as_val())
    }
}

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

collection!(
    List,
    LIST_TYPE,
    |one, other| equal(one.as_val(), other.as_val()),
    fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }
);

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
        let sum = self.0.iter().chain(other.0.iter()).map(Value::copied);
        let sum: Result<Vec<_>, _> = sum.collect();
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
            whole(*double.inner()).ok_or_else(|| no_overload("_[_]", &[self, index]))?
        } else {
            return Err(no_overload("_[_]", &[self, index]));
        };
        let element = usize::try_from(position).ok();
        let element = element.and_then(|position| self.0.get(position));
        element.ok_or_else(|| {
            let position = i64::try_from(position).unwrap_or(i64::MAX);
            ExecutionError::IndexOutOfBounds(position.into())
        })
    }
}

impl Iterable for List {
    fn iter<'b, 'v>(&'b self) -> Box<dyn traits::Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Walk(self.0.iter()))
    }
}

/// A map of a condition. Its entries are sorted by key, and no key is there twice.
#[derive(Clone)]
pub(crate) struct Map(Arc<[(Value, Value)]>);

impl Map {
    /// Makes a map. Of two entries with one key, one is kept.
    pub(crate) fn new(mut entries: Vec<(Value, Value)>) -> Self {
        entries.sort_by(|(one, _), (other, _)| Key::of(one.as_val()).cmp(&Key::of(other.as_val())));
        entries.dedup_by(|(one, _), (other, _)| Key::of(one.as_val()) == Key::of(other.as_val()));
        Self(entries.into())
    }

    pub(crate) fn entries(&self) -> &[(Value, Value)] {
        &self.0
    }

    /// The value of a key that is text.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.find(Key::Text(name))
    }

    fn find(&self, key: Key<'_>) -> Option<&Value> {
        let compare = |(own, _): &(Value, Value)| Key::of(own.as_val()).cmp(&Some(key));
        let position = self.0.binary_search_by(compare).ok()?;
        self.0.get(position).map(|(_, value)| value)
    }

    fn at(&self, key: &dyn Val) -> Result<&Value, ExecutionError> {
        let Some(key) = Key::of(key) else {
            return Err(no_overload("_[_]", &[self, key]));
        };
        let found = self.find(key).ok_or_else(|| match key {
            Key::Bool(key) => ExecutionError::no_such_key(&key.to_string()),
            Key::Number(key) => ExecutionError::no_such_key(&key.to_string()),
            Key::Text(key) => ExecutionError::no_such_key(key),
        })?;
        match (found, key) {
            (Value::Hidden(_), Key::Text(key)) => Err(ExecutionError::function_error(key, HIDDEN)),
            _ => Ok(found),
        }
    }
}

/// As of a list: not all of it.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map of {}", self.0.len())
    }
}

collection!(Map, MAP_TYPE, |one, other| {
    equal(one.0.as_val(), other.0.as_val()) && equal(one.1.as_val(), other.1.as_val())
});

impl Container for Map {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        meter::charge(1)?;
        match Key::of(key) {
            Some(key) => Ok(self.find(key).is_some()),
            // A fraction equals no key.
            None if key.downcast_ref::<CelDouble>().is_some() => Ok(false),
            None => Err(no_overload("@in", &[key, self])),
        }
    }
}

impl Iterable for Map {
    fn iter<'b, 'v>(&'b self) -> Box<dyn traits::Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Walk(self.0.iter().map(|(key, _)| key)))
    }
}
