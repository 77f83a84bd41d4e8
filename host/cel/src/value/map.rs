//! A map that is shared instead of copied, in the order of its keys.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cel::ExecutionError;
use cel::common::traits::{self, Container, Indexer, Iterable, Sizer};
use cel::common::types::{CelDouble, CelInt, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};

use super::{Key, Value, equal, no_overload};
use crate::message::HIDDEN;
use crate::meter;

static TYPE: Type = MAP_TYPE;

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
        let found = self
            .0
            .binary_search_by(|(own, _)| Key::of(own.as_val()).cmp(&Some(key)));
        found
            .ok()
            .and_then(|position| self.0.get(position))
            .map(|(_, value)| value)
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

impl Val for Map {
    fn get_type(&self) -> &Type {
        &TYPE
    }

    fn cel_type() -> &'static Type {
        &TYPE
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
            let mut pairs = self.0.iter().zip(other.0.iter());
            self.0.len() == other.0.len()
                && pairs.all(|((key, value), (other_key, other))| {
                    equal(key.as_val(), other_key.as_val()) && equal(value.as_val(), other.as_val())
                })
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

impl StaticVal for Map {}

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

impl Indexer for Map {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.at(key).map(|value| CowVal::Borrowed(value.as_val()))
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.at(key).map(|value| value.as_val().clone_as_boxed())
    }
}

impl Iterable for Map {
    fn iter<'b, 'v>(&'b self) -> Box<dyn traits::Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(Keys(self.0.iter()))
    }
}

/// Goes through the keys for a step each, as a list's iterator does.
struct Keys<'b>(std::slice::Iter<'b, (Value, Value)>);

impl<'b, 'v> traits::Iterator<'b, 'v> for Keys<'b> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        let (key, _) = self.0.next()?;
        meter::charge(1).ok()?;
        Some(key.as_val())
    }
}

impl Sizer for Map {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.0.len()).unwrap_or(i64::MAX))
    }
}
