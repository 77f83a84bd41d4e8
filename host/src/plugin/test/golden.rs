//! Golden files: the expected results.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::error::{CommandError, Diagnostic, escape_controls, shown};
use crate::output::{ADDED, REMOVED, paint, yaml};
use crate::stamp;

/// The result of a comparison with a golden file.
pub(super) enum Golden {
    /// It equals the result.
    Same,
    /// It was written.
    Written,
    /// It does not exist.
    Missing,
    /// It differs in these lines.
    Differs(String),
}

impl Golden {
    /// The error, with the remedy.
    pub(super) fn diagnostic(&self, path: &str) -> Option<Diagnostic> {
        match self {
            Self::Same | Self::Written => None,
            Self::Missing => Some(Diagnostic::new(format!(
                "{path}: no such file; create it from the result with --update"
            ))),
            Self::Differs(_) => Some(Diagnostic::new(format!(
                "{path}: differs from the result; if the result is right, write it with --update"
            ))),
        }
    }
}

/// Compares the result with a golden file, or writes it there.
pub(super) fn compare(path: &Path, found: &str, update: bool) -> Result<Golden, CommandError> {
    let shown = || path.display().to_string();
    let expected = match fs::read_to_string(path) {
        Ok(expected) => Some(expected),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Err(error).with_context(shown)?,
    };
    Ok(match expected {
        Some(expected) if expected == found => Golden::Same,
        _ if update => {
            fs::write(path, found).with_context(shown)?;
            Golden::Written
        }
        Some(expected) => Golden::Differs(differences(&expected, found)),
        None => Golden::Missing,
    })
}

/// The lines in which two texts differ, with some context.
fn differences(expected: &str, found: &str) -> String {
    let mut text = String::new();
    let diff = TextDiff::from_lines(expected, found);
    for (number, group) in diff.grouped_ops(3).iter().enumerate() {
        if number > 0 {
            text.push_str("    ...\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let row = escape_controls(change.value().trim_end_matches('\n'));
            let row = match change.tag() {
                ChangeTag::Insert => paint(ADDED, &format!("+ {row}")),
                ChangeTag::Delete => paint(REMOVED, &format!("- {row}")),
                ChangeTag::Equal => format!("  {row}"),
            };
            let _infallible = writeln!(text, "    {row}");
        }
    }
    text
}

/// A pod as in a golden file: without the annotations that the host adds, since they change with every build of the plugin.
pub(super) fn text_of(pod: &Value, before: &Value) -> anyhow::Result<String> {
    const ANNOTATIONS: &str = "/metadata/annotations";
    let mut pod = pod.clone();
    stamp::remove(&mut pod);
    if let Some(Value::Object(annotations)) = pod.pointer(ANNOTATIONS) {
        let is_ours = annotations.is_empty() && before.pointer(ANNOTATIONS).is_none();
        if let Some(Value::Object(metadata)) = pod.get_mut("metadata").filter(|_| is_ours) {
            metadata.remove("annotations");
        }
    }
    yaml(&pod)
}

/// The text of a golden file for a denied pod.
pub(super) fn text_of_denial(reason: &str) -> String {
    format!("# denied: {}\n", shown(reason))
}
