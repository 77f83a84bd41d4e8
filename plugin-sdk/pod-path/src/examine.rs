//! A whole pod against the Pod's types, for those who read pods that people wrote.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use crate::check::check_member;
use crate::path::push_escaped;
use crate::schema::{ROOT, Schema};

/// One thing about a pod that is not as a Pod is.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaViolation {
    /// Where, as an RFC 6901 pointer.
    pub path: String,
    /// What.
    pub problem: ViolationKind,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub enum ViolationKind {
    /// It is of another type.
    Type {
        /// What a Pod has there.
        expected: Cow<'static, str>,
        /// What is there.
        found: Value,
    },
    /// The table does not know it; a newer Kubernetes may.
    Unknown {
        /// The fields that are known there.
        known: Vec<&'static str>,
    },
}

/// Holds every field of a pod against the Pod's types, and names all that do not fit.
///
/// ```
/// use podloom_pod_path::{ViolationKind, examine};
/// use serde_json::json;
///
/// let pod = json!({ "spec": { "hostname": 7, "containers": [{ "name": "a", "imgae": "b" }] } });
/// let findings = examine(&pod);
/// assert_eq!(findings[0].path, "/spec/containers/0/imgae");
/// assert!(matches!(findings[0].problem, ViolationKind::Unknown { .. }));
/// assert_eq!(findings[1].path, "/spec/hostname");
/// assert!(matches!(&findings[1].problem, ViolationKind::Type { expected, .. } if expected == "a string"));
/// ```
#[must_use]
pub fn examine(pod: &Value) -> Vec<SchemaViolation> {
    let mut findings = Vec::new();
    look(pod, ROOT, &mut String::new(), &mut findings);
    findings
}

fn look(value: &Value, schema: Schema, path: &mut String, findings: &mut Vec<SchemaViolation>) {
    let length = path.len();
    match (schema, value) {
        (Schema::Anything, _) => {}
        (Schema::Object(of), Value::Object(fields)) => {
            for (key, value) in fields {
                path.push('/');
                push_escaped(path, key);
                if of.fields.iter().all(|(known, _)| known != key) {
                    let known = of.fields.iter().map(|(known, _)| *known).collect();
                    findings.push(SchemaViolation {
                        path: path.clone(),
                        problem: ViolationKind::Unknown { known },
                    });
                } else if !value.is_null() {
                    // To the API server a field that is null is absent.
                    look(value, schema.field(key), path, findings);
                }
                path.truncate(length);
            }
        }
        (Schema::Map(values), Value::Object(fields)) => {
            for (key, value) in fields {
                path.push('/');
                push_escaped(path, key);
                look(value, *values, path, findings);
                path.truncate(length);
            }
        }
        (Schema::List(..), Value::Array(list)) => {
            for (index, value) in list.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                look(value, schema.element(), path, findings);
                path.truncate(length);
            }
        }
        _ if check_member("", value, schema).is_ok() => {}
        _ => {
            let problem = ViolationKind::Type {
                expected: schema.noun(),
                found: value.clone(),
            };
            findings.push(SchemaViolation {
                path: path.clone(),
                problem,
            });
        }
    }
}
