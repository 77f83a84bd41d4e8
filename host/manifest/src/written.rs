//! Writes objects.

use anyhow::Context;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::DoubleQuoted;

/// YAML as `kubectl` writes it: keys sorted, lists not indented, and strings quoted that would be read as another type.
pub fn yaml(value: &Value) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! {
        // Long lines are not folded: folded text is hard to read and to search.
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(&Quoted(value), options).context("could not write YAML")
}

/// Quotes strings that `kubectl` could not read as a block: a block that starts with a tab is valid YAML, but its parser rejects the
/// tab as bad indentation.
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
