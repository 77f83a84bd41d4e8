//! One thing that is wrong with an object, and where: what the admission webhook and the command line show.

use std::fmt::{self, Display, Write};

use crate::shown::shown;

/// What was found in one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why it must not be stored.
    pub refusals: Vec<Finding>,
    /// What its author should know.
    pub warnings: Vec<Finding>,
}

impl Findings {
    /// Makes a warning of each refusal, for an object that is stored already.
    #[must_use]
    pub fn tolerated(self) -> Self {
        let mut warnings = self.refusals;
        warnings.extend(self.warnings);
        Self {
            refusals: Vec::new(),
            warnings,
        }
    }
}

/// One thing that is wrong, and where. Its display has the field and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field; empty for the whole object.
    pub path: FieldPath,
    /// A sentence that says what to change.
    pub text: String,
    /// What it is about.
    pub subject: Subject,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Another object that it needs is missing or cannot be used.
    Configuration,
    /// The options of a session.
    Options,
    /// The object's name.
    Name,
    /// What the object itself says.
    Problem,
    /// What an older object has already.
    Duplicate,
    /// What the plugin chain says.
    Chain,
}

/// The way to a field. Its display is as Kubernetes writes it: `spec.lamps.red["120.0"].env[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(pub Vec<Step>);

/// One step of the way to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// To an item of a list.
    Index(usize),
}

impl FieldPath {
    /// Returns the way through these keys.
    pub fn of<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(
            keys.into_iter()
                .map(|key| Step::Key(key.to_owned()))
                .collect(),
        )
    }

    /// Returns the way through keys with dots between them, none of which has a dot itself.
    pub fn dotted(keys: &str) -> Self {
        Self::of(keys.split('.'))
    }

    /// Returns the way to an item of the list here.
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// Returns the way to the value of a key here.
    pub fn key(mut self, key: &str) -> Self {
        self.0.push(Step::Key(key.to_owned()));
        self
    }
}

impl Finding {
    /// Returns a finding at a field.
    pub fn at(path: FieldPath, text: &impl Display, subject: Subject) -> Self {
        Self {
            path,
            text: text.to_string(),
            subject,
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.0.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)
    }
}

impl Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if !is_plain(key) => write!(f, "[{:?}]", shown(key))?,
                Step::Key(key) => {
                    if number > 0 {
                        f.write_char('.')?;
                    }
                    write!(f, "{}", shown(key))?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a key needs no quotes.
fn is_plain(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !key.is_empty() && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
