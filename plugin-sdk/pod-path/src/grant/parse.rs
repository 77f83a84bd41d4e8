//! Parses the text of a grant.

use super::{Grant, GrantError, Segment};
use crate::path::{ListSegment, Path, SEGMENTS, is_too_deep, unescape};
use crate::protected::never_written_at;
use crate::schema::{ROOT, Schema, Shape};
use crate::slash;

/// Parses a path for reading.
pub(super) fn grant(text: &str) -> Result<Grant, GrantError> {
    let refuse = |reason: String| GrantError {
        path: text.to_owned(),
        reason,
    };
    let path = Path::parse(text).map_err(|_| refuse(malformed(text)))?;
    let mut schema = ROOT;
    let mut segments = Vec::new();
    for raw in path.segments() {
        let segment = segment(raw, schema).map_err(|reason| match slash::meant(text) {
            Some(meant) => refuse(format!(
                "a `/` in a key or value is written `~1`; write {meant}"
            )),
            None => refuse(reason),
        })?;
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

/// Parses a path for writing.
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
        return Err(refuse(protected(text, &never)));
    }
    let key_field = grant.segments.windows(2).find_map(|pair| match pair {
        [Segment::Selector { key, .. }, Segment::Key(field)] if key == field => Some(key),
        _ => None,
    });
    if let Some(key) = key_field {
        let reason = format!(
            "the selector needs the field {key} to stay as it is; write `*` in place of the selector to grant changes of it"
        );
        return Err(refuse(reason));
    }
    Ok(grant)
}

/// What to do about a path that is protected, or that would grant a protected one too.
fn protected(text: &str, never: &str) -> String {
    let below = text.strip_prefix(never);
    if below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
        return format!("plugins never write {never}, whatever they are granted; remove this path");
    }
    let instead = match text {
        "" => "/spec, /metadata/labels and /metadata/annotations",
        _ => "/metadata/labels and /metadata/annotations",
    };
    format!(
        "it would also grant {never}, which plugins never write; grant what the plugin needs below it, of {instead}"
    )
}

/// The path that was probably meant by one without its first slash, as `spec.nodeName` or `spec/nodeName`.
fn with_slash(text: &str) -> String {
    let path = format!("/{text}");
    if text.contains('/') {
        path
    } else {
        path.replace('.', "/")
    }
}

fn malformed(text: &str) -> String {
    if is_too_deep(text) {
        format!("it has more than {SEGMENTS} segments")
    } else if text.starts_with('/') {
        "`~` must be written `~0`, and `/` inside a segment `~1`".to_owned()
    } else {
        format!("it must start with `/`; write {}", with_slash(text))
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
            "`{raw}` is an index, which shifts when elements are added or removed; write {} for one element, or `*` for all",
            example(schema)
        )),
        (Shape::List, None) => {
            Err(format!("`{raw}` is on a list; write {} for one element, or `*` for all", example(schema)))
        }
        (Shape::Unknown, None) if raw.starts_with('[') => {
            Err(format!("`{raw}` is not of the form `[key=value]`"))
        }
        (Shape::Object, None) | (Shape::Unknown, None) => Ok(key()),
        (Shape::Object, Some(Segment::Any)) => {
            Err("`*` is only for elements of lists; end the path before it, since a path covers everything below".to_owned())
        }
        (Shape::Object, Some(_)) => Err(format!("`{raw}` selects elements of lists, but is on an object; write the name of a field")),
        (Shape::Scalar, _) => Err(format!("`{raw}` is below {}, which has no fields; end the path before it", schema.noun())),
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
