//! What is wrong with a Browser or a BrowserConfig, as findings.

use podloom_api::names;
use podloom_engine::finding::{FieldPath, Finding, Subject};

use crate::render::{Missing, OptionsError, Pair, RenderError, ResolveError, UnknownOption, list};

/// A finding about some versions of a BrowserConfig; about the whole if there are none.
pub fn about(pairs: &[Pair<'_>], text: &str, subject: Subject) -> Finding {
    let text = match (pairs, subject) {
        (&[] | &[_], _) | (_, Subject::Duplicate) => text.to_owned(),
        (several, _) => format!("{}: {text}", list(several)),
    };
    Finding {
        path: path(pairs),
        text,
        subject,
    }
}

/// A finding that counts those that are not shown.
pub(super) fn more(count: usize, subject: Subject) -> Finding {
    let text = match subject {
        Subject::Duplicate => format!("and {count} more are served by older BrowserConfigs"),
        Subject::Options => format!("and {count} more are ignored"),
        _ => format!("and {count} more problems"),
    };
    let path: &[&str] = match subject {
        Subject::Options => &OPTIONS,
        _ => &["spec", "browsers"],
    };
    Finding {
        path: FieldPath::of(path.iter().copied()),
        text,
        subject,
    }
}

/// What is ignored in the options.
pub(super) fn ignored(option: &UnknownOption) -> Finding {
    Finding::at(FieldPath::of(OPTIONS), option, Subject::Options)
}

/// Why a Browser has no configuration, in one line.
pub(super) fn brief(error: &ResolveError) -> Finding {
    let finding = Finding::from(error);
    match error {
        ResolveError::NotFound(missing) => Finding {
            text: missing.brief(),
            ..finding
        },
        ResolveError::Invalid { .. } => finding,
    }
}

/// The field that has the options.
const OPTIONS: [&str; 3] = ["metadata", "annotations", names::annotation::OPTIONS];

/// The part of the path that all of these versions have in common.
fn path(pairs: &[Pair<'_>]) -> FieldPath {
    let Some((first, others)) = pairs.split_first() else {
        return FieldPath::of(["spec"]);
    };
    let mut path = vec!["spec", "browsers"];
    if others.iter().all(|other| other.browser == first.browser) {
        path.push(first.browser);
        if others.is_empty() {
            path.push(first.version);
        }
    }
    FieldPath::of(path)
}

impl From<&ResolveError> for Finding {
    fn from(error: &ResolveError) -> Self {
        let path: &[&str] = match error {
            ResolveError::NotFound(Missing::Configs) | ResolveError::Invalid { .. } => &[],
            ResolveError::NotFound(Missing::Browser { .. }) => &["spec", "browserName"],
            ResolveError::NotFound(Missing::Version { .. }) => &["spec", "browserVersion"],
        };
        Self::at(
            FieldPath::of(path.iter().copied()),
            error,
            Subject::Configuration,
        )
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
        Self::at(FieldPath::of(path.iter().copied()), error, Subject::Options)
    }
}

impl From<&RenderError> for Finding {
    fn from(error: &RenderError) -> Self {
        match error {
            RenderError::Options(error) => Self::from(error),
            RenderError::Unnamed => Self::at(FieldPath::default(), error, Subject::Name),
        }
    }
}
