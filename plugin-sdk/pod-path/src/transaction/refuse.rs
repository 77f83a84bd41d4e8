//! Errors for paths that were not granted. They depend only on the path and the grants, never on the pod.

use super::Transaction;
use crate::error::{AccessError, shown};
use crate::grant::tree::KeyGuard;
use crate::path::{ListSegment, segments, unescape};
use crate::protected::never_written_at;
use crate::schema::{ROOT, Schema, Shape};
use crate::slash::Advice;

impl Transaction {
    pub(super) fn unreadable(&self, path: &str) -> AccessError {
        let (reads, writes) = (self.access.reads(), self.access.writes());
        let line = line(path, None);
        AccessError::Forbidden(format!(
            "reading {} is forbidden: the plugin may read {reads} and write {writes}; \
             add the line {line} to `read` in chain.yaml, and `.read(...)` with the path in the plugin's `needs`{}",
            shown(path),
            Advice(path)
        ))
    }

    pub(super) fn unwritable(&self, path: &str, is_above: bool) -> AccessError {
        let (shown, writes) = (shown(path), self.access.writes());
        let keys = segments(path).map(unescape).collect::<Vec<_>>();
        let reason = match never_written_at(keys.iter().map(AsRef::as_ref)) {
            // No grant would help.
            Some(_) if is_above => format!(
                "the plugin may write only parts of it, of {writes}; write these parts one by one"
            ),
            Some(never) => format!(
                "plugins never change {never}, whatever they are granted; leave it as it is"
            ),
            None if is_above => format!(
                "the plugin may write only parts of it, of {writes}; write these parts one by one, \
                 or add the line {} to `allow` in chain.yaml",
                line(path, None)
            ),
            None => format!(
                "the plugin may write {writes}; add the line {} to `allow` in chain.yaml, \
                 and `.write(...)` with the path in the plugin's `needs`",
                line(path, None)
            ),
        };
        let advice = Advice(path);
        AccessError::Forbidden(format!("writing {shown} is forbidden: {reason}{advice}"))
    }

    pub(super) fn keeps_key(&self, path: &str, guard: KeyGuard<'_>) -> AccessError {
        let KeyGuard { key, value, .. } = guard;
        AccessError::Forbidden(format!(
            "writing {} is forbidden: the grant is for [{key}={value}], so the field {key} must not change (the plugin may write {}); \
             to grant that, add the line {} to `allow` in chain.yaml",
            shown(path),
            self.access.writes(),
            line(path, Some(guard.depth))
        ))
    }
}

/// The line of the manifest that would grant a path. Indices cannot be granted and become `*`, and so does the segment at the depth
/// `any`.
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
    // JSON is valid YAML.
    format!("`- {}`", serde_json::Value::String(grant))
}

fn below(schema: Schema, raw: &str, is_element: bool) -> Schema {
    if is_element {
        schema.element()
    } else {
        schema.field(&unescape(raw))
    }
}
