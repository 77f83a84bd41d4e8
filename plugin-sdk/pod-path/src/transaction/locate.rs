//! Finds the target of a write, before its value is parsed.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::log::ListSteps;
use crate::error::AccessError;
use crate::grant::tree::{Coverage, Reached};
use crate::path::{ListSegment, Path, Selector, push_escaped};
use crate::places::{Place, Places, text_of};
use crate::schema::{ROOT, Schema};
use crate::walk::{Hidden, ListElement, Walk, WalkStep};

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOperation {
    Set,
    Insert,
    Remove,
}

/// The target of a write.
#[derive(Debug)]
pub(super) struct WriteTarget<'p, 'v, 'g> {
    /// The canonical path, without the last segment if that is [`Last::Missing`] or an insertion.
    pub(super) canonical: String,
    /// The list elements in the canonical path.
    pub(super) steps: ListSteps,
    /// How many segments the path has.
    pub(super) depth: usize,
    /// The present value.
    pub(super) here: Option<&'v Value>,
    /// The schema of the value.
    pub(super) schema: Schema,
    /// The schema of what the value is in.
    pub(super) parent: Schema,
    /// The grants that cover the canonical path.
    pub(super) coverage: Coverage<'g>,
    pub(super) last: Last<'p, 'v>,
    /// The topmost missing parent.
    pub(super) absent: Option<Absent<'p>>,
    /// Whether the path goes through a missing element.
    pub(super) blocked: bool,
    places: &'v Places,
}

/// What the last segment reached.
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

/// Why a path is not granted.
#[derive(Debug)]
pub(super) enum Outside {
    /// No grant covers it.
    Path,
    /// A selector in it would read this field.
    Field(String),
}

/// A missing parent.
#[derive(Debug)]
pub(super) struct Absent<'p> {
    /// The number of segments of the deepest path that exists.
    pub(super) depth: usize,
    /// The keys below it.
    pub(super) keys: Vec<Cow<'p, str>>,
}

impl<'p, 'v, 'g> WriteTarget<'p, 'v, 'g> {
    /// The root of the pod, where every path begins.
    pub(super) fn root(coverage: Coverage<'g>, places: &'v Places) -> Self {
        Self {
            canonical: String::new(),
            steps: ListSteps::default(),
            depth: 0,
            here: None,
            schema: ROOT,
            parent: Schema::Anything,
            coverage,
            last: Last::Root,
            absent: None,
            blocked: false,
            places,
        }
    }

    /// Follows a path from the root to the target. Stops where no grant covers it, without reading the rest of the pod.
    /// Works in place, since a target is expensive to move.
    pub(super) fn locate(
        &mut self,
        pod: &'v Value,
        path: Path<'p>,
        operation: WriteOperation,
    ) -> Result<Option<Outside>, AccessError> {
        let mut walk = Walk::new(pod, path, self.places);
        self.canonical.reserve(path.text().len() + 16);
        loop {
            if self.coverage.is_lost() {
                return Ok(Some(Outside::Path));
            }
            self.parent = walk.schema;
            let Some(step) = walk.step(&self.coverage)? else {
                break;
            };
            self.depth += 1;
            match (step, walk.is_done()) {
                (WalkStep::Key { raw, key }, is_last) => {
                    self.pass_key(raw, key, walk.here.is_none() && !is_last);
                }
                (WalkStep::Element(element), true) if operation == WriteOperation::Insert => {
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
                (WalkStep::Hidden(Hidden::Position), _) => return Ok(Some(Outside::Path)),
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
            // The selector already has the merge key.
            (Some(selector), Some(key)) if selector.key == key => {
                self.canonical.push_str(element.raw)
            }
            _ => self.push_element(&element),
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

    /// Continues below a missing element, to find out whether the rest of the path is granted.
    fn enter_missing(&mut self) {
        if let Last::Missing { raw, segment, .. } = &self.last {
            self.canonical.push('/');
            self.canonical.push_str(raw);
            self.coverage.follow(missing(segment));
        }
    }

    /// The selector at the end of the path.
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

    /// Takes the last step to a new element.
    pub(super) fn pass_new(
        &mut self,
        element: &Value,
        list: &[Value],
        index: usize,
        key: Option<&'static str>,
    ) {
        self.coverage.follow(Reached::New(element, list));
        self.canonical.push('/');
        let places = self.places;
        self.push_segment(element, index, key, |key, text| {
            places.find(list, key, text) == Place::Nowhere
        });
        self.steps.enter(self.depth - 1, index);
    }

    fn push_element(&mut self, element: &ListElement<'p, 'v>) {
        let (index, key) = (element.index, element.schema.element_key());
        let places = self.places;
        self.push_segment(element.value, index, key, |key, text| {
            places.find(element.list, key, text) == Place::One(index)
        });
    }

    /// Appends the canonical segment of an element: its key if that is unique, else its index.
    fn push_segment(
        &mut self,
        element: &Value,
        index: usize,
        key: Option<&'static str>,
        is_unique: impl FnOnce(&'static str, &str) -> bool,
    ) {
        /// Bounds the length of paths in the audit: a plugin could write longer keys.
        const LONGEST: usize = 256;
        let path = &mut self.canonical;
        if let Some(key) = key
            && let Some(text) = text_of(element, key)
            && text.len() <= LONGEST
            && is_unique(key, &text)
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
}

/// What a segment without a matching element has reached.
pub(super) fn missing<'s>(segment: &'s ListSegment<'_>) -> Reached<'s> {
    match segment {
        ListSegment::Selector(selector) => Reached::Missing(selector),
        ListSegment::Index(_) | ListSegment::End => Reached::MissingPosition,
    }
}
