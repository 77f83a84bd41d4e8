//! The paths that a plugin needs, or that it is granted.

mod overlap;
pub(crate) mod tree;

use std::error::Error;
use std::fmt;

pub use self::overlap::Disturbance;
use crate::path::{ListSegment, Path, SEGMENTS, Selector, is_too_deep, meant, unescape};
use crate::protected::never_written_at;
use crate::schema::{ROOT, Schema, Shape};

/// A set of path prefixes: what a plugin needs, or what it is granted.
///
/// Each is a path on a Pod, and covers everything below it.
/// On a list, a segment is `*` (all elements) or `[key=value]` (only that element, which may also be created).
///
/// ```
/// use podloom_pod_path::Grants;
///
/// let allowed = Grants::parse_writes(&["/metadata/labels", "/spec/containers/*"])?;
/// let needed = Grants::parse_writes(&["/spec/containers/[name=proxy]/env", "/spec/volumes"])?;
/// assert_eq!(allowed.covers(&needed), Err(vec!["/spec/volumes".to_owned()]));
/// # Ok::<(), podloom_pod_path::GrantError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Grants {
    grants: Vec<Grant>,
}

/// One path of a set.
#[derive(Clone, Debug)]
struct Grant {
    text: String,
    segments: Vec<Segment>,
}

/// A segment of a grant, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A field of an object.
    Key(String),
    /// `*`: all elements of a list.
    Any,
    /// `[key=value]`: the element with this field.
    Selector(Selector<'static>),
}

impl Grants {
    /// Parses paths for reading. The empty path is the whole pod.
    ///
    /// # Errors
    ///
    /// The first path that is malformed, or that has another segment on a list than `*` or `[key=value]`.
    pub fn parse<S: AsRef<str>>(paths: &[S]) -> Result<Self, GrantError> {
        Self::parse_each(paths, grant)
    }

    /// Parses paths for writing.
    ///
    /// # Errors
    ///
    /// Besides the errors of [`parse`](Self::parse): the first path that plugins never write, or that covers such a path.
    /// These are `/apiVersion`, `/kind`, `/status` and, in `/metadata`, `name`, `generateName`, `namespace`, `uid`,
    /// `ownerReferences`, `finalizers`, `resourceVersion` and `managedFields`.
    /// Also the field that a selector in the path compares.
    ///
    /// ```
    /// use podloom_pod_path::Grants;
    ///
    /// let error = Grants::parse_writes(&["/metadata"]).unwrap_err();
    /// assert!(error.to_string().contains("/metadata/name"));
    /// ```
    pub fn parse_writes<S: AsRef<str>>(paths: &[S]) -> Result<Self, GrantError> {
        Self::parse_each(paths, write_grant)
    }

    fn parse_each<S: AsRef<str>>(
        paths: &[S],
        parse: fn(&str) -> Result<Grant, GrantError>,
    ) -> Result<Self, GrantError> {
        let grants = paths.iter().map(|path| parse(path.as_ref()));
        let grants = grants.collect::<Result<_, _>>()?;
        Ok(Self { grants })
    }

    /// The whole pod, for reading and writing.
    pub(crate) fn everything() -> Self {
        let whole = Grant {
            text: String::new(),
            segments: Vec::new(),
        };
        Self {
            grants: vec![whole],
        }
    }

    /// Checks that each needed path is covered by one of these.
    ///
    /// # Errors
    ///
    /// The text of the needed paths that are not covered.
    pub fn covers(&self, needed: &Self) -> Result<(), Vec<String>> {
        let covered = |needed: &Grant| self.grants.iter().any(|grant| grant.covers(needed));
        let missing: Vec<String> = needed
            .grants
            .iter()
            .filter(|needed| !covered(needed))
            .map(|needed| needed.text.clone())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing)
        }
    }

    /// The segments of each path.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[Segment]> {
        self.grants.iter().map(|grant| grant.segments.as_slice())
    }

    /// The text of the paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.grants.iter().map(|grant| grant.text.as_str())
    }
}

/// Lists the paths for messages.
impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        if self.grants.is_empty() {
            return f.write_str("nothing");
        }
        for (i, path) in self.paths().take(SHOWN).enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(crate::error::shown(path))?;
        }
        match self.grants.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

impl Grant {
    /// Whether this grant covers the other one.
    fn covers(&self, needed: &Self) -> bool {
        self.segments.len() <= needed.segments.len()
            && self
                .segments
                .iter()
                .zip(&needed.segments)
                .all(|(own, needed)| own.covers(needed))
    }
}

impl Segment {
    fn covers(&self, needed: &Self) -> bool {
        match self {
            Self::Any => !needed.is_key(),
            own => own == needed,
        }
    }

    const fn is_key(&self) -> bool {
        matches!(self, Self::Key(_))
    }

    /// The type of what it names in a value of this type.
    pub(crate) fn below(&self, schema: Schema) -> Schema {
        match self {
            Self::Key(key) => schema.field(key),
            Self::Any | Self::Selector(_) => schema.element(),
        }
    }
}

/// Why a path cannot be granted.
///
/// ```
/// use podloom_pod_path::Grants;
///
/// let error = Grants::parse(&["/spec/containers/0"]).unwrap_err();
/// assert_eq!(error.path, "/spec/containers/0");
/// assert!(error.reason.contains("write `[name=...]` for one element"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantError {
    /// The text of the path.
    pub path: String,
    /// What is wrong with it, and what to write instead.
    pub reason: String,
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot be granted: {}", self.path, self.reason)
    }
}

impl Error for GrantError {}

/// Parses a path for reading.
fn grant(text: &str) -> Result<Grant, GrantError> {
    let refuse = |reason: String| GrantError {
        path: text.to_owned(),
        reason,
    };
    let path = Path::parse(text).map_err(|_| refuse(malformed(text)))?;
    let mut schema = ROOT;
    let mut segments = Vec::new();
    for raw in path.segments() {
        let segment = segment(raw, schema).map_err(|reason| match meant(text) {
            Some(meant) => refuse(format!(
                "a `/` in a key or value is written `~1`; write {meant}"
            )),
            None => refuse(reason),
        })?;
        schema = segment.below(schema);
        segments.push(segment);
    }
    Ok(Grant {
        text: text.to_owned(),
        segments,
    })
}

/// Parses a path for writing.
fn write_grant(text: &str) -> Result<Grant, GrantError> {
    let grant = grant(text)?;
    let refuse = |reason: String| GrantError {
        path: text.to_owned(),
        reason,
    };
    let keys = grant.segments.iter().map_while(|segment| match segment {
        Segment::Key(key) => Some(key.as_str()),
        Segment::Any | Segment::Selector(_) => None,
    });
    if let Some(never) = never_written_at(keys) {
        return Err(refuse(protected(text, &never)));
    }
    let key_field = grant.segments.windows(2).find_map(|pair| match pair {
        [Segment::Selector(selector), Segment::Key(field)] if selector.key == *field => Some(field),
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
        ListSegment::Selector(selector) => Some(Segment::Selector(selector.into_owned())),
        ListSegment::Index(_) | ListSegment::End => None,
    }
}

fn example(list: Schema) -> String {
    format!("`[{}=...]`", list.element_key().unwrap_or("key"))
}

#[cfg(test)]
mod tests;
