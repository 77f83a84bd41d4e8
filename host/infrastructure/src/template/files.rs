//! References to files, which IM would read from its own machine, and repeat in its errors.

use serde_json::Value;

use super::path::Path;
use super::{DEPTH_LOOKED_AT, PROBLEMS_MAX, Problem};

/// The scheme of files.
const SCHEME: &str = "file:";
/// What IM 2.0 replaces by the token of the account that it was asked with.
const TOKEN: &str = "access_token()";
/// Characters that IM's parser of URLs removes from a text before it reads it.
const REMOVED: [char; 3] = ['\t', '\r', '\n'];
/// Functions that IM replaces by their results.
const FUNCTIONS: [&str; 6] = [
    "concat",
    "get_attribute",
    "get_input",
    "get_operation_output",
    "get_property",
    "token",
];

/// What a value is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// IM opens all that is named in it.
    Opened,
    /// Definitions of files, by name.
    Artifacts,
    /// A definition of a file; a text is its path.
    Artifact,
    /// Places that paths are relative to, by name.
    Repositories,
    /// Such a place; a text is its URL.
    Repository,
    /// Interfaces, by name.
    Interfaces,
    /// The operations of an interface, by name.
    Operations,
    /// An operation; a text is the path of its implementation.
    Operation,
    Other,
}

impl Use {
    /// What the value of a key is for, in an object that is for this.
    fn of(self, key: &str) -> Self {
        match (self, key) {
            (Self::Opened, _) | (_, "imports" | "implementation") => Self::Opened,
            (Self::Artifacts, _) => Self::Artifact,
            (Self::Artifact, "file") | (Self::Repository, "url") => Self::Opened,
            (Self::Repositories, _) => Self::Repository,
            (Self::Interfaces, _) => Self::Operations,
            (Self::Operations, _) => Self::Operation,
            (_, "artifacts") => Self::Artifacts,
            (_, "repositories") => Self::Repositories,
            (_, "interfaces") => Self::Interfaces,
            _ => Self::Other,
        }
    }

    /// Whether a text that is for this is opened.
    fn is_path(self) -> bool {
        matches!(
            self,
            Self::Opened | Self::Artifact | Self::Repository | Self::Operation
        )
    }
}

/// Returns each text that names a file.
pub(super) fn references(template: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    look(template, Use::Other, &Path::default(), &mut problems);
    problems
}

fn look(value: &Value, usage: Use, path: &Path<'_>, problems: &mut Vec<Problem>) {
    if problems.len() >= PROBLEMS_MAX {
        return;
    }
    match value {
        Value::String(text) => problems.extend(problem(text, usage).map(|it| path.problem(it))),
        // What is deeper is refused for that.
        _ if path.depth() >= DEPTH_LOOKED_AT => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                look(item, usage, &path.index(index), problems);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = path.key(name);
                if usage.is_path() && FUNCTIONS.contains(&name.as_str()) {
                    problems.push(path.problem(
                        "what a function returns may name a file of the Infrastructure Manager; write a URL, or allow it with allowFileReferences of the provider",
                    ));
                } else {
                    look(field, usage.of(name), &path, problems);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns each text that IM replaces by the token of the account that it was asked with: the template could send it anywhere.
pub(super) fn tokens(template: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    look_for_tokens(template, &Path::default(), &mut problems);
    problems
}

fn look_for_tokens(value: &Value, path: &Path<'_>, problems: &mut Vec<Problem>) {
    let is_token = |text: &str| {
        let text: String = text.chars().filter(|char| !char.is_whitespace()).collect();
        text.eq_ignore_ascii_case(TOKEN)
    };
    if value.as_str().is_some_and(is_token) {
        problems.push(path.problem(
            "the Infrastructure Manager would put the token of its account here; write a value, or give the Cloud a secretParameter",
        ));
    }
    if path.depth() < DEPTH_LOOKED_AT && problems.len() < PROBLEMS_MAX {
        for (inner, path) in path.inside(value) {
            look_for_tokens(inner, &path, problems);
        }
    }
}

fn problem(text: &str, usage: Use) -> Option<&'static str> {
    let text = text.replace(REMOVED, "");
    let text = text.trim_start_matches(|char| char <= ' ').trim();
    let start = text.get(..SCHEME.len());
    if start.is_some_and(|start| start.eq_ignore_ascii_case(SCHEME)) {
        return Some(
            "it names a file of the Infrastructure Manager; use a URL, or allow it with allowFileReferences of the provider",
        );
    }
    let is_outside = text.starts_with('/') || text.split(['/', '\\']).any(|part| part == "..");
    (usage.is_path() && is_outside).then_some(
        "it names a file of the Infrastructure Manager by its path; use a URL, or allow it with allowFileReferences of the provider",
    )
}
