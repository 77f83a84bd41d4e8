//! In CEL, which pods of the webhook a chain takes.

use std::fmt::Write;

use super::{AdmissionOperation, LabelSelector, Match, Operator, Requirement};

/// Which of the pods that the webhook may be asked about a chain takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Each of them: `match` of this plugin leaves out none, unless by labels of the namespace.
    Each(String),
    /// None for which this condition in CEL is false. It sees `object` and `request`.
    Some(String),
}

impl Takes {
    /// What plugins take, each with its name, in the order of the chain.
    ///
    /// A condition sees a pod before the chain, while `match` selects by labels as earlier plugins have left them. That makes no
    /// difference: the first plugin that runs was selected by the labels that came.
    pub fn of<'p>(plugins: impl IntoIterator<Item = (&'p str, &'p Match)>) -> Self {
        let mut choices = Vec::new();
        for (name, matches) in plugins {
            match matches.conditions() {
                None => {}
                Some(conditions) if conditions.is_empty() => return Self::Each(name.to_owned()),
                Some(conditions) => add(&mut choices, conditions.join(" && ")),
            }
        }
        match choices.is_empty() {
            true => Self::Some("false".to_owned()),
            false => Self::Some(choices.join(" || ")),
        }
    }
}

impl Match {
    /// The conditions in CEL that all hold for exactly the pods in the webhook that this selects, but for labels of the namespace, which
    /// no condition sees. None if it selects no pod there.
    pub fn conditions(&self) -> Option<Vec<String>> {
        if !self.has(AdmissionOperation::Create) {
            return None;
        }
        let mut kinds = self.kinds.iter();
        if !kinds.all(|kinds| kinds.0.iter().any(|kind| kind == "Pod")) {
            return None;
        }
        let mut conditions = Vec::new();
        let globs = self.namespaces.iter().flat_map(|globs| &globs.0);
        let globs: Vec<&str> = globs.map(String::as_str).collect();
        if !globs.iter().any(|glob| glob.trim_matches('*').is_empty()) {
            let names: Vec<String> = globs.iter().map(|glob| is_named(glob)).collect();
            match names.as_slice() {
                [] => {}
                [name] => conditions.push(name.clone()),
                names => conditions.push(format!("({})", names.join(" || "))),
            }
        }
        if let Some(selector) = &self.selector {
            selector.add_to(&mut conditions);
        }
        Some(conditions)
    }
}

/// A pattern of namespaces has only letters, digits, dashes and stars.
fn is_named(glob: &str) -> String {
    let text = glob.trim_matches('*');
    let test = match (glob.starts_with('*'), glob.ends_with('*')) {
        _ if text.contains('*') => format!(".matches('^{}$')", glob.replace('*', ".*")),
        (false, false) => format!(" == '{text}'"),
        (false, true) => format!(".startsWith('{text}')"),
        (true, false) => format!(".endsWith('{text}')"),
        (true, true) => format!(".contains('{text}')"),
    };
    format!("request.namespace{test}")
}

impl LabelSelector {
    fn add_to(&self, conditions: &mut Vec<String>) {
        for (key, value) in &self.match_labels {
            let has = has_label(key, Some(&format!("== {}", literal(value))));
            has.into_iter().for_each(|it| add(conditions, it));
        }
        for Requirement(expression) in &self.match_expressions {
            let values: Vec<String> = expression.values.iter().map(|it| literal(it)).collect();
            let values = (!values.is_empty()).then(|| format!("in [{}]", values.join(", ")));
            let has = has_label(&expression.key, values.as_deref());
            match expression.operator {
                Operator::In | Operator::Exists => {
                    has.into_iter().for_each(|it| add(conditions, it));
                }
                Operator::NotIn | Operator::DoesNotExist => {
                    add(conditions, format!("!({})", has.join(" && ")));
                }
            }
        }
    }
}

/// The conditions that together say that a pod has this label, with such a value. The later ones are errors if an earlier one is false.
fn has_label(key: &str, value: Option<&str>) -> Vec<String> {
    let (labels, key) = ("object.metadata.labels", literal(key));
    let mut has = vec![format!("has({labels})"), format!("{key} in {labels}")];
    has.extend(value.map(|value| format!("{labels}[{key}] {value}")));
    has
}

fn add(conditions: &mut Vec<String>, condition: String) {
    if !conditions.contains(&condition) {
        conditions.push(condition);
    }
}

/// A text as CEL writes it, in visible ASCII.
pub fn literal(text: &str) -> String {
    let mut literal = "'".to_owned();
    for char in text.chars() {
        let _infallible = match char {
            '\'' | '\\' => write!(literal, "\\{char}"),
            ' '..='~' => write!(literal, "{char}"),
            _ => write!(literal, "\\U{:08x}", u32::from(char)),
        };
    }
    literal + "'"
}
