//! Why a command ended without doing what it was asked: what is wrong with the input, or with the world.

use std::fmt;
use std::sync::Arc;

/// Where something stands in the input; lines and columns count from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file as it was named, or `-`.
    pub(crate) file: Arc<str>,
    /// Which document of the file.
    pub(crate) document: usize,
    /// The line, or 0 where none is known.
    pub(crate) line: u64,
    /// The column, in characters.
    pub(crate) column: u64,
}

/// One thing that is wrong with the input.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Where to look, if it is in a document at all.
    pub(crate) place: Option<Place>,
    /// The object, as `Browser shop/chrome`.
    pub(crate) object: Option<String>,
    /// The field, as `spec.browserVersion`.
    pub(crate) field: Option<String>,
    /// What is wrong and what to do instead.
    pub(crate) message: String,
}

impl Refusal {
    /// Something wrong with the input as a whole.
    pub(crate) fn of_input(message: impl Into<String>) -> Self {
        Self {
            place: None,
            object: None,
            field: None,
            message: message.into(),
        }
    }

    /// Something wrong at a place, before it is known which object stands there.
    pub(crate) fn at(place: Place, message: impl Into<String>) -> Self {
        Self {
            place: Some(place),
            ..Self::of_input(message)
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{}:", plain(&place.file))?;
            if place.line > 0 {
                write!(f, "{}:{}:", place.line, place.column)?;
            }
            write!(f, " document {}", place.document)?;
        }
        let mut separator = if self.place.is_some() { ", " } else { "" };
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{separator}{}", plain(part))?;
            separator = ", ";
        }
        if separator == ", " {
            write!(f, ": ")?;
        }
        // A message of several lines stays one entry of the list.
        let mut indent = "";
        for line in self.message.trim_end().lines() {
            write!(f, "{indent}{}", plain(line))?;
            indent = "\n    ";
        }
        Ok(())
    }
}

/// Text of a file as a terminal may show it: control characters could move the cursor or change what was printed before.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|char| {
            let escaped = char.is_control().then(|| char.escape_unicode());
            let shown = escaped.is_none().then_some(char);
            escaped.into_iter().flatten().chain(shown)
        })
        .collect()
}

/// Why a command failed; the variant decides the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The input was refused: everything that is wrong with it.
    #[error("the input was refused")]
    Refused(Vec<Refusal>),
    /// What was asked has been done, and this was found to be wrong.
    #[error("something is wrong")]
    Found(Vec<Refusal>),
    /// The command line makes no sense in a way that its parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// Anything else: the disk, or our own fault.
    #[error(transparent)]
    Broken(#[from] anyhow::Error),
}

impl Failure {
    /// One thing wrong with the input as a whole.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(vec![Refusal::of_input(message)])
    }

    /// The exit code: 1 for refused input, 2 for usage, 3 for the rest.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Found(_) => 1,
            Self::Usage(_) => 2,
            Self::Broken(_) => 3,
        }
    }
}

#[cfg(test)]
mod tests;
