//! Golden files: what has to come out.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use podloom_mutators::{CHAIN, MUTATIONS};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::output::{ADDED, REMOVED, paint, yaml};
use crate::refusal::{Failure, Refusal, plain};

/// What a comparison with a golden file found.
pub(super) enum Golden {
    /// It says what came out.
    Same,
    /// It says so now.
    Written,
    /// It is not there.
    Missing,
    /// It says something else: here are the lines.
    Differs(String),
}

impl Golden {
    /// What is wrong, and what to do about it.
    pub(super) fn refusal(&self, path: &str) -> Option<Refusal> {
        match self {
            Self::Same | Self::Written => None,
            Self::Missing => Some(Refusal::of_input(format!(
                "{path}: no such file; --update writes what comes out into it"
            ))),
            Self::Differs(_) => Some(Refusal::of_input(format!(
                "{path}: this is not what comes out; if it ought to be, --update writes it anew"
            ))),
        }
    }
}

/// Compares what came out with a file, or writes it there.
pub(super) fn compare(path: &Path, found: &str, update: bool) -> Result<Golden, Failure> {
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

/// The lines in which two texts differ, with some around them.
fn differences(expected: &str, found: &str) -> String {
    let mut text = String::new();
    let diff = TextDiff::from_lines(expected, found);
    for (number, group) in diff.grouped_ops(3).iter().enumerate() {
        if number > 0 {
            text.push_str("    ...\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let row = plain(change.value().trim_end_matches('\n'));
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

/// A pod as a golden file holds it. The annotations that the host adds change with every build of the plugin.
pub(super) fn text_of(pod: &Value, before: &Value) -> anyhow::Result<String> {
    const ANNOTATIONS: &str = "/metadata/annotations";
    let mut pod = pod.clone();
    if let Some(Value::Object(annotations)) = pod.pointer_mut(ANNOTATIONS) {
        annotations.remove(CHAIN);
        annotations.remove(MUTATIONS);
        let is_ours = annotations.is_empty() && before.pointer(ANNOTATIONS).is_none();
        if let Some(Value::Object(metadata)) = pod.get_mut("metadata").filter(|_| is_ours) {
            metadata.remove("annotations");
        }
    }
    yaml(&pod)
}

/// What a golden file holds in place of a pod that is denied.
pub(super) fn text_of_denial(reason: &str) -> String {
    format!("# denied: {}\n", plain(reason))
}
