//! Documents as the types of their kinds, and findings about them.

use podloom_controllers::Finding;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Diagnostic;
use crate::manifest::{Document, Step};

/// A message at the field of a finding.
pub(crate) fn diagnostic(document: &Document, finding: &Finding, message: String) -> Diagnostic {
    let steps = finding.path.0.iter().map(|step| match step {
        podloom_controllers::Step::Key(key) => Step::Key(key.clone()),
        podloom_controllers::Step::Index(index) => Step::Index(*index),
    });
    document.diagnostic(&steps.collect::<Vec<_>>(), message)
}

/// Reads the document as its type. Its schema was checked, so this fails only for what a schema cannot express.
pub(crate) fn typed<T: DeserializeOwned>(document: &Document) -> Result<T, Diagnostic> {
    let mut value = document.value.clone();
    // The status is output of the operator, so it is ignored.
    if let Value::Object(fields) = &mut value {
        fields.remove("status");
    }
    serde_json::from_value(value).map_err(|error| document.diagnostic(&[], error.to_string()))
}
