//! One thing that is wrong with an object, and where.

use std::fmt::{self, Display, Write};

use podloom_api::names;

use crate::browser::render::{
    Missing, OptionsError, Pair, RenderError, ResolveError, UnknownOption, list, shown,
};

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
    /// The field, as the keys that lead to it; empty for the whole object.
    pub path: Vec<String>,
    /// A sentence that says what to change.
    pub text: String,
    /// What it is about.
    pub subject: Subject,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Browser has no configuration that can be used.
    Configuration,
    /// The options of a session.
    Options,
    /// The Browser's name.
    Name,
    /// Versions from which no pod can be made.
    Problem,
    /// Versions that an older BrowserConfig serves.
    Duplicate,
    /// What the plugin chain says.
    Chain,
}

impl Finding {
    /// A finding about some versions of a BrowserConfig; about the whole if there are none.
    pub fn about(pairs: &[Pair<'_>], text: &str, subject: Subject) -> Self {
        let text = match (pairs, subject) {
            (&[] | &[_], _) | (_, Subject::Duplicate) => text.to_owned(),
            (several, _) => format!("{}: {text}", list(several)),
        };
        Self {
            path: path(pairs),
            text,
            subject,
        }
    }

    /// A finding that counts those that are not shown.
    pub(super) fn more(count: usize, subject: Subject) -> Self {
        let text = match subject {
            Subject::Duplicate => format!("and {count} more are served by older BrowserConfigs"),
            Subject::Options => format!("and {count} more are ignored"),
            _ => format!("and {count} more problems"),
        };
        let path: &[&str] = match subject {
            Subject::Options => &OPTIONS,
            _ => &["spec", "browsers"],
        };
        Self {
            path: path.iter().map(|&key| key.to_owned()).collect(),
            text,
            subject,
        }
    }

    /// What is ignored in the options.
    pub(super) fn ignored(option: &UnknownOption) -> Self {
        Self::at(&OPTIONS, option, Subject::Options)
    }

    /// Why a Browser has no configuration, in one line.
    pub(super) fn brief(error: &ResolveError) -> Self {
        let finding = Self::from(error);
        match error {
            ResolveError::NotFound(missing) => Self {
                text: missing.brief(),
                ..finding
            },
            ResolveError::Invalid { .. } => finding,
        }
    }
}

/// The field that has the options.
const OPTIONS: [&str; 3] = ["metadata", "annotations", names::annotation::OPTIONS];

/// The part of the path that all of these versions have in common.
fn path(pairs: &[Pair<'_>]) -> Vec<String> {
    let Some((first, others)) = pairs.split_first() else {
        return vec!["spec".to_owned()];
    };
    let mut path = vec!["spec", "browsers"];
    if others.iter().all(|other| other.browser == first.browser) {
        path.push(first.browser);
        if others.is_empty() {
            path.push(first.version);
        }
    }
    path.into_iter().map(str::to_owned).collect()
}

impl From<&ResolveError> for Finding {
    fn from(error: &ResolveError) -> Self {
        let path: &[&str] = match error {
            ResolveError::NotFound(Missing::Configs) | ResolveError::Invalid { .. } => &[],
            ResolveError::NotFound(Missing::Browser { .. }) => &["spec", "browserName"],
            ResolveError::NotFound(Missing::Version { .. }) => &["spec", "browserVersion"],
        };
        Self::at(path, error, Subject::Configuration)
    }
}

impl From<&OptionsError> for Finding {
    fn from(error: &OptionsError) -> Self {
        let path: &[&str] = match error {
            OptionsError::NotCopied { field, .. } => &["metadata", field],
            OptionsError::Parse { .. }
            | OptionsError::Type { .. }
            | OptionsError::Key { .. }
            | OptionsError::NotAllowed { .. } => &OPTIONS,
        };
        Self::at(path, error, Subject::Options)
    }
}

impl From<&RenderError> for Finding {
    fn from(error: &RenderError) -> Self {
        match error {
            RenderError::Options(error) => Self::from(error),
            RenderError::Unnamed => Self::at(&[], error, Subject::Name),
        }
    }
}

impl Finding {
    fn at(path: &[&str], text: &impl Display, subject: Subject) -> Self {
        Self {
            path: path.iter().map(|&key| key.to_owned()).collect(),
            text: text.to_string(),
            subject,
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, key) in self.path.iter().enumerate() {
            if !is_plain(key) {
                write!(f, "[{:?}]", shown(key))?;
                continue;
            }
            if number > 0 {
                f.write_char('.')?;
            }
            write!(f, "{}", shown(key))?;
        }
        if !self.path.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.text)
    }
}

/// Whether a key needs no quotes, as Kubernetes writes fields: `spec.browsers.chrome["120.0"]`.
fn is_plain(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !key.is_empty() && key.bytes().all(is_plain)
}
