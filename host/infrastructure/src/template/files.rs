//! References to files, which IM would read from its own machine, and repeat in its errors.

use podloom_engine::finding::{self, FieldPath};
use podloom_engine::shown::shown;
use serde_json::Value;

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

// Where something is in a template.

/// A path from the root, such as `topology_template.node_templates.worker`. It borrows all that it is made of, since a template may have
/// a hundred thousand values behind long keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path<'p> {
    above: Option<&'p Self>,
    step: Step<'p>,
    depth: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Step<'p> {
    #[default]
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(super) fn key(&'p self, key: &'p str) -> Self {
        self.and(Step::Key(key))
    }

    pub(super) fn index(&'p self, index: usize) -> Self {
        self.and(Step::Index(index))
    }

    fn and(&'p self, step: Step<'p>) -> Self {
        Self {
            above: Some(self),
            step,
            depth: self.depth + 1,
        }
    }

    /// Returns what is directly inside of a value at this path.
    pub(super) fn inside(&'p self, value: &'p Value) -> Vec<(&'p Value, Self)> {
        match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| (field, self.key(name)))
                .collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (item, self.index(index)))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns how many steps it has.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the steps, from the root on.
    fn steps(&self) -> Vec<Step<'p>> {
        let mut steps = Vec::with_capacity(self.depth);
        let mut path = *self;
        while let Some(above) = path.above {
            steps.push(path.step);
            path = *above;
        }
        steps.reverse();
        steps
    }

    /// Returns the keys, if there is no index among them.
    pub(super) fn keys(&self) -> Option<Vec<&'p str>> {
        let steps = self.steps().into_iter();
        steps
            .map(|step| match step {
                Step::Key(key) => Some(key),
                Step::Index(_) | Step::Root => None,
            })
            .collect()
    }

    /// Returns whether it begins with this key.
    pub(super) fn is_in(&self, root: &str) -> bool {
        matches!(self.steps().first(), Some(Step::Key(key)) if *key == root)
    }

    /// Returns what is wrong here.
    pub(super) fn problem(&self, message: &str) -> Problem {
        let steps = self.steps().into_iter();
        let owned = steps.filter_map(|step| match step {
            Step::Key(key) => Some(finding::Step::Key(key.to_owned())),
            Step::Index(index) => Some(finding::Step::Index(index)),
            Step::Root => None,
        });
        Problem {
            path: FieldPath(owned.collect()),
            message: message.to_owned(),
        }
    }
}

/// Returns a path with dots, in one line.
pub(super) fn dotted(path: &FieldPath) -> String {
    let mut text = String::new();
    for step in &path.0 {
        match step {
            finding::Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text += &shown(key).to_string();
            }
            finding::Step::Index(index) => text += &format!("[{index}]"),
        }
    }
    text
}
