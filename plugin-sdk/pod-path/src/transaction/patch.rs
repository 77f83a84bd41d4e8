//! Writes as a JSON Patch.

use serde_json::Value;

use super::Write;
use super::log::{ParentSlot, Trace, Undo};
use crate::json::{write_json, write_string};
use crate::path::{segments, unescape};

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
        let slot = &trace.slot;
        let path = pointer(write, slot);
        let Some(new) = &write.new else {
            self.operation("remove", &path, |_| {});
            return;
        };
        let is_there = match trace.back {
            Undo::Restore => true,
            // In an object null is replaced by an `add` too; in a list that would insert.
            Undo::RestoreNull => slot.steps.is_element(slot.depth),
            Undo::Take | Undo::Reinsert => false,
        };
        let operation = if is_there { "replace" } else { "add" };
        self.operation(operation, &path, |text| {
            text.extend_from_slice(br#","value":"#);
            nest(text, write, slot, new);
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
fn pointer(write: &Write, slot: &ParentSlot) -> String {
    let mut indices = slot.steps.indices();
    let mut pointer = String::with_capacity(write.path.len());
    let segments = segments(&write.path).take(slot.depth + 1);
    for (number, raw) in segments.enumerate() {
        pointer.push('/');
        let index = slot.steps.is_element(number).then(|| indices.next());
        match index.flatten() {
            Some(index) => pointer.push_str(&index.to_string()),
            None => pointer.push_str(raw),
        }
    }
    pointer
}

/// Writes the value inside the parents that were created for it: everything below the changed slot is new.
fn nest(text: &mut Vec<u8>, write: &Write, slot: &ParentSlot, value: &str) {
    let made = segments(&write.path).enumerate().skip(slot.depth + 1);
    let mut open: Vec<u8> = Vec::new();
    for (number, raw) in made {
        if slot.steps.is_element(number) {
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
