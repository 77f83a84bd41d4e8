//! Follows a path into a pod, segment by segment, without reading anything that the grants do not reveal.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use crate::check::noun;
use crate::error::AccessError;
use crate::grant::tree::{Coverage, Sight};
use crate::path::{ListSegment, Path, Segments, Selector, advice, has_field, push_escaped};
use crate::schema::{ROOT, Schema, Shape};

/// A position on the way along a path.
#[derive(Debug)]
pub(crate) struct Walk<'p, 'v> {
    path: Path<'p>,
    rest: Segments<'p>,
    /// The value at the path so far; none if it is missing or null, which means the same.
    pub(crate) here: Option<&'v Value>,
    /// The schema of that value.
    pub(crate) schema: Schema,
    places: &'v Places,
}

/// What one segment reached.
#[derive(Debug)]
pub(crate) enum WalkStep<'p, 'v> {
    /// A field of an object, or of a missing one.
    Key {
        /// The segment.
        raw: &'p str,
        key: Cow<'p, str>,
    },
    /// An element of a list.
    Element(ListElement<'p, 'v>),
    Missing(MissingElement<'p, 'v>),
    /// An element that the segment must not name, since the grants do not reveal it.
    Hidden(Hidden),
}

/// A missing element.
#[derive(Debug)]
pub(crate) struct MissingElement<'p, 'v> {
    /// The segment.
    pub(crate) raw: &'p str,
    pub(crate) segment: ListSegment<'p>,
    /// None if the list is missing, too.
    pub(crate) list: Option<&'v [Value]>,
    /// The type of the list.
    pub(crate) schema: Schema,
}

/// What is not granted of a path.
#[derive(Debug)]
pub(crate) enum Hidden {
    /// The path itself, or the length of a list that an index in it would reveal.
    Path,
    /// A field of the list's elements; holds its path with `*` for the element.
    Field(String),
}

/// An element of a list.
#[derive(Debug)]
pub(crate) struct ListElement<'p, 'v> {
    /// The segment.
    pub(crate) raw: &'p str,
    pub(crate) list: &'v [Value],
    pub(crate) index: usize,
    pub(crate) value: &'v Value,
    /// The selector that named it; none if it was named by index.
    pub(crate) selector: Option<Selector<'p>>,
    /// The type of the list.
    pub(crate) schema: Schema,
}

impl<'p, 'v> Walk<'p, 'v> {
    pub(crate) fn new(pod: &'v Value, path: Path<'p>, places: &'v Places) -> Self {
        Self {
            path,
            rest: path.segments(),
            here: Some(pod),
            schema: ROOT,
            places,
        }
    }

    /// Whether no segment is left.
    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_done()
    }

    /// Takes one step; none at the end of the path. Reads only what the grants that cover the path so far reveal.
    // Otherwise each step is moved twice, which takes a tenth of the time of a write.
    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        coverage: &Coverage<'_>,
    ) -> Result<Option<WalkStep<'p, 'v>>, AccessError> {
        let Some(raw) = self.rest.next() else {
            return Ok(None);
        };
        let step = match self.here {
            Some(Value::Object(fields)) => {
                let key = self.path.key(raw);
                self.here = fields.get(&*key).filter(|value| !value.is_null());
                self.schema = self.schema.field(&key);
                WalkStep::Key { raw, key }
            }
            Some(Value::Array(list)) => self.step_in_list(raw, list, coverage)?,
            None | Some(Value::Null) => self.step_in_nothing(raw, coverage)?,
            Some(scalar) => {
                let reason = format_args!(
                    "before {raw:?} it leads to {}, which has no fields{}",
                    noun(scalar),
                    advice(self.path.text())
                );
                return Err(AccessError::invalid_path(self.path.text(), reason));
            }
        };
        Ok(Some(step))
    }

    fn step_in_list(
        &mut self,
        raw: &'p str,
        list: &'v [Value],
        coverage: &Coverage<'_>,
    ) -> Result<WalkStep<'p, 'v>, AccessError> {
        let segment = self.list_segment(raw)?;
        let sight = match self.look(raw, &segment, coverage) {
            Ok(sight) => sight,
            Err(hidden) => return Ok(WalkStep::Hidden(hidden)),
        };
        let index = match &segment {
            ListSegment::Index(index) => Some(*index),
            ListSegment::End => None,
            ListSegment::Selector(selector) => {
                let sees =
                    |element: &Value| sight == Sight::All || coverage.sees(selector, element);
                match self.schema.element_key() {
                    Some(key) if sight == Sight::All && selector.key == key => {
                        let place = self.places.find(list, key, &selector.value);
                        self.one(raw, place)?
                    }
                    _ => self.select(raw, selector, list, sees)?,
                }
            }
        };
        let schema = self.schema;
        self.schema = schema.element();
        let Some((index, value)) = index.and_then(|index| Some((index, list.get(index)?))) else {
            self.here = None;
            return Ok(WalkStep::Missing(MissingElement {
                raw,
                segment,
                list: Some(list),
                schema,
            }));
        };
        self.here = Some(value);
        let selector = match segment {
            ListSegment::Selector(selector) => Some(selector),
            ListSegment::Index(_) | ListSegment::End => None,
        };
        Ok(WalkStep::Element(ListElement {
            raw,
            list,
            index,
            value,
            selector,
            schema,
        }))
    }

    /// For a missing value the schema decides what the segment means, or the form of the segment if the schema does not know.
    fn step_in_nothing(
        &mut self,
        raw: &'p str,
        coverage: &Coverage<'_>,
    ) -> Result<WalkStep<'p, 'v>, AccessError> {
        self.here = None;
        let schema = self.schema;
        match schema.shape() {
            Shape::Scalar => {
                let reason = format_args!(
                    "before {raw:?} it leads to {}, which has no fields{}",
                    schema.noun(),
                    advice(self.path.text())
                );
                Err(AccessError::invalid_path(self.path.text(), reason))
            }
            Shape::Unknown if !ListSegment::is_meant(raw) => Ok(self.step_to_key(raw)),
            Shape::Object => Ok(self.step_to_key(raw)),
            Shape::List | Shape::Unknown => {
                let segment = self.list_segment(raw)?;
                if let Err(hidden) = self.look(raw, &segment, coverage) {
                    return Ok(WalkStep::Hidden(hidden));
                }
                self.schema = schema.element();
                Ok(WalkStep::Missing(MissingElement {
                    raw,
                    segment,
                    list: None,
                    schema,
                }))
            }
        }
    }

    fn step_to_key(&mut self, raw: &'p str) -> WalkStep<'p, 'v> {
        let key = self.path.key(raw);
        self.schema = self.schema.field(&key);
        WalkStep::Key { raw, key }
    }

    fn list_segment(&self, raw: &'p str) -> Result<ListSegment<'p>, AccessError> {
        ListSegment::parse(raw).ok_or_else(|| {
            let key = self.schema.element_key().unwrap_or("key");
            let reason = format_args!(
                "{raw:?} is on a list; name an element as `[{key}=value]` or by its index, such as `0`{}",
                advice(self.path.text())
            );
            AccessError::invalid_path(self.path.text(), reason)
        })
    }

    /// Which elements a segment may search, or what it would read without a grant.
    fn look(
        &self,
        raw: &'p str,
        segment: &ListSegment<'p>,
        coverage: &Coverage<'_>,
    ) -> Result<Sight, Hidden> {
        match segment {
            // Reveals nothing about the list.
            ListSegment::End => Ok(Sight::None),
            ListSegment::Index(_) if coverage.shows_positions() => Ok(Sight::All),
            ListSegment::Index(_) => Err(Hidden::Path),
            ListSegment::Selector(selector) => {
                match coverage.sight(selector, self.schema.element_key()) {
                    Sight::None => Err(Hidden::Field(self.field_of_each(raw, selector))),
                    sight => Ok(sight),
                }
            }
        }
    }

    /// The path of a selector's field in all elements of the list here.
    fn field_of_each(&self, raw: &str, selector: &Selector<'_>) -> String {
        let text = self.path.text();
        let end = text.len() - self.rest.text().len() - raw.len();
        let mut path = text.get(..end).unwrap_or_default().to_owned();
        path.push_str("*/");
        push_escaped(&mut path, &selector.key);
        path
    }

    fn select(
        &self,
        raw: &str,
        selector: &Selector<'_>,
        list: &[Value],
        sees: impl Fn(&Value) -> bool,
    ) -> Result<Option<usize>, AccessError> {
        let mut matching = list
            .iter()
            .enumerate()
            .filter(|(_, element)| selector.matches(element) && sees(element));
        let first = matching.next().map(|(index, _)| index);
        self.one(
            raw,
            match (first, matching.count()) {
                (None, _) => Place::Nowhere,
                (Some(index), 0) => Place::One(index),
                (Some(_), more) => Place::Several(more + 1),
            },
        )
    }

    /// The index of the only element that a segment selects.
    fn one(&self, raw: &str, place: Place) -> Result<Option<usize>, AccessError> {
        match place {
            Place::Nowhere => Ok(None),
            Place::One(index) => Ok(Some(index)),
            Place::Several(count) => {
                let reason =
                    format_args!("{raw:?} matches {count} elements; name one by its index");
                Err(AccessError::invalid_path(self.path.text(), reason))
            }
        }
    }
}

/// Shorter lists are searched, which is faster than to remember them.
const LONG: usize = 64;

/// Where the elements of the long lists of a pod are, by their merge keys, if something was looked for in them.
///
/// Without it, each path such as `/spec/containers/[name=app]` would be compared with all elements of the list, and a plugin that writes
/// to each of them would take time that grows with the square of their number.
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

#[cfg(test)]
mod tests;
