//! The words for what was not granted. They depend on the path and the grants alone, never on what the pod has there.

use super::Transaction;
use crate::error::{AccessError, shown};
use crate::grant::tree::KeyGuard;
use crate::path::{ListSegment, segments, unescape};
use crate::protected::never_written_at;
use crate::schema::{ROOT, Schema, Shape};

impl Transaction {
    pub(super) fn unreadable(&self, path: &str) -> AccessError {
        let (reads, writes) = (self.access.reads(), self.access.writes());
        let line = line(path, None);
        AccessError::Forbidden(format!(
            "reading {} is forbidden: what may be read is {reads}, and what may be written ({writes}); \
             add the line {line} to `read` in chain.yaml, and the path to the reads that the plugin describes",
            shown(path)
        ))
    }

    pub(super) fn unwritable(&self, path: &str, is_above: bool) -> AccessError {
        let (shown, writes) = (shown(path), self.access.writes());
        let keys = segments(path).map(unescape).collect::<Vec<_>>();
        let reason = match never_written_at(keys.iter().map(AsRef::as_ref)) {
            // No line would help.
            Some(_) if is_above => format!(
                "it lies above what may be written, which is {writes}; write below it, path by path"
            ),
            Some(never) => format!(
                "{never} is never changed by a plugin, whatever it was granted; leave it as it is"
            ),
            None if is_above => format!(
                "it lies above what may be written, which is {writes}; write below it, path by path, \
                 or add the line {} to `allow` in chain.yaml",
                line(path, None)
            ),
            None => format!(
                "what may be written is {writes}; add the line {} to `allow` in chain.yaml, \
                 and the path to the writes that the plugin describes",
                line(path, None)
            ),
        };
        AccessError::Forbidden(format!("writing {shown} is forbidden: {reason}"))
    }

    pub(super) fn keeps_key(&self, path: &str, guard: KeyGuard<'_>) -> AccessError {
        let KeyGuard { key, value, .. } = guard;
        AccessError::Forbidden(format!(
            "writing {} is forbidden: the element is granted as [{key}={value}], so its {key} stays (what may be written is {}); \
             to change that, ask for `*` in place of the selector: add the line {} to `allow` in chain.yaml",
            shown(path),
            self.access.writes(),
            line(path, Some(guard.depth))
        ))
    }
}

/// The line of the manifest that would grant a path: positions cannot be granted, and become `*`, and so does the segment at
/// the depth that is given.
fn line(path: &str, any: Option<usize>) -> String {
    let mut schema = ROOT;
    let mut grant = String::with_capacity(path.len());
    for (index, raw) in segments(path).enumerate() {
        let list_segment = ListSegment::parse(raw);
        let is_element = match (schema.shape(), &list_segment) {
            (Shape::List, _) => true,
            (Shape::Unknown, list_segment) => list_segment.is_some() || raw == "*",
            (Shape::Object | Shape::Scalar, _) => false,
        };
        let is_named = matches!(list_segment, Some(ListSegment::Selector(_)));
        let segment = if is_element && (!is_named || any == Some(index + 1)) {
            "*"
        } else {
            raw
        };
        schema = below(schema, raw, is_element);
        grant.push('/');
        grant.push_str(segment);
    }
    // As JSON, which is YAML too.
    format!("`- {}`", serde_json::Value::String(grant))
}

fn below(schema: Schema, raw: &str, is_element: bool) -> Schema {
    if is_element {
        schema.element()
    } else {
        schema.field(&unescape(raw))
    }
}
