//! The text of a document as it was written, so that what is only passed on keeps its comments, its order and its scalars.

use serde::de::IgnoredAny;

use super::document::Document;
use super::parse;
use super::source::Source;
use super::written::Written;

/// kubectl's parser ends a line at these, and with it a comment, and ours does not: kubectl would read another object than the one
/// that was checked.
const LINE_BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

impl Document {
    /// The document as it was written; none if it has to be reformatted: JSON, the items of a List, text that depends on what
    /// stands before its document, and text that kubectl may read as something else.
    pub(crate) fn as_written(&self) -> Option<String> {
        let Written { comments, slice } = self.written.as_ref()?;
        let own = self.source.text.get(slice.bytes.clone())?;
        let may_differ = own.contains(LINE_BREAKS) || comments.contains(LINE_BREAKS);
        if may_differ || serde_json::from_str::<IgnoredAny>(own).is_ok() {
            return None;
        }
        let mut text = format!("{comments}{own}");
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let source = Source {
            name: self.source.name.clone(),
            text: text.as_str().into(),
        };
        let values = parse::documents(&source).ok()?;
        let values: Vec<_> = values.into_iter().map(|document| document.value).collect();
        (values == [self.value.clone()]).then_some(text)
    }
}

#[cfg(test)]
mod tests;
