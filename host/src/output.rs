//! Writes objects for programs, and text for people.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde_json::{Value, json};

use crate::cli::Format;
use crate::error::{CommandError, Diagnostic};
pub(crate) use crate::manifest::yaml;

/// The label of errors.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// The label of warnings.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// The heading of an object or plugin.
pub(crate) const TITLE: Style = Style::new().bold();
/// Added lines.
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// Removed lines.
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
/// Changed values.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// Less important text.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Adds colour to a text. The output stream removes it again if `--color` says so.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A text of at most so many bytes, with a mark where its end is cut off.
pub(crate) fn short<'t>(text: &'t str, bytes: usize, mark: &str) -> Cow<'t, str> {
    match text.get(..text.floor_char_boundary(bytes)) {
        Some(start) if start.len() < text.len() => format!("{start}{mark}").into(),
        _ => text.into(),
    }
}

/// Prints objects: in YAML one document each, in JSON one object or a List.
pub(crate) fn print_objects(objects: &[Value], format: Format) -> Result<(), CommandError> {
    let text = match (format, objects) {
        (Format::Yaml, _) => documents(objects)?,
        (Format::Json, [one]) => json_text(one)?,
        (Format::Json, several) => json_text(&json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": several,
        }))?,
    };
    print(&text)
}

/// Objects as YAML documents.
fn documents(objects: &[Value]) -> anyhow::Result<String> {
    let texts = objects
        .iter()
        .map(yaml)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(texts.join("---\n"))
}

/// Indented JSON.
pub(crate) fn json_text(value: &Value) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("could not write JSON")?;
    text.push('\n');
    Ok(text)
}

/// An object with the fields that have a value.
pub(crate) fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter();
    let present = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}

/// Prints to standard output. A reader that closes the pipe early, such as `head`, is not an error.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Other(
            anyhow::Error::new(error).context("could not write to standard output"),
        )),
        _ => Ok(()),
    }
}

/// Prints a warning on standard error.
pub(crate) fn warn(warning: &Diagnostic) {
    print_note(&format!("{} {warning}\n", paint(WARNING, "warning:")));
}

/// Prints a note on standard error. A closed standard error is not an error.
pub(crate) fn print_note(text: &str) {
    let _ignored = anstream::stderr().lock().write_all(text.as_bytes());
}

/// How often the progress is shown.
const SHOWN: Duration = Duration::from_millis(200);

/// Counts on a terminal, on one line of standard error, if it takes long. The line is gone when this is dropped.
pub(crate) struct Progress {
    what: &'static str,
    /// None if it is no terminal.
    shown: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// What is counted, such as `pods compared`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            shown: io::stderr().is_terminal().then(Instant::now),
            is_shown: false,
        }
    }

    pub(crate) fn reached(&mut self, count: u64) {
        if self.shown.is_some_and(|shown| shown.elapsed() > SHOWN) {
            (self.shown, self.is_shown) = (Some(Instant::now()), true);
            print_note(&format!("\r{count} {}", self.what));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            print_note("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests;
