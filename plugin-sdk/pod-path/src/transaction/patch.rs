//! What was written as a JSON Patch.

use serde_json::Value;

use super::Write;
use super::log::Undo;
use crate::json::{write_json, write_string};
use crate::path::segments;

/// A JSON Patch (RFC 6902) in the making, as JSON text.
///
/// The writes of a pod's runs, in order, make of the pod as it came the pod as it is now: each operation names the place that was
/// changed by the keys and indices that led there at the time. A parent that was made is an `add` of its own.
///
/// ```
/// use podloom_pod_path::{Access, Patch, Transaction};
/// use serde_json::json;
///
/// let pod = json!({ "spec": { "containers": [{ "name": "web" }] } });
/// let mut pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
/// pod.set("/spec/containers/[name=web]/env/[name=TZ]", r#"{"value": "UTC"}"#.to_owned())?;
///
/// let mut patch = Patch::default();
/// let (_, writes) = pod.commit();
/// writes.iter().for_each(|write| patch.write(write));
/// let patch: serde_json::Value = serde_json::from_str(&patch.finish()).expect("JSON");
/// assert_eq!(patch, json!([
///     { "op": "add", "path": "/spec/containers/0/env", "value": [] },
///     { "op": "add", "path": "/spec/containers/0/env/0", "value": { "name": "TZ", "value": "UTC" } },
/// ]));
/// # Ok::<(), podloom_pod_path::EditError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// UTF-8.
    text: Vec<u8>,
}

impl Patch {
    /// Appends what a write did.
    pub fn write(&mut self, write: &Write) {
        let (slot, count) = (&write.slot, segments(&write.path).count());
        let is_element = slot.steps.is_element(slot.depth);
        let Some(new) = &write.new else {
            self.remove(&pointer(write, slot.depth + 1));
            return;
        };
        // Below a parent that was made, every place is new.
        for made in slot.depth + 1..count {
            let value = if slot.steps.is_element(made) {
                "[]"
            } else {
                "{}"
            };
            self.begin("add", &pointer(write, made));
            self.value(value.as_bytes());
        }
        let is_there = match write.back {
            Undo::Restore => true,
            // In an object null is replaced by an `add` too; in a list that would insert.
            Undo::RestoreNull => is_element,
            Undo::Take | Undo::Reinsert => false,
        };
        self.begin(
            if is_there { "replace" } else { "add" },
            &pointer(write, count),
        );
        self.value(&canonical(new));
    }

    /// Appends an operation that adds a value to an object, or replaces the one that is there. The path is a JSON Pointer.
    ///
    /// ```
    /// let mut patch = podloom_pod_path::Patch::default();
    /// patch.add("/metadata/labels/team", &"web".into());
    /// assert_eq!(patch.finish(), r#"[{"op":"add","path":"/metadata/labels/team","value":"web"}]"#);
    /// ```
    pub fn add(&mut self, path: &str, value: &Value) {
        let mut text = Vec::new();
        write_json(&mut text, value);
        self.begin("add", path);
        self.value(&text);
    }

    /// The patch as JSON text: a list of operations, in order.
    ///
    /// ```
    /// assert_eq!(podloom_pod_path::Patch::default().finish(), "[]");
    /// ```
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.text.is_empty() {
            self.text.push(b'[');
        }
        self.text.push(b']');
        String::from_utf8(self.text).unwrap_or_default()
    }

    fn remove(&mut self, path: &str) {
        self.begin("remove", path);
        self.text.push(b'}');
    }

    fn begin(&mut self, operation: &str, path: &str) {
        self.text
            .push(if self.text.is_empty() { b'[' } else { b',' });
        self.text.extend_from_slice(br#"{"op":"#);
        write_string(&mut self.text, operation);
        self.text.extend_from_slice(br#","path":"#);
        write_string(&mut self.text, path);
    }

    fn value(&mut self, text: &[u8]) {
        self.text.extend_from_slice(br#","value":"#);
        self.text.extend_from_slice(text);
        self.text.push(b'}');
    }
}

/// The JSON Pointer of the first segments of a write's path.
fn pointer(write: &Write, count: usize) -> String {
    let steps = &write.slot.steps;
    let mut indices = steps.indices();
    let mut pointer = String::with_capacity(write.path.len());
    for (number, raw) in segments(&write.path).take(count).enumerate() {
        pointer.push('/');
        let index = steps.is_element(number).then(|| indices.next()).flatten();
        match index {
            Some(index) => pointer.push_str(&index.to_string()),
            None => pointer.push_str(raw),
        }
    }
    pointer
}

/// The text as it is in the pod. A plugin's own may name a key twice; the last one counted here, and whoever reads the patch
/// may see it otherwise: Go's decoder merges them.
fn canonical(text: &str) -> Vec<u8> {
    let mut canonical = Vec::with_capacity(text.len());
    match serde_json::from_str(text) {
        Ok(value) => write_json(&mut canonical, &value),
        // What was written is JSON, or it would not have been taken.
        Err(_) => canonical.extend_from_slice(b"null"),
    }
    canonical
}
