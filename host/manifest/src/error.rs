//! Errors of a command: what is wrong with the input, and where.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use podloom_syntax::text;

/// How much of a word or a value is shown, in characters: more than any valid name or key has.
const WORD: usize = 320;

/// What shows that a word was cut.
const CUT: &str = "…";

/// How much of a message is shown, in bytes: the longest reason that a plugin can give, and what is said around it.
const MESSAGE: usize = 20 << 10;

/// A position in the input. Lines and columns count from one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The file as the user named it, or `-`.
    pub file: Arc<str>,
    /// The number of the document in the file, or 0 if it is about the file as a whole.
    pub document: usize,
    /// The line, or 0 if it is unknown.
    pub line: u64,
    /// The column, in characters, or 0 if it is unknown.
    pub column: u64,
}

impl Position {
    /// A line of a file whose documents have no numbers.
    pub fn of_line(file: impl Into<Arc<str>>, line: u64) -> Self {
        Self {
            file: file.into(),
            document: 0,
            line,
            column: 0,
        }
    }
}

/// What kind of message it is, for programs that sort messages.
#[derive(Debug)]
pub struct Rule {
    /// Its name, which never changes.
    pub id: &'static str,
    /// What it is about, in a sentence.
    pub summary: &'static str,
}

/// The rule of messages that have no other.
pub const INPUT: Rule = Rule {
    id: "input",
    summary: "A file, an object or a chain is not as it must be, or probably not as it is meant.",
};

/// One error or warning about the input.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What kind of message it is.
    pub rule: &'static Rule,
    /// Where it is; none if it is about no single document.
    pub position: Option<Position>,
    /// The object, as `Browser shop/chrome`.
    pub object: Option<String>,
    /// The field, as `spec.browserVersion`.
    pub field: Option<String>,
    /// What is wrong and what to do instead.
    pub message: String,
}

impl Diagnostic {
    /// A message about the input as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            rule: &INPUT,
            position: None,
            object: None,
            field: None,
            message: message.into(),
        }
    }

    /// The message as one of this rule.
    #[must_use]
    pub fn of(self, rule: &'static Rule) -> Self {
        Self { rule, ..self }
    }

    /// The place and the field that it is about.
    pub fn place(&self) -> (Option<&Position>, Option<&str>) {
        (self.position.as_ref(), self.field.as_deref())
    }

    /// The message with what it is about, but without the place.
    pub fn about(&self) -> String {
        let named = [&self.object, &self.field].into_iter().flatten();
        let named: Vec<String> = named.map(|part| shown(part)).collect();
        let mut text = named.join(", ");
        if !text.is_empty() {
            text.push_str(": ");
        }
        // Indented, so that a message of several lines reads as one entry of the list.
        let mut indent = "";
        for line in cut(self.message.trim_end()).lines() {
            text.push_str(indent);
            text.push_str(&escape_controls(line));
            indent = "\n    ";
        }
        text
    }

    /// A message about a position whose object is not known yet.
    pub fn at(position: Position, message: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            ..Self::new(message)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = &self.position else {
            return f.write_str(&self.about());
        };
        write!(f, "{}:", shown(&at.file))?;
        for number in [at.line, at.column].into_iter().take_while(|it| *it > 0) {
            write!(f, "{number}:")?;
        }
        if at.document > 0 {
            let names_more = self.object.is_some() || self.field.is_some();
            let end = if names_more { "," } else { ":" };
            write!(f, " document {}{end}", at.document)?;
        }
        write!(f, " {}", self.about())
    }
}

/// A text from outside as messages show it: without control characters, and cut.
pub fn shown(text: &str) -> String {
    escape_controls(&cut(text))
}

/// A value from outside as messages quote it.
pub fn quoted(value: &str) -> String {
    format!("{:?}", text::cut(value, WORD, CUT))
}

/// A value of JSON from outside as messages show it.
pub fn value(value: &serde_json::Value) -> String {
    text::cut(&value.to_string(), WORD, CUT).into_owned()
}

/// Cuts each word that is too long, such as a name of 80 KB, and then the whole. What a message says about a word stays.
pub fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= WORD {
        return Cow::Borrowed(text);
    }
    let mut short = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        if short.len() > MESSAGE {
            short.push('…');
            break;
        }
        let end = word.trim_end_matches(char::is_whitespace).len();
        let (word, space) = word.split_at(end);
        short.push_str(&text::cut(word, WORD, CUT));
        short.push_str(space);
    }
    Cow::Owned(short)
}

/// Escapes control characters: on a terminal they could move the cursor or change what was printed before.
pub fn escape_controls(text: &str) -> String {
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
pub enum CommandError {
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
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(vec![Diagnostic::new(message)])
    }

    /// The exit code: 1 for invalid input or a failed check, 2 for wrong usage, 3 for the rest, 4 for differences.
    pub const fn code(&self) -> u8 {
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
