//! The template of a Cluster, and what our own checks say about it.

use std::sync::Arc;

use podloom_engine::shown::at_most;
use serde_json::Value;

use crate::template::{TEMPLATE_BYTES_MAX, canonical, check, size_of};

/// The longest message about a template, in bytes.
const MESSAGE_MAX: usize = 512;

/// A template as it would be sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Its canonical form.
    pub(crate) template: Arc<Value>,
    /// Why it must not be sent.
    pub(crate) problem: Option<String>,
}

impl Wanted {
    /// Checks a template. References to files of IM's machine are a problem unless the provider allows them.
    pub(crate) fn of(template: &Value, allow_file_references: bool) -> Self {
        let template = canonical(template);
        let problem = problem(&template, allow_file_references);
        Self {
            template: Arc::new(template),
            problem,
        }
    }
}

fn problem(template: &Value, allow_file_references: bool) -> Option<String> {
    let bytes = size_of(template);
    if bytes > TEMPLATE_BYTES_MAX {
        return Some(format!(
            "spec.tosca has {bytes} bytes, at most {TEMPLATE_BYTES_MAX} are allowed"
        ));
    }
    let problems = check(template, allow_file_references).err()?;
    let sentences: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Some(at_most(MESSAGE_MAX, sentences.join("; ")))
}
