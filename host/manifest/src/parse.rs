//! Parses the text of a file into objects.
//!
//! It follows `kubectl`, so that a manifest means the same here and to the API server: several documents in a file, empty ones
//! skipped, anchors and merge keys resolved, and plain scalars as [`resolve`] says: `0644` octal, YAML 1.1's booleans (also `yes`,
//! `no`, `on`, `off`, `y`, `n`), and `83e2010` a text.
//! Where such a boolean should be a string, the type check reports it with the advice to quote it.
//! JSON is YAML, so it needs no parser of its own.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::{Map, Number, Value};
use serde_saphyr::Location;

use super::document::{Document, Span, SpanTree, Step};
use super::slices::{Finder, Written};
use super::source::Source;
use super::syntax::{self, Node, Numbering, Raw};
use super::{Found, field_name};
use crate::error::{Diagnostic, Position, quoted};

/// Reads the objects of a file, and what could not be read. Lists are split into their items, and empty documents are skipped.
pub(super) fn parse(source: &Source) -> Found {
    let mut found = Found::default();
    for document in read(source, &mut found.errors) {
        collect(document, &mut found);
    }
    found
}

/// Reads the documents of a file, whether they are Kubernetes objects or not.
pub(super) fn documents(source: &Source) -> Result<Vec<Document>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let documents = read(source, &mut errors);
    match errors.is_empty() {
        true => Ok(documents),
        false => Err(errors),
    }
}

/// The documents that can be read.
fn read(source: &Source, errors: &mut Vec<Diagnostic>) -> Vec<Document> {
    let mut documents = Vec::new();
    let mut numbering = Numbering::new(&source.text);
    let mut finder = Finder::new(&source.text);
    for node in syntax::nodes(source, errors) {
        if matches!(node.value, Raw::Null) {
            continue;
        }
        let line = node.defined.line();
        let (number, written) = (numbering.document(line), finder.find(line));
        let before = errors.len();
        let mut reader = Reader {
            source,
            number,
            path: Vec::new(),
            errors,
        };
        let (value, spans) = reader.value(node, None);
        if errors.len() == before {
            documents.push(Document {
                written,
                ..document(value, spans, number, source)
            });
        }
    }
    documents
}

/// A document, before it is known whether it is a Kubernetes object.
fn document(value: Value, spans: SpanTree, number: usize, source: &Source) -> Document {
    Document {
        api_version: text_field(&value, "apiVersion"),
        kind: text_field(&value, "kind"),
        value,
        number,
        source: source.clone(),
        spans,
        written: None,
        named: None,
    }
}

/// Adds an object, or the items of a List.
fn collect(mut document: Document, found: &mut Found) {
    if !document.value.is_object() {
        found.errors.push(Diagnostic::at(
            document.position(&[]),
            "not a Kubernetes object: write a map with apiVersion, kind and metadata",
        ));
        return;
    }
    let missing: Vec<&str> = [
        ("apiVersion", &document.api_version),
        ("kind", &document.kind),
    ]
    .into_iter()
    .filter_map(|(field, text)| text.is_empty().then_some(field))
    .collect();
    if !missing.is_empty() {
        found.errors.push(Diagnostic::at(
            document.position(&[]),
            format!("missing {}", missing.join(" and ")),
        ));
        return;
    }
    let Some(given) = fields_of_items(&document) else {
        found.documents.push(document);
        return;
    };
    let items = document.value.get_mut("items").map(Value::take);
    let spans = document.spans.children.remove(&Step::from("items"));
    if let (Some(Value::Array(items)), Some(spans)) = (items, spans) {
        for (mut value, spans) in items.into_iter().zip(spans.children.into_values()) {
            if let Value::Object(item) = &mut value {
                for (field, text) in &given {
                    item.entry(*field).or_insert_with(|| text.clone().into());
                }
            }
            let item = self::document(value, spans, document.number, &document.source);
            collect(item, found);
        }
    }
}

/// The apiVersion and kind of list items that have none of their own, as in a PodList of the API server. None if the document is not a
/// list. A list has the kind List, or a kind that ends in List and `items`.
fn fields_of_items(document: &Document) -> Option<Vec<(&'static str, String)>> {
    let kind = document.kind.strip_suffix("List")?;
    let items = document.value.get("items");
    if kind.is_empty() {
        // Any other List is an object like others.
        let has_list = items.is_none_or(|items| items.is_array() || items.is_null());
        return (has_list && document.api_version == "v1").then(Vec::new);
    }
    items?.as_array()?;
    Some(vec![
        ("apiVersion", document.api_version.clone()),
        ("kind", kind.to_owned()),
    ])
}

fn text_field(value: &Value, field: &str) -> String {
    value
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Converts nodes into values and spans, by Kubernetes' rules for keys.
struct Reader<'a> {
    source: &'a Source,
    number: usize,
    path: Vec<Step>,
    errors: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn value(&mut self, node: Node, key: Option<Span>) -> (Value, SpanTree) {
        let mut spans = SpanTree {
            value: span(&node.defined),
            key,
            children: BTreeMap::new(),
        };
        let value = match self.resolved(node.value, &spans.value) {
            Raw::Null => Value::Null,
            Raw::NotFinite => {
                let written = self.written(&spans.value);
                let message = format!("{written} is no number in JSON: write \"{written}\"");
                self.report(&spans.value, &message);
                Value::Null
            }
            Raw::Bool(value) => Value::Bool(value),
            Raw::Number(value) => Value::Number(integral(value)),
            Raw::String(value) => Value::String(value),
            Raw::List(nodes) => {
                let mut items = Vec::new();
                for (index, node) in nodes.into_iter().enumerate() {
                    items.push(self.child(Step::Index(index), node, None, &mut spans));
                }
                Value::Array(items)
            }
            Raw::Map(entries) => Value::Object(self.map(entries, &mut spans)),
        };
        (value, spans)
    }

    fn child(&mut self, step: Step, node: Node, key: Option<Span>, spans: &mut SpanTree) -> Value {
        self.path.push(step.clone());
        let (value, own) = self.value(node, key);
        self.path.pop();
        spans.children.insert(step, own);
        value
    }

    /// The parser's value; if it is a plain scalar without a tag, kubectl's.
    fn resolved(&self, raw: Raw, at: &Span) -> Raw {
        let written = self.written(at);
        let is_plain = match &raw {
            Raw::List(_) | Raw::Map(_) => false,
            Raw::String(text) => text == written,
            _ => !written.is_empty() && !written.starts_with(['"', '\'', '|', '>']),
        };
        if !is_plain || self.has_tag(at) {
            return raw;
        }
        resolve(written)
    }

    /// Whether a tag is before a scalar; an anchor may be between them.
    fn has_tag(&self, at: &Span) -> bool {
        let before = self.source.text.get(..at.bytes.start).unwrap_or_default();
        // In JSON without spaces, the word before would be everything before.
        if !before.ends_with(|last: char| last.is_ascii_whitespace()) {
            return false;
        }
        let mut words = before.split_ascii_whitespace().rev();
        let word = words.find(|word| !word.starts_with('&'));
        word.is_some_and(|word| word.trim_start_matches(['[', '{', ',']).starts_with('!'))
    }

    fn written(&self, at: &Span) -> &str {
        let text = self.source.text.get(at.bytes.clone());
        text.unwrap_or_default()
    }

    fn map(&mut self, entries: Vec<(Node, Node)>, spans: &mut SpanTree) -> Map<String, Value> {
        let mut fields = Map::new();
        for (key, node) in entries {
            let at = span(&key.defined);
            let Some(name) = self.key(key) else { continue };
            let value = self.child(Step::Key(name.clone()), node, Some(at.clone()), spans);
            if fields.insert(name.clone(), value).is_some() {
                self.report(&at, &format!("key {} appears twice", quoted(&name)));
            }
        }
        fields
    }

    /// JSON has only strings as keys. An integer is converted, as `kubectl` does. Anything else is an error: `120.0` would become
    /// `120`, and `on` would become `true`.
    fn key(&mut self, key: Node) -> Option<String> {
        let at = span(&key.defined);
        let raw = self.resolved(key.value, &at);
        let written = self.written(&at);
        let kind = match raw {
            Raw::String(name) => return Some(name),
            Raw::Number(number) if number.to_string() == written => {
                if !number.is_f64() {
                    return Some(number.to_string());
                }
                "a number"
            }
            Raw::Number(_) | Raw::NotFinite => "a number",
            Raw::Bool(_) => "a boolean",
            Raw::Null => "null",
            Raw::List(_) | Raw::Map(_) => "a list or map",
        };
        let message = if written.is_empty() {
            format!("a key is {kind} and must be a string")
        } else {
            format!("the key {written} is read as {kind} and must be a string: write \"{written}\"")
        };
        self.report(&at, &message);
        None
    }

    fn report(&mut self, at: &Span, message: &str) {
        let position = Position {
            file: self.source.name.clone(),
            document: self.number,
            line: at.line,
            column: at.column,
        };
        let field = field_name(&self.path);
        self.errors.push(Diagnostic {
            field: (!field.is_empty()).then_some(field),
            ..Diagnostic::at(position, message)
        });
    }
}

/// JSON has one type of number: `kubectl` sends `1.0` and `1e3` as integers.
fn integral(number: Number) -> Number {
    // Beyond 2^53 a float no longer identifies one integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            format!("{float:.0}")
                .parse::<i64>()
                .map_or(number, Number::from)
        }
        _ => number,
    }
}

fn span(at: &Location) -> Span {
    let span = at.span();
    let start = span.byte_offset().unwrap_or_default();
    let length = span.byte_len().unwrap_or_default();
    Span {
        line: at.line(),
        column: at.column(),
        bytes: usize::try_from(start).unwrap_or_default()
            ..usize::try_from(start + length).unwrap_or_default(),
    }
}

// What a plain scalar is, by the rules of kubectl's YAML library: go-yaml v2, which knows YAML 1.1's booleans, numbers with
// underscores, and YAML 1.2's octals. A number that is too large for a float stays a text, such as the commit `83e2010`.

/// Reads a plain scalar without a tag.
fn resolve(text: &str) -> Raw {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Raw::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Raw::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Raw::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => return Raw::NotFinite,
        _ => {}
    }
    let number = match text.bytes().next() {
        Some(b'.') => float(text),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| float(&plain))
        }
        _ => None,
    };
    number.map_or_else(|| Raw::String(text.to_owned()), Raw::Number)
}

/// An integer of 64 bits, with a sign or without, in the base that its prefix says.
fn integer(text: &str) -> Option<Number> {
    let (sign, unsigned) = match text.split_at_checked(1) {
        Some((sign @ ("+" | "-"), rest)) => (sign, rest),
        _ => ("", text),
    };
    let (radix, digits) = match unsigned.split_at_checked(2) {
        Some(("0x" | "0X", digits)) => (16, digits),
        Some(("0b" | "0B", digits)) => (2, digits),
        Some(("0o" | "0O", digits)) => (8, digits),
        _ => match unsigned.strip_prefix('0') {
            Some(digits) if !digits.is_empty() => (8, digits),
            _ => (10, unsigned),
        },
    };
    // A second sign would be read, too.
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(number) => Some(number.into()),
        Err(_) if sign.is_empty() => u64::from_str_radix(digits, radix).ok().map(Number::from),
        Err(_) => None,
    }
}

/// A decimal number that a float can hold, perhaps with an exponent.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    // Rust reads `inf` and `nan` too.
    if !starts(unsigned) && !unsigned.strip_prefix('.').is_some_and(starts) {
        return None;
    }
    Number::from_f64(text.parse().ok()?)
}

// The text of a document as it was written, so that what is only passed on keeps its comments, its order and its scalars.

/// kubectl's parser ends a line at these, and with it a comment, and ours does not: kubectl would read another object than the one
/// that was checked.
const LINE_BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

impl Document {
    /// The document as it was written; none if it has to be reformatted: JSON, the items of a List, text that depends on what
    /// stands before its document, and text that kubectl may read as something else.
    pub fn as_written(&self) -> Option<String> {
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
        let values = documents(&source).ok()?;
        let values: Vec<_> = values.into_iter().map(|document| document.value).collect();
        (values == [self.value.clone()]).then_some(text)
    }
}

#[cfg(test)]
mod tests;
