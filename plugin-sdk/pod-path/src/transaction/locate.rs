//! Where a write leads, before anything is known of its value.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::log::ListSteps;
use crate::error::AccessError;
use crate::grant::tree::{Coverage, Reached};
use crate::path::{ListSegment, Path, Selector, has_field, push_escaped};
use crate::schema::{ROOT, Schema};
use crate::walk::{Hidden, ListElement, Walk, WalkStep};

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Set,
    Insert,
    Remove,
}

/// Where a write leads.
#[derive(Debug)]
pub(super) struct WriteTarget<'p, 'v, 'g> {
    /// The canonical path, without the last segment where that is a [`Last::Missing`], or the place of an insertion.
    pub(super) canonical: String,
    /// Where the canonical path leads through lists.
    pub(super) steps: ListSteps,
    /// How many segments the path has.
    pub(super) depth: usize,
    /// What is there.
    pub(super) here: Option<&'v Value>,
    /// What belongs there.
    pub(super) schema: Schema,
    /// Whether it is a value of a map.
    pub(super) in_map: bool,
    /// What grants say of the canonical path.
    pub(super) coverage: Coverage<'g>,
    pub(super) last: Last<'p, 'v>,
    /// The topmost parent that is missing.
    pub(super) absent: Option<Absent<'p>>,
    /// Whether the path leads through an element that does not exist.
    pub(super) blocked: bool,
}

/// What the last segment led to.
#[derive(Debug)]
pub(super) enum Last<'p, 'v> {
    Root,
    Key,
    Element(ListElement<'p, 'v>),
    Missing {
        raw: &'p str,
        segment: ListSegment<'p>,
        list: Option<&'v [Value]>,
        schema: Schema,
    },
}

/// Where a path leaves what was granted.
#[derive(Debug)]
pub(super) enum Outside {
    /// It leads to another place.
    Place,
    /// A selector in it would read this field.
    Field(String),
}

/// A parent that is missing.
#[derive(Debug)]
pub(super) struct Absent<'p> {
    /// How many segments lead to what is there.
    pub(super) depth: usize,
    /// The keys below it.
    pub(super) keys: Vec<Cow<'p, str>>,
}

impl<'p, 'v, 'g> WriteTarget<'p, 'v, 'g> {
    /// The root of the pod, where every path begins.
    pub(super) fn root(coverage: Coverage<'g>) -> Self {
        Self {
            canonical: String::new(),
            steps: ListSteps::default(),
            depth: 0,
            here: None,
            schema: ROOT,
            in_map: false,
            coverage,
            last: Last::Root,
            absent: None,
            blocked: false,
        }
    }

    /// Goes from the root to where a path leads, unless it leads out of what was granted: the rest of the pod is not looked at.
    /// This is done in place, because a target is costly to move.
    pub(super) fn locate(
        &mut self,
        pod: &'v Value,
        path: Path<'p>,
        operation: Operation,
    ) -> Result<Option<Outside>, AccessError> {
        let mut walk = Walk::new(pod, path);
        self.canonical.reserve(path.text().len() + 16);
        loop {
            if self.coverage.is_lost() {
                return Ok(Some(Outside::Place));
            }
            self.in_map = matches!(walk.schema, Schema::Map(_));
            let Some(step) = walk.step(&self.coverage)? else {
                break;
            };
            self.depth += 1;
            match (step, walk.is_done()) {
                (WalkStep::Key { raw, key }, is_last) => {
                    self.pass_key(raw, key, walk.here.is_none() && !is_last);
                }
                (WalkStep::Element(element), true) if operation == Operation::Insert => {
                    self.last = Last::Element(element);
                }
                (WalkStep::Element(element), is_last) => {
                    self.blocked |= element.value.is_null() && !is_last;
                    self.pass_element(element);
                }
                (
                    WalkStep::Missing {
                        raw,
                        segment,
                        list,
                        schema,
                    },
                    is_last,
                ) => {
                    self.blocked |= !is_last;
                    self.pass_missing(raw, segment, list, schema);
                }
                (WalkStep::Hidden(Hidden::Position), _) => return Ok(Some(Outside::Place)),
                (WalkStep::Hidden(Hidden::Field(field)), _) => {
                    return Ok(Some(Outside::Field(field)));
                }
            }
            if walk.is_done() {
                break;
            }
            self.enter_missing();
        }
        self.here = walk.here;
        self.schema = walk.schema;
        Ok(None)
    }

    fn pass_key(&mut self, raw: &str, key: Cow<'p, str>, is_absent_parent: bool) {
        self.canonical.push('/');
        self.canonical.push_str(raw);
        self.coverage.follow(Reached::Key(&key));
        match &mut self.absent {
            Some(absent) => absent.keys.push(key),
            None if is_absent_parent => {
                self.absent = Some(Absent {
                    depth: self.depth - 1,
                    keys: Vec::new(),
                });
            }
            None => {}
        }
        self.last = Last::Key;
    }

    fn pass_element(&mut self, element: ListElement<'p, 'v>) {
        self.canonical.push('/');
        match (&element.selector, element.schema.element_key()) {
            // It names the one element, and by the right key.
            (Some(selector), Some(key)) if selector.key == key => {
                self.canonical.push_str(element.raw)
            }
            _ => push_element(&mut self.canonical, &element),
        }
        self.steps.enter(self.depth - 1, element.index);
        self.coverage.follow(Reached::Element(element.value));
        self.last = Last::Element(element);
    }

    fn pass_missing(
        &mut self,
        raw: &'p str,
        segment: ListSegment<'p>,
        list: Option<&'v [Value]>,
        schema: Schema,
    ) {
        self.last = Last::Missing {
            raw,
            segment,
            list,
            schema,
        };
    }

    /// Goes on below an element that is missing, for the sake of what the rest of the path says of the grants.
    fn enter_missing(&mut self) {
        if let Last::Missing { raw, segment, .. } = &self.last {
            self.canonical.push('/');
            self.canonical.push_str(raw);
            self.coverage.follow(missing(segment));
        }
    }

    /// The selector that the path ends in.
    pub(super) fn selector(&self) -> Option<&Selector<'p>> {
        match &self.last {
            Last::Element(element) => element.selector.as_ref(),
            Last::Missing {
                segment: ListSegment::Selector(selector),
                ..
            } => Some(selector),
            Last::Missing { .. } | Last::Root | Last::Key => None,
        }
    }

    /// Takes the last step to an element that does not exist.
    pub(super) fn pass_new(
        &mut self,
        element: &Value,
        list: &[Value],
        index: usize,
        key: Option<&str>,
    ) {
        self.coverage.follow(Reached::New(element, list));
        self.canonical.push('/');
        push_segment(&mut self.canonical, element, list, index, key);
        self.steps.enter(self.depth - 1, index);
    }
}

/// What a segment that names no element has reached.
pub(super) fn missing<'s>(segment: &'s ListSegment<'_>) -> Reached<'s> {
    match segment {
        ListSegment::Selector(selector) => Reached::Missing(selector),
        ListSegment::Index(_) | ListSegment::End => Reached::MissingPosition,
    }
}

fn push_element(path: &mut String, element: &ListElement<'_, '_>) {
    let (before, others) = element.list.split_at(element.index.min(element.list.len()));
    let after = others.get(1..).unwrap_or_default();
    let key = element.schema.element_key();
    let unique = key.is_some_and(|key| {
        text_of(element.value, key).is_some_and(|text| {
            !before
                .iter()
                .chain(after)
                .any(|other| has_field(other, key, &text))
        })
    });
    push_segment(
        path,
        element.value,
        &[],
        element.index,
        key.filter(|_| unique),
    );
}

/// Appends the canonical segment of an element: by its key if none of the others has the same, else by its index.
fn push_segment(
    path: &mut String,
    element: &Value,
    others: &[Value],
    index: usize,
    key: Option<&str>,
) {
    /// A longer key would make a path, and so the audit, as long as a plugin likes.
    const LONGEST: usize = 256;
    if let Some(key) = key
        && let Some(text) = text_of(element, key)
        && text.len() <= LONGEST
        && !others.iter().any(|other| has_field(other, key, &text))
    {
        path.push('[');
        path.push_str(key);
        path.push('=');
        push_escaped(path, &text);
        path.push(']');
        return;
    }
    // Writing to a string cannot fail.
    let _ = write!(path, "{index}");
}

/// The text by which a selector would name an element.
fn text_of<'v>(element: &'v Value, key: &str) -> Option<Cow<'v, str>> {
    match element.get(key)? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
