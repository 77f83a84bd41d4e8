//! Writes objects for programs, and text for people.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use serde_saphyr::DoubleQuoted;

use crate::cli::Format;
use crate::refusal::Failure;

/// What stops a command.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// What does not.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// The object that the lines below are about.
pub(crate) const TITLE: Style = Style::new().bold();
/// What was added.
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// What was removed.
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
/// What was changed.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// What matters less.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Text in a style; the stream takes the colours out where they are not wanted.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints objects: as YAML a document each, as JSON one object or a List.
pub(crate) fn print_objects(objects: &[Value], format: Format) -> Result<(), Failure> {
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

/// A document for each object.
fn documents(objects: &[Value]) -> anyhow::Result<String> {
    let texts = objects
        .iter()
        .map(yaml)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(texts.join("---\n"))
}

/// YAML as `kubectl` writes it: keys sorted, lists not indented, texts that would be read as something else in quotes.
pub(crate) fn yaml(value: &Value) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! {
        // Long lines stay lines: folded text is hard to read and to search.
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(&Quoted(value), options).context("could not write YAML")
}

/// A value whose texts are in quotes where `kubectl` could not read the block that they would be: a block that begins
/// with a tab is YAML, but to its parser a tab is bad indentation.
struct Quoted<'a>(&'a Value);

impl Serialize for Quoted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if text.trim_start_matches('\n').starts_with('\t') => {
                DoubleQuoted(text).serialize(serializer)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Quoted)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, Quoted(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

/// JSON, indented.
pub(crate) fn json_text(value: &Value) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("could not write JSON")?;
    text.push('\n');
    Ok(text)
}

/// Prints to standard output. A reader that has seen enough, such as `head`, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Broken(
            anyhow::Error::new(error).context("could not write to standard output"),
        )),
        _ => Ok(()),
    }
}

/// Tells people something on standard error. If nobody listens, that is no failure.
pub(crate) fn tell(text: &str) {
    let _unheard = anstream::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests;
