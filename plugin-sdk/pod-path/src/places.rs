//! Where the elements of long lists are, by their merge keys.
//!
//! Without it, each path such as `/spec/containers/[name=app]` would be compared with all elements of the list, and a plugin that writes
//! to each of them would take time that grows with the square of their number.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use crate::path::has_field;

/// Shorter lists are searched, which is faster than to remember them.
const LONG: usize = 64;

/// The long lists of a pod in which something was looked for.
///
/// They are known by the address of their elements: a transaction keeps all that it takes out of the pod until it ends, so no address is
/// used again but by a list that grows. Each write to the pod must be reported here.
#[derive(Debug, Default)]
pub(crate) struct Places(RefCell<HashMap<usize, Elements>>);

/// The elements of a list by the text of one field.
#[derive(Debug)]
struct Elements {
    field: &'static str,
    places: HashMap<String, Place>,
    length: usize,
}

/// Where in a list a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Nowhere,
    /// In the element at this index.
    One(usize),
    /// In so many elements.
    Several(usize),
}

impl Place {
    fn and(self, index: usize) -> Self {
        match self {
            Self::Nowhere => Self::One(index),
            Self::One(_) => Self::Several(2),
            Self::Several(count) => Self::Several(count + 1),
        }
    }
}

impl Places {
    /// Finds the elements of a list whose field has this text. The field is the list's merge key.
    pub(crate) fn find(&self, list: &[Value], field: &'static str, text: &str) -> Place {
        if list.len() < LONG {
            return search(list, field, text);
        }
        let mut lists = self.0.borrow_mut();
        let elements = lists
            .entry(address(list))
            .or_insert_with(|| Elements::of(list, field));
        if elements.length != list.len() || elements.field != field {
            *elements = Elements::of(list, field);
        }
        elements.find(text)
    }

    /// A field of an object has changed, which may be the merge key of an element.
    pub(crate) fn field_changed(&mut self, field: &str) {
        self.0
            .get_mut()
            .retain(|_, elements| elements.field != field);
    }

    /// The element at an index is going to be replaced.
    pub(crate) fn replacing(&mut self, list: &[Value], index: usize, new: &Value) {
        let Entry::Occupied(known) = self.0.get_mut().entry(address(list)) else {
            return;
        };
        let field = known.get().field;
        let old = list.get(index).and_then(|old| text_of(old, field));
        if old != text_of(new, field) {
            known.remove();
        }
    }

    /// The element at an index is going to be removed.
    pub(crate) fn removing(&mut self, list: &[Value], index: usize) {
        let Entry::Occupied(mut known) = self.0.get_mut().entry(address(list)) else {
            return;
        };
        let elements = known.get_mut();
        let text = list.get(index).and_then(|old| text_of(old, elements.field));
        let place = text.map(|text| elements.places.remove(&*text));
        if let Some(Some(Place::Several(_))) = place {
            // The index of the one that may be left is not known.
            known.remove();
            return;
        }
        elements.length -= 1;
        elements.shift(|place| if place > index { place - 1 } else { place });
    }

    /// An element was inserted at an index into the list that was at this address.
    pub(crate) fn inserted(&mut self, before: usize, list: &[Value], index: usize) {
        let lists = self.0.get_mut();
        let (Some(mut elements), Some(new)) = (lists.remove(&before), list.get(index)) else {
            return;
        };
        if index + 1 < list.len() {
            elements.shift(|place| if place >= index { place + 1 } else { place });
        }
        elements.length += 1;
        elements.add(index, new);
        lists.insert(address(list), elements);
    }

    /// The whole pod has changed.
    pub(crate) fn forget(&mut self) {
        self.0.get_mut().clear();
    }
}

impl Elements {
    fn of(list: &[Value], field: &'static str) -> Self {
        let mut elements = Self {
            field,
            places: HashMap::with_capacity(list.len()),
            length: list.len(),
        };
        for (index, element) in list.iter().enumerate() {
            elements.add(index, element);
        }
        elements
    }

    fn add(&mut self, index: usize, element: &Value) {
        count_look();
        if let Some(text) = text_of(element, self.field) {
            let place = self.places.entry(text.into_owned());
            let place = place.or_insert(Place::Nowhere);
            *place = place.and(index);
        }
    }

    fn find(&self, text: &str) -> Place {
        count_look();
        self.places.get(text).copied().unwrap_or(Place::Nowhere)
    }

    fn shift(&mut self, to: impl Fn(usize) -> usize) {
        for place in self.places.values_mut() {
            if let Place::One(index) = place {
                *index = to(*index);
            }
        }
    }
}

fn search(list: &[Value], field: &str, text: &str) -> Place {
    let elements = list.iter().enumerate();
    let found = elements.filter(|(_, element)| {
        count_look();
        has_field(element, field, text)
    });
    found.fold(Place::Nowhere, |place, (index, _)| place.and(index))
}

/// The address of a list's elements.
pub(crate) fn address(list: &[Value]) -> usize {
    list.as_ptr().addr()
}

/// The value by which a selector would name an element.
pub(crate) fn text_of<'v>(element: &'v Value, key: &str) -> Option<Cow<'v, str>> {
    match element.get(key)? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(not(test))]
fn count_look() {}

#[cfg(test)]
fn count_look() {
    tests::LOOKS.set(tests::LOOKS.get() + 1);
}
