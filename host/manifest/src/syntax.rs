//! Reads the YAML of a file, all documents that are valid.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::iter::Enumerate;
use std::str::Lines;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Options, Spanned};

use super::slices;
use super::source::Source;
use crate::error::{Diagnostic, Position, quoted};

/// Deeper than any Kubernetes object (a CRD with a pod inside has about sixty levels), and safe for the recursive functions here.
const MAX_DEPTH: usize = 128;
/// Enough for thousands of pods in one file. Each value takes some hundred bytes of memory.
const MAX_NODES: usize = 1_000_000;
/// More than anyone puts into one file.
const MAX_DOCUMENTS: usize = 50_000;
/// How many parser events aliases may add.
const MAX_REPLAYED: usize = 100_000;

/// How many documents with invalid syntax are reported. The file is read again after each.
const MOST_REPORTED: usize = 20;

/// The documents that are valid YAML. The parser stops at the first error, so the document with the error is blanked out, which
/// keeps all positions, and the rest is read again.
pub(super) fn nodes(source: &Source, errors: &mut Vec<Diagnostic>) -> Vec<Node> {
    let mut text = Cow::Borrowed(&*source.text);
    for _ in 0..MOST_REPORTED {
        let error = match serde_saphyr::from_multiple_with_options::<Node>(&text, options()) {
            Ok(nodes) => return nodes,
            Err(error) => error,
        };
        let diagnostic = explain(source, &error);
        let at = diagnostic.position.as_ref();
        let (line, column) = at.map_or((0, 0), |at| (at.line, at.column));
        errors.push(diagnostic);
        match without_document(&text, line, column) {
            Some(rest) if !is_limit(&error) => text = Cow::Owned(rest),
            _ => return Vec::new(),
        }
    }
    errors.push(Diagnostic::new(format!(
        "{}: more than {MOST_REPORTED} documents are invalid YAML: the others are not read",
        source.name
    )));
    Vec::new()
}

/// Whether an error is about the file as a whole.
fn is_limit(error: &serde_saphyr::Error) -> bool {
    matches!(
        error.without_snippet(),
        serde_saphyr::Error::Budget { .. } | serde_saphyr::Error::AliasError { .. }
    )
}

/// The text with spaces in place of the document that a position is in. None if there is nothing left to blank out.
fn without_document(text: &str, line: u64, column: u64) -> Option<String> {
    let slices = slices::of(text);
    // A quote that is not closed is reported at the separator after its document.
    let begins_before = |first_line: u64| {
        first_line == 1 || first_line < line || (first_line == line && column > 1)
    };
    let mut before = slices.iter().rev();
    let bad = before.find(|slice| {
        let text = text.get(slice.bytes.clone()).unwrap_or_default();
        begins_before(slice.first_line) && slices::has_content(text)
    })?;
    let blank = |part: &str| -> String {
        let bytes = part.bytes();
        let kept = |byte: u8| {
            if matches!(byte, b'\n' | b'\r') {
                byte.into()
            } else {
                ' '
            }
        };
        bytes.map(kept).collect()
    };
    let (start, rest) = text.split_at_checked(bad.bytes.start)?;
    let (middle, end) = rest.split_at_checked(bad.bytes.len())?;
    Some([start, &blank(middle), end].concat())
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            // Here the end of each list and map counts too, and two events for each document.
            max_events: 2 * MAX_NODES + 2 * MAX_DOCUMENTS,
            max_documents: MAX_DOCUMENTS,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
        },
        legacy_octal_numbers: true,
        // `83e2010` is a text to kubectl.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

fn explain(source: &Source, error: &serde_saphyr::Error) -> Diagnostic {
    let error = error.without_snippet();
    let (line, column) = error
        .location()
        .map_or((0, 0), |at| (at.line(), at.column()));
    let mut message = match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {} appears twice", quoted(key))
        }
        serde_saphyr::Error::Budget { breach, .. } => too_large(breach),
        serde_saphyr::Error::AliasError { error, .. }
            if matches!(
                **error,
                serde_saphyr::Error::AliasReplayLimitExceeded { .. }
            ) =>
        {
            "the aliases expand to too much text: write it out, in several files".to_owned()
        }
        other => {
            let text = other.to_string();
            let suffix = format!(" at line {line}, column {column}");
            format!(
                "invalid YAML: {}",
                text.strip_suffix(&suffix).unwrap_or(&text)
            )
        }
    };
    let here = usize::try_from(line)
        .ok()
        .and_then(|line| source.text.lines().nth(line.saturating_sub(1)));
    if here.is_some_and(|here| here.trim_start_matches(' ').starts_with('\t')) {
        let _infallible = write!(message, " (the line is indented by a tab: use spaces)");
    }
    Diagnostic::at(
        Position {
            file: source.name.clone(),
            document: Numbering::new(&source.text).document(line),
            line,
            column,
        },
        message,
    )
}

/// The error for a text that exceeds a limit, with the remedy.
fn too_large(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { .. } => format!("more than {MAX_DEPTH} levels of nesting"),
        BudgetBreach::Documents { .. } => {
            format!("more than {MAX_DOCUMENTS} documents: split the file")
        }
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            format!("more than {MAX_NODES} values: split the file")
        }
        other => format!("exceeds a limit: {other:?}"),
    }
}

// A YAML tree with the position of every key and value.

/// One value and its location. For an alias, `defined` is the location of its anchor, since that is what the user has to change.
pub(super) type Node = Spanned<Raw>;

/// A value by YAML's rules. Kubernetes' rules for keys are applied later.
#[derive(Debug)]
pub(super) enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    /// Infinity, or no number; JSON has neither.
    NotFinite,
    String(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Number::from_f64(value).map_or(Raw::NotFinite, Raw::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

// Finds the document that a line belongs to.

/// Counts the documents of a text by their separators, from the first line to the last.
pub(super) struct Numbering<'a> {
    lines: Enumerate<Lines<'a>>,
    /// How many lines were read.
    read: u64,
    number: usize,
    /// Whether the current document has content. A separator before that does not start a new document.
    content: bool,
}

impl<'a> Numbering<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            read: 0,
            number: 1,
            content: false,
        }
    }

    /// The number of the document that a line is in. Call it with increasing lines: each line is read only once.
    pub(super) fn document(&mut self, line: u64) -> usize {
        while self.read < line
            && let Some((index, here)) = self.lines.next()
        {
            self.read = index as u64 + 1;
            self.pass(here);
        }
        self.number
    }

    fn pass(&mut self, line: &str) {
        if slices::is_separator(line) {
            self.number += usize::from(self.content);
            self.content = true;
        } else if !self.content {
            let line = line.trim_start_matches('\u{feff}').trim();
            self.content = !(line.is_empty() || line.starts_with(['#', '%']));
        }
    }
}

#[cfg(test)]
mod tests;
