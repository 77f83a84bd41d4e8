//! From the text of a grant to its segments.

use super::{Grant, GrantError, Segment};
use crate::path::{ListSegment, Path, SEGMENTS, is_too_deep, unescape};
use crate::protected::never_written_at;
use crate::schema::{ROOT, Schema, Shape};

/// A path that may be granted for reading.
pub(super) fn grant(text: &str) -> Result<Grant, GrantError> {
    let refuse = |reason: String| GrantError {
        path: text.to_owned(),
        reason,
    };
    let path = Path::parse(text).map_err(|_| refuse(malformed(text)))?;
    let mut schema = ROOT;
    let mut segments = Vec::new();
    for raw in path.segments() {
        let segment = segment(raw, schema).map_err(refuse)?;
        schema = match &segment {
            Segment::Key(key) => schema.field(key),
            Segment::Any | Segment::Selector { .. } => schema.element(),
        };
        segments.push(segment);
    }
    Ok(Grant {
        text: text.to_owned(),
        segments,
    })
}

/// A path that may be granted for writing.
pub(super) fn write_grant(text: &str) -> Result<Grant, GrantError> {
    let grant = grant(text)?;
    let refuse = |reason: String| GrantError {
        path: text.to_owned(),
        reason,
    };
    let keys = grant.segments.iter().map_while(|segment| match segment {
        Segment::Key(key) => Some(key.as_str()),
        Segment::Any | Segment::Selector { .. } => None,
    });
    if let Some(never) = never_written_at(keys) {
        return Err(refuse(format!(
            "{never} is never written by a plugin; grant paths beside it"
        )));
    }
    let key_field = grant.segments.windows(2).find_map(|pair| match pair {
        [Segment::Selector { key, .. }, Segment::Key(field)] if key == field => Some(key),
        _ => None,
    });
    if let Some(key) = key_field {
        let reason = format!(
            "an element that is granted by its field {key} keeps that field; write `*` instead of the selector to let it change"
        );
        return Err(refuse(reason));
    }
    Ok(grant)
}

fn malformed(text: &str) -> String {
    if is_too_deep(text) {
        format!("it has more than {SEGMENTS} segments")
    } else if text.starts_with('/') {
        "`~` must be written `~0`, and `/` inside a segment `~1`".to_owned()
    } else {
        "it must start with `/`; only the empty path, which is the whole pod, does not".to_owned()
    }
}

fn segment(raw: &str, schema: Schema) -> Result<Segment, String> {
    let key = || Segment::Key(unescape(raw).into_owned());
    let list_segment = if raw == "*" {
        Some(Segment::Any)
    } else {
        selector(raw)
    };
    let position = matches!(
        ListSegment::parse(raw),
        Some(ListSegment::Index(_) | ListSegment::End)
    );
    match (schema.shape(), list_segment) {
        (Shape::List | Shape::Unknown, Some(segment)) => Ok(segment),
        (Shape::List | Shape::Unknown, None) if position => Err(format!(
            "`{raw}` is a position, which shifts as elements come and go; name the element as {}, or any as `*`",
            example(schema)
        )),
        (Shape::List, None) => {
            Err(format!("`{raw}` stands on a list, where an element is named as {}, or any as `*`", example(schema)))
        }
        (Shape::Unknown, None) if raw.starts_with('[') => {
            Err(format!("`{raw}` is not of the form `[key=value]`"))
        }
        (Shape::Object, None) | (Shape::Unknown, None) => Ok(key()),
        (Shape::Object, Some(Segment::Any)) => {
            Err("`*` stands for elements of lists only; a path covers everything below it, so end it before the `*`".to_owned())
        }
        (Shape::Object, Some(_)) => Err(format!("`{raw}` selects elements of lists only, and stands on an object")),
        (Shape::Scalar, _) => Err(format!("`{raw}` stands below {}, which has nothing below it", schema.noun())),
    }
}

fn selector(raw: &str) -> Option<Segment> {
    match ListSegment::parse(raw)? {
        ListSegment::Selector(selector) => Some(Segment::Selector {
            key: selector.key.into_owned(),
            value: selector.value.into_owned(),
        }),
        ListSegment::Index(_) | ListSegment::End => None,
    }
}

fn example(list: Schema) -> String {
    format!("`[{}=...]`", list.element_key().unwrap_or("key"))
}
