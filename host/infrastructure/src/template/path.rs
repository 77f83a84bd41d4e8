//! Where something is in a template.

use podloom_engine::finding::{self, FieldPath};
use podloom_engine::shown::shown;
use serde_json::Value;

use super::Problem;

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
