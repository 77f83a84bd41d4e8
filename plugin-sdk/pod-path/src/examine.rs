//! Checks a whole pod against the Pod's schema, for pods that people wrote.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use crate::check::has_type;
use crate::path::push_escaped;
use crate::schema::{ROOT, Schema};

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
    let mut violations = Vec::new();
    check(pod, ROOT, &mut String::new(), &mut violations);
    violations
}

/// As [`examine`], for a value at a path of a pod where this is its type.
pub(crate) fn examine_at(value: &Value, schema: Schema, mut path: String) -> Vec<SchemaViolation> {
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
