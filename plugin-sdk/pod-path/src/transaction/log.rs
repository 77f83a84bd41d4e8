//! The log of writes: how to undo them, and how they are a JSON Patch.

use serde_json::Value;

use super::Write;
use crate::json::{write_json, write_string};
use crate::path::{SEGMENTS, segments, unescape};
use crate::walk::{Places, address};

/// Where exactly a write changed the pod, and how to undo it, which the audit does not show. What changed is a slot in a parent: that of
/// the written value, or of the topmost parent that was created for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// How many segments of the write's path lead to the parent; the next segment is the slot. The root has no parent.
    pub(super) depth: usize,
    /// Which segments of the path name list elements: a bit for each.
    elements: u64,
    /// The indices of these elements at that time, in order.
    indices: Vec<usize>,
    pub(super) back: Undo,
}

const _: () = assert!(SEGMENTS <= 64, "each segment needs a bit");

impl Trace {
    /// The trace of a write to the slot below a parent of so many segments.
    pub(super) fn below(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// Records that the segment of this number names the element at an index.
    pub(super) fn enter(&mut self, segment: usize, index: usize) {
        self.elements |= bit(segment);
        self.indices.push(index);
    }

    pub(super) fn is_element(&self, segment: usize) -> bool {
        self.elements & bit(segment) != 0
    }

    /// How many lists the path leads through.
    pub(super) fn lists(&self) -> usize {
        self.indices.len()
    }

    /// Finds the slot in the pod as it was before or after the write.
    pub(super) fn slot<'v>(&self, pod: &'v mut Value, path: &str) -> Option<ParentSlotMut<'v>> {
        let mut indices = self.indices.iter().copied();
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

    /// Undoes the write that left this trace.
    pub(super) fn undo(self, write: Write, pod: &mut Value) {
        let Some(slot) = self.slot(pod, &write.path) else {
            return;
        };
        let old = write.old.unwrap_or(Value::Null);
        match (self.back, slot) {
            (Undo::Restore, slot) => drop(slot.put(old)),
            (Undo::RestoreNull, slot) => drop(slot.put(Value::Null)),
            (Undo::Take, slot) => drop(slot.take()),
            (Undo::Reinsert, slot) => slot.insert(old, &mut Places::default()),
        }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Undo {
    /// Put the old value into the slot.
    Restore,
    /// Put null into the slot.
    RestoreNull,
    /// Remove the slot.
    #[default]
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

/// A JSON Patch (RFC 6902) in the making, as JSON text.
///
/// The writes of a pod's runs, in order, make of the pod as it came the pod as it is now: each is one operation, which names the
/// place that was changed by the keys and indices that led there at the time. Parents that were made are part of its value.
///
/// ```
/// use podloom_pod_path::{Access, Patch, Transaction};
/// use serde_json::json;
///
/// let pod = json!({ "spec": { "containers": [{ "name": "web" }] } });
/// let mut pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
/// pod.set("/spec/containers/[name=web]/env/[name=TZ]", r#"{"value": "UTC"}"#.to_owned())?;
///
/// let mut patch = Patch::within(1024);
/// let (_, writes, traces) = pod.commit_traced();
/// for (write, trace) in writes.iter().zip(&traces) {
///     patch.write(write, trace);
/// }
/// let patch = patch.finish().expect("a short patch");
/// let patch: serde_json::Value = serde_json::from_str(&patch).expect("JSON");
/// assert_eq!(patch, json!([
///     { "op": "add", "path": "/spec/containers/0/env", "value": [{ "name": "TZ", "value": "UTC" }] },
/// ]));
/// # Ok::<(), podloom_pod_path::EditError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Patch {
    /// UTF-8.
    text: Vec<u8>,
    /// How many bytes it may have.
    limit: usize,
}

impl Patch {
    /// A patch of at most so many bytes. Once it is longer nothing is added to it, and it comes to nothing.
    #[must_use]
    pub fn within(limit: usize) -> Self {
        Self {
            text: Vec::new(),
            limit,
        }
    }

    /// Appends what a write did, which left this trace.
    pub fn write(&mut self, write: &Write, trace: &Trace) {
        let path = pointer(write, trace);
        let Some(new) = &write.new else {
            self.operation("remove", &path, |_| {});
            return;
        };
        let is_there = match trace.back {
            Undo::Restore => true,
            // In an object null is replaced by an `add` too; in a list that would insert.
            Undo::RestoreNull => trace.is_element(trace.depth),
            Undo::Take | Undo::Reinsert => false,
        };
        let operation = if is_there { "replace" } else { "add" };
        self.operation(operation, &path, |text| {
            text.extend_from_slice(br#","value":"#);
            nest(text, write, trace, new);
        });
    }

    /// Appends an operation that adds a value to an object, or replaces the one that is there. The path is a JSON Pointer.
    ///
    /// ```
    /// let mut patch = podloom_pod_path::Patch::within(1024);
    /// patch.add("/metadata/labels/team", &"web".into());
    /// let patch = patch.finish();
    /// assert_eq!(patch.as_deref(), Some(r#"[{"op":"add","path":"/metadata/labels/team","value":"web"}]"#));
    /// ```
    pub fn add(&mut self, path: &str, value: &Value) {
        self.operation("add", path, |text| {
            text.extend_from_slice(br#","value":"#);
            write_json(text, value);
        });
    }

    /// The patch as JSON text: a list of operations, in order. None if it is too long.
    ///
    /// ```
    /// use podloom_pod_path::Patch;
    ///
    /// assert_eq!(Patch::within(2).finish().as_deref(), Some("[]"));
    /// assert_eq!(Patch::within(1).finish(), None);
    /// ```
    #[must_use]
    pub fn finish(mut self) -> Option<String> {
        if self.text.is_empty() {
            self.text.push(b'[');
        }
        self.text.push(b']');
        let is_within = self.text.len() <= self.limit;
        String::from_utf8(self.text).ok().filter(|_| is_within)
    }

    fn operation(&mut self, name: &str, path: &str, value: impl FnOnce(&mut Vec<u8>)) {
        if self.text.len() > self.limit {
            return;
        }
        self.text
            .push(if self.text.is_empty() { b'[' } else { b',' });
        self.text.extend_from_slice(br#"{"op":"#);
        write_string(&mut self.text, name);
        self.text.extend_from_slice(br#","path":"#);
        write_string(&mut self.text, path);
        value(&mut self.text);
        self.text.push(b'}');
    }
}

/// The maximum length of the operation for a write: with this path, through this many lists, with this many bytes of value.
pub(super) fn most(path: &str, lists: usize, value: usize) -> usize {
    /// Everything but path and value.
    const OPERATION: usize = r#",{"op":"replace","path":"","value":}"#.len();
    /// A segment as a key of a created object, without the key's bytes.
    const LEVEL: usize = r#"{"":}"#.len();
    /// An index in place of a selector.
    const INDEX: usize = 20;
    // Each segment is either in the pointer or in the value.
    OPERATION + escaped(path) + segments(path).count() * LEVEL + lists * INDEX + value
}

/// The maximum length of a text in JSON.
fn escaped(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => r"\u0000".len(),
        _ => 1,
    });
    bytes.sum()
}

/// The JSON Pointer of the slot that a write changed.
fn pointer(write: &Write, trace: &Trace) -> String {
    let mut indices = trace.indices.iter();
    let mut pointer = String::with_capacity(write.path.len());
    let segments = segments(&write.path).take(trace.depth + 1);
    for (number, raw) in segments.enumerate() {
        pointer.push('/');
        let index = trace.is_element(number).then(|| indices.next());
        match index.flatten() {
            Some(index) => pointer.push_str(&index.to_string()),
            None => pointer.push_str(raw),
        }
    }
    pointer
}

/// Writes the value inside the parents that were created for it: everything below the changed slot is new.
fn nest(text: &mut Vec<u8>, write: &Write, trace: &Trace, value: &str) {
    let made = segments(&write.path).enumerate().skip(trace.depth + 1);
    let mut open: Vec<u8> = Vec::new();
    for (number, raw) in made {
        if trace.is_element(number) {
            text.push(b'[');
            open.push(b']');
        } else {
            text.push(b'{');
            write_string(text, &unescape(raw));
            text.push(b':');
            open.push(b'}');
        }
    }
    text.extend_from_slice(value.as_bytes());
    text.extend(open.into_iter().rev());
}
