//! Errors of a command: what is wrong with the input, and where.

use std::fmt;
use std::sync::Arc;

/// A position in the input. Lines and columns count from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The file as the user named it, or `-`.
    pub(crate) file: Arc<str>,
    /// The number of the document in the file.
    pub(crate) document: usize,
    /// The line, or 0 if it is unknown.
    pub(crate) line: u64,
    /// The column, in characters.
    pub(crate) column: u64,
}

/// One error or warning about the input.
#[derive(Clone, Debug)]
pub(crate) struct Diagnostic {
    /// Where it is; none if it is about no single document.
    pub(crate) position: Option<Position>,
    /// The object, as `Browser shop/chrome`.
    pub(crate) object: Option<String>,
    /// The field, as `spec.browserVersion`.
    pub(crate) field: Option<String>,
    /// What is wrong and what to do instead.
    pub(crate) message: String,
}

impl Diagnostic {
    /// A message about the input as a whole.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            position: None,
            object: None,
            field: None,
            message: message.into(),
        }
    }

    /// A message about a position whose object is not known yet.
    pub(crate) fn at(position: Position, message: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            ..Self::new(message)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{}:", escape_controls(&position.file))?;
            if position.line > 0 {
                write!(f, "{}:{}:", position.line, position.column)?;
            }
            write!(f, " document {}", position.document)?;
        }
        let mut separator = if self.position.is_some() { ", " } else { "" };
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{separator}{}", escape_controls(part))?;
            separator = ", ";
        }
        if separator == ", " {
            write!(f, ": ")?;
        }
        // Indented, so that a message of several lines reads as one entry of the list.
        let mut indent = "";
        for line in self.message.trim_end().lines() {
            write!(f, "{indent}{}", escape_controls(line))?;
            indent = "\n    ";
        }
        Ok(())
    }
}

/// Escapes control characters: on a terminal they could move the cursor or change what was printed before.
pub(crate) fn escape_controls(text: &str) -> String {
    text.chars()
        .flat_map(|char| {
            let escaped = char.is_control().then(|| char.escape_unicode());
            let shown = escaped.is_none().then_some(char);
            escaped.into_iter().flatten().chain(shown)
        })
        .collect()
}

/// Why a command failed. The variant decides the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The input is invalid, so the command did nothing. Lists all errors at once.
    #[error("the input is invalid")]
    Invalid(Vec<Diagnostic>),
    /// The command ran to its end and found these problems.
    #[error("the check failed")]
    CheckFailed(Vec<Diagnostic>),
    /// The input is invalid, and the command has reported the errors itself.
    #[error("the input is invalid")]
    Reported,
    /// The command found differences, has shown them, and was asked for this exit code.
    #[error("there are differences")]
    Different,
    /// The command line is wrong in a way that its parser cannot see.
    #[error("{0}")]
    Usage(String),
    /// Anything else: an I/O error, or a bug of Podloom.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl CommandError {
    /// One error about the input as a whole.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(vec![Diagnostic::new(message)])
    }

    /// The exit code: 1 for invalid input or a failed check, 2 for wrong usage, 3 for the rest, 4 for differences.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Invalid(_) | Self::CheckFailed(_) | Self::Reported => 1,
            Self::Usage(_) => 2,
            Self::Other(_) => 3,
            Self::Different => 4,
        }
    }
}

#[cfg(test)]
mod tests;
