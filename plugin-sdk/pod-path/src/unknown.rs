//! Finds fields that the Pod's schema does not know: most often they are misspelt, but a newer Kubernetes may know them.

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::examine::{ViolationKind, examine_at};
use crate::grant::{Grants, Segment};
use crate::nearest::nearest;
use crate::path::{push_escaped, segments, unescape};
use crate::schema::{ROOT, Schema, Shape};
use crate::transaction::Write;

/// A field that the Pod's schema does not know.
///
/// ```
/// use podloom_pod_path::Grants;
///
/// let grants = Grants::parse(&["/metadata/annotationz"])?;
/// let unknown = grants.unknown_fields();
/// let expected = "/metadata/annotationz: a pod has no field annotationz; did you mean annotations?";
/// assert_eq!(unknown[0].to_string(), expected);
/// # Ok::<(), podloom_pod_path::GrantError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The path to the field.
    pub path: String,
    /// Its name.
    pub field: String,
    /// The known field with the most similar name, if one is similar enough.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            field,
            nearest,
        } = self;
        match nearest {
            Some(near) => write!(
                f,
                "{path}: a pod has no field {field}; did you mean {near}?"
            ),
            None => write!(
                f,
                "{path}: a pod has no field {field}; correct the name, unless your Kubernetes is newer and knows it"
            ),
        }
    }
}

impl Grants {
    /// The first unknown field in each of the paths that has one.
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<UnknownField> {
        self.segments().filter_map(in_grant).collect()
    }
}

impl Write {
    /// The unknown fields in its path, or else in its value.
    ///
    /// ```
    /// use podloom_pod_path::Write;
    ///
    /// let write = Write {
    ///     path: "/spec/volumes/[name=a]".to_owned(),
    ///     old: None,
    ///     new: Some(r#"{"name": "a", "emptydir": {}}"#.to_owned()),
    /// };
    /// let unknown = write.unknown_fields();
    /// assert_eq!(unknown[0].path, "/spec/volumes/[name=a]/emptydir");
    /// assert_eq!(unknown[0].nearest, Some("emptyDir"));
    /// ```
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<UnknownField> {
        let mut schema = ROOT;
        let mut path = String::new();
        for raw in segments(&self.path) {
            path.push('/');
            path.push_str(raw);
            schema = match schema.shape() {
                Shape::List => schema.element(),
                _ => {
                    let key = unescape(raw);
                    if let Some(unknown) = unknown(schema, &key, &path) {
                        return vec![unknown];
                    }
                    schema.field(&key)
                }
            };
        }
        let value = self.new.as_deref().map(serde_json::from_str::<Value>);
        let Some(Ok(value)) = value else {
            return Vec::new();
        };
        let violations = examine_at(&value, schema, path);
        let unknown = violations.into_iter().filter_map(|found| match found.kind {
            ViolationKind::Unknown { known } => {
                let last = found.path.rsplit('/').next().unwrap_or_default();
                let field = unescape(last).into_owned();
                Some(UnknownField {
                    nearest: nearest(&field, known),
                    path: found.path,
                    field,
                })
            }
            ViolationKind::Type { .. } => None,
        });
        unknown.collect()
    }
}

fn in_grant(grant: &[Segment]) -> Option<UnknownField> {
    let mut schema = ROOT;
    let mut path = String::new();
    for segment in grant {
        path.push('/');
        schema = match segment {
            Segment::Key(key) => {
                push_escaped(&mut path, key);
                if let Some(unknown) = unknown(schema, key, &path) {
                    return Some(unknown);
                }
                schema.field(key)
            }
            Segment::Any => {
                path.push('*');
                schema.element()
            }
            Segment::Selector { key, value } => {
                path.push('[');
                push_escaped(&mut path, key);
                path.push('=');
                push_escaped(&mut path, value);
                path.push(']');
                schema.element()
            }
        };
    }
    None
}

fn unknown(schema: Schema, key: &str, path: &str) -> Option<UnknownField> {
    let Schema::Object(of) = schema else {
        return None;
    };
    let mut known = of.fields.iter().map(|(name, _)| *name);
    if known.clone().any(|name| name == key) {
        return None;
    }
    Some(UnknownField {
        path: path.to_owned(),
        field: key.to_owned(),
        nearest: nearest(key, known.by_ref()),
    })
}
