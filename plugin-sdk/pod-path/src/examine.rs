//! Checks pods and paths that people wrote against the Pod's schema, and suggests what they meant.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::check::has_type;
use crate::grant::{Grants, Segment};
use crate::path::{push_escaped, push_selector, segments, unescape};
use crate::schema::{ROOT, Schema, Shape};
use crate::transaction::Write;

/// A field of a pod that does not match the Pod's schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaViolation {
    /// The field, as an RFC 6901 pointer.
    pub path: String,
    /// What is wrong with it.
    pub kind: ViolationKind,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub enum ViolationKind {
    /// It has another type.
    Type {
        /// The type in the schema.
        expected: Cow<'static, str>,
        /// The value.
        found: Value,
    },
    /// The schema does not know it, but a newer Kubernetes may.
    Unknown {
        /// The fields that the schema knows there.
        known: Vec<&'static str>,
    },
}

/// Checks all fields of a pod against the Pod's schema, and returns those that do not match.
///
/// ```
/// use podloom_pod_path::{ViolationKind, examine};
/// use serde_json::json;
///
/// let pod = json!({ "spec": { "hostname": 7, "containers": [{ "name": "a", "imgae": "b" }] } });
/// let violations = examine(&pod);
/// assert_eq!(violations[0].path, "/spec/containers/0/imgae");
/// assert!(matches!(violations[0].kind, ViolationKind::Unknown { .. }));
/// assert_eq!(violations[1].path, "/spec/hostname");
/// assert!(matches!(&violations[1].kind, ViolationKind::Type { expected, .. } if expected == "a string"));
/// ```
#[must_use]
pub fn examine(pod: &Value) -> Vec<SchemaViolation> {
    examine_at(pod, ROOT, String::new())
}

/// As [`examine`], for a value at a path of a pod where this is its type.
fn examine_at(value: &Value, schema: Schema, mut path: String) -> Vec<SchemaViolation> {
    let mut violations = Vec::new();
    check(value, schema, &mut path, &mut violations);
    violations
}

fn check(value: &Value, schema: Schema, path: &mut String, violations: &mut Vec<SchemaViolation>) {
    let length = path.len();
    match (schema, value) {
        (Schema::Anything, _) => {}
        (Schema::Object(of), Value::Object(fields)) => {
            for (key, value) in fields {
                path.push('/');
                push_escaped(path, key);
                if of.fields.iter().all(|(known, _)| known != key) {
                    let known = of.fields.iter().map(|(known, _)| *known).collect();
                    violations.push(SchemaViolation {
                        path: path.clone(),
                        kind: ViolationKind::Unknown { known },
                    });
                } else if !value.is_null() {
                    // The API server treats a field that is null as absent.
                    check(value, schema.field(key), path, violations);
                }
                path.truncate(length);
            }
        }
        (Schema::Map(values, _), Value::Object(fields)) => {
            for (key, value) in fields {
                path.push('/');
                push_escaped(path, key);
                check(value, *values, path, violations);
                path.truncate(length);
            }
        }
        (Schema::List(..), Value::Array(list)) => {
            for (index, value) in list.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                check(value, schema.element(), path, violations);
                path.truncate(length);
            }
        }
        _ if has_type(value, schema) => {}
        _ => {
            let kind = ViolationKind::Type {
                expected: schema.noun(),
                found: value.clone(),
            };
            violations.push(SchemaViolation {
                path: path.clone(),
                kind,
            });
        }
    }
}

/// A field that the Pod's schema does not know: most often it is misspelt, but a newer Kubernetes may know it.
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
        match segment {
            Segment::Key(key) => {
                push_escaped(&mut path, key);
                if let Some(unknown) = unknown(schema, key, &path) {
                    return Some(unknown);
                }
            }
            Segment::Any => path.push('*'),
            Segment::Selector(own) => push_selector(&mut path, &own.key, &own.value),
        }
        schema = segment.below(schema);
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

/// Longer words are nobody's slip of the pen, and would take long to compare.
const LONGEST: usize = 256;

/// Returns the known word that is most similar to an unknown one; none if none is similar enough.
///
/// ```
/// use podloom_pod_path::nearest;
///
/// assert_eq!(nearest("imgae", ["image", "env"]), Some("image"));
/// assert_eq!(nearest("zone", ["image", "env"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if unknown.len() > LONGEST {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let most = match unknown.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .filter(|word| word.len() <= LONGEST)
        .map(|word| (distance(&unknown, &word.to_lowercase()), word))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How many letters must be inserted, deleted, replaced or swapped with their neighbour (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, here) in left.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, there) in right.iter().enumerate() {
            let replaced = cell(&last, column) + usize::from(here != there);
            let best = replaced
                .min(cell(&last, column + 1) + 1)
                .min(cell(&next, column) + 1);
            let swapped = row > 0
                && column > 0
                && left.get(row - 1) == Some(there)
                && right.get(column - 1) == Some(here);
            next.push(if swapped {
                best.min(cell(&before, column - 1) + 1)
            } else {
                best
            });
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

fn cell(row: &[usize], column: usize) -> usize {
    row.get(column).copied().unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests;
