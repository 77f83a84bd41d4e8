//! JSON that a parser of YAML 1.1 reads in the same way, as IM's does.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Writes what the two formats read differently in the form that both read alike.
struct YamlToo;

/// Returns the text of a value.
pub(super) fn of(value: &Value) -> String {
    let mut text = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut text, YamlToo));
    match (written, String::from_utf8(text)) {
        (Ok(()), Ok(text)) => text,
        // Neither can be: a Value has texts for keys, and memory takes all that is written.
        _ => value.to_string(),
    }
}

impl Formatter for YamlToo {
    /// YAML takes a number with an exponent for a text, unless it has a dot and the exponent has a sign.
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let text = format!("{value:?}");
        let Some((number, exponent)) = text.split_once('e') else {
            return writer.write_all(text.as_bytes());
        };
        let dot = if number.contains('.') { "" } else { ".0" };
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(writer, "{number}{dot}e{sign}{exponent}")
    }

    /// YAML does not accept some characters, and folds what it takes for the end of a line. What JSON would escape as two halves stays,
    /// since YAML does not put them together again.
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for char in fragment.chars() {
            match char {
                ' '..='~' | '\u{10000}'.. => write!(writer, "{char}")?,
                _ => write!(writer, "\\u{:04x}", u32::from(char))?,
            }
        }
        Ok(())
    }
}
