//! The log of writes, and how to undo them.

use serde_json::Value;

use super::Write;
use crate::path::{SEGMENTS, segments, unescape};
use crate::places::{Places, address};

/// The changed slot in a parent: that of the written value, or of the topmost parent that was created for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParentSlot {
    /// How many segments of the write's path lead to the parent; the next segment is the slot. The root has no parent.
    pub(super) depth: usize,
    /// The list elements in the write's path.
    pub(super) steps: ListSteps,
}

/// One entry of the log.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) write: Write,
    pub(super) trace: Trace,
}

/// Where exactly a write changed the pod, and how to undo it, which the audit does not show.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub(super) slot: ParentSlot,
    pub(super) back: Undo,
}

/// Which segments of a write's path name list elements, and their indices at that time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ListSteps {
    /// A bit for each segment.
    elements: u64,
    indices: Vec<usize>,
}

const _: () = assert!(SEGMENTS <= 64, "each segment needs a bit");

impl ListSteps {
    /// Records that the segment of this number names the element at an index.
    pub(super) fn enter(&mut self, segment: usize, index: usize) {
        self.elements |= bit(segment);
        self.indices.push(index);
    }

    pub(super) fn is_element(&self, segment: usize) -> bool {
        self.elements & bit(segment) != 0
    }

    /// The indices of the list elements in the path, in order.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        self.indices.iter().copied()
    }

    /// How many lists the path leads through.
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }
}

/// The bit of a segment; none for a number that no path has.
fn bit(segment: usize) -> u64 {
    u32::try_from(segment)
        .ok()
        .and_then(|segment| 1_u64.checked_shl(segment))
        .unwrap_or_default()
}

/// How to undo a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// Put the old value into the slot.
    Restore,
    /// Put null into the slot.
    RestoreNull,
    /// Remove the slot.
    Take,
    /// Insert the old value as a list element.
    Reinsert,
}

/// A mutable reference to a slot in its parent.
pub(super) enum ParentSlotMut<'v> {
    Root(&'v mut Value),
    Field(&'v mut serde_json::Map<String, Value>, String),
    Element(&'v mut Vec<Value>, usize),
}

impl ParentSlot {
    /// Finds the slot in the pod as it was before or after the write.
    pub(super) fn find<'v>(&self, pod: &'v mut Value, path: &str) -> Option<ParentSlotMut<'v>> {
        let mut indices = self.steps.indices();
        let mut segments = segments(path);
        let mut here = pod;
        for segment in segments.by_ref().take(self.depth) {
            here = match here {
                Value::Object(fields) => fields.get_mut(&*unescape(segment))?,
                Value::Array(list) => list.get_mut(indices.next()?)?,
                _ => return None,
            };
        }
        let Some(segment) = segments.next() else {
            return Some(ParentSlotMut::Root(here));
        };
        match here {
            Value::Object(fields) => {
                Some(ParentSlotMut::Field(fields, unescape(segment).into_owned()))
            }
            Value::Array(list) => Some(ParentSlotMut::Element(list, indices.next()?)),
            _ => None,
        }
    }
}

impl LogEntry {
    pub(super) fn undo(self, pod: &mut Value) {
        let Self { write, trace } = self;
        let Some(slot) = trace.slot.find(pod, &write.path) else {
            return;
        };
        let old = write.old.unwrap_or(Value::Null);
        match (trace.back, slot) {
            (Undo::Restore, slot) => drop(slot.put(old)),
            (Undo::RestoreNull, slot) => drop(slot.put(Value::Null)),
            (Undo::Take, slot) => drop(slot.take()),
            (Undo::Reinsert, slot) => slot.insert(old, &mut Places::default()),
        }
    }
}

impl ParentSlotMut<'_> {
    /// Reports that a value is going to be put here.
    pub(super) fn report_put(&self, value: &Value, places: &mut Places) {
        match self {
            Self::Root(_) => places.forget(),
            Self::Field(_, field) => places.field_changed(field),
            Self::Element(list, index) => places.replacing(list, *index, value),
        }
    }

    /// Reports that the value here is going to be taken.
    pub(super) fn report_take(&self, places: &mut Places) {
        match self {
            Self::Root(_) => {}
            Self::Field(_, field) => places.field_changed(field),
            Self::Element(list, index) => places.removing(list, *index),
        }
    }

    /// Puts a value here; returns the old one.
    pub(super) fn put(self, value: Value) -> Option<Value> {
        match self {
            Self::Root(root) => Some(std::mem::replace(root, value)),
            Self::Field(fields, key) => fields.insert(key, value),
            Self::Element(list, index) => list
                .get_mut(index)
                .map(|element| std::mem::replace(element, value)),
        }
    }

    pub(super) fn take(self) -> Option<Value> {
        match self {
            Self::Root(_) => None,
            Self::Field(fields, key) => fields.remove(&key),
            Self::Element(list, index) => (index < list.len()).then(|| list.remove(index)),
        }
    }

    /// Inserts a value here, and reports it.
    pub(super) fn insert(self, value: Value, places: &mut Places) {
        match self {
            Self::Element(list, index) => {
                let (before, index) = (address(list), index.min(list.len()));
                list.insert(index, value);
                places.inserted(before, list, index);
            }
            slot => drop(slot.put(value)),
        }
    }
}
