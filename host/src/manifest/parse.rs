//! Parses the text of a file into objects.
//!
//! It follows `kubectl`, so that a manifest means the same here and to the API server: several documents in a file, empty ones
//! skipped, anchors and merge keys resolved, `0644` octal, and YAML 1.1's booleans (also `yes`, `no`, `on`, `off`, `y`, `n`).
//! Where such a boolean should be a string, the type check reports it with the advice to quote it.
//! JSON is YAML, so it needs no parser of its own.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Location, Options};

use super::document::{Children, Document, Span, SpanTree};
use super::field::{self, Step};
use super::node::{Node, Raw};
use super::numbering::Numbering;
use super::source::Source;
use crate::error::{Diagnostic, Position};

/// Deeper than any Kubernetes object (a CRD with a pod inside has about sixty levels), and safe for the recursive functions here.
const MAX_DEPTH: usize = 128;
/// Enough for thousands of pods in one file. Each value takes some hundred bytes of memory.
const MAX_NODES: usize = 1_000_000;
/// More than anyone puts into one file.
const MAX_DOCUMENTS: usize = 50_000;
/// How many parser events aliases may add.
const MAX_REPLAYED: usize = 100_000;

/// Reads the objects of a file. Lists are split into their items, and empty documents are skipped.
pub(super) fn parse(source: &Source) -> Result<Vec<Document>, Vec<Diagnostic>> {
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    for read in read(source, &mut errors)? {
        collect(source, read, &mut documents, &mut errors);
    }
    if errors.is_empty() {
        Ok(documents)
    } else {
        Err(errors)
    }
}

/// Reads the documents of a file, whether they are Kubernetes objects or not.
pub(super) fn values(source: &Source) -> Result<Vec<Value>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let documents = read(source, &mut errors)?;
    if errors.is_empty() {
        Ok(documents.into_iter().map(|read| read.value).collect())
    } else {
        Err(errors)
    }
}

/// A document, before it is known whether it is a Kubernetes object.
struct RawDocument {
    number: usize,
    value: Value,
    spans: SpanTree,
}

fn read(
    source: &Source,
    errors: &mut Vec<Diagnostic>,
) -> Result<Vec<RawDocument>, Vec<Diagnostic>> {
    let nodes = serde_saphyr::from_multiple_with_options::<Node>(&source.text, options())
        .map_err(|error| vec![syntax_error(source, &error)])?;
    let mut documents = Vec::new();
    let mut numbering = Numbering::new(&source.text);
    for node in nodes {
        if matches!(node.raw, Raw::Null) {
            continue;
        }
        let number = numbering.document(node.at.line());
        let mut reader = Reader {
            source,
            number,
            path: Vec::new(),
            errors,
        };
        let (value, spans) = reader.value(node, None);
        documents.push(RawDocument {
            number,
            value,
            spans,
        });
    }
    Ok(documents)
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
        with_snippet: false,
    }
}

/// Adds an object, or the items of a List.
fn collect(
    source: &Source,
    read: RawDocument,
    documents: &mut Vec<Document>,
    errors: &mut Vec<Diagnostic>,
) {
    let RawDocument {
        number,
        value,
        spans,
    } = read;
    let mut document = Document {
        api_version: text_field(&value, "apiVersion"),
        kind: text_field(&value, "kind"),
        value,
        number,
        source: source.clone(),
        spans,
    };
    if !document.value.is_object() {
        errors.push(Diagnostic::at(
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
        errors.push(Diagnostic::at(
            document.position(&[]),
            format!("missing {}", missing.join(" and ")),
        ));
        return;
    }
    let Some(item_type) = ItemType::of(&document) else {
        documents.push(document);
        return;
    };
    let items = document.value.get_mut("items").map(Value::take);
    let child_spans = match std::mem::take(&mut document.spans.children) {
        Children::Map(mut fields) => fields.remove("items").map(|spans| spans.children),
        _ => None,
    };
    if let (Some(Value::Array(items)), Some(Children::List(child_spans))) = (items, child_spans) {
        for (mut value, spans) in items.into_iter().zip(child_spans) {
            item_type.complete(&mut value);
            let item = RawDocument {
                number,
                value,
                spans,
            };
            collect(source, item, documents, errors);
        }
    }
}

/// The apiVersion and kind of list items that have none of their own, as in a PodList of the API server.
struct ItemType {
    fields: Vec<(&'static str, String)>,
}

impl ItemType {
    /// None if the document is not a list. A list has the kind List, or a kind that ends in List and `items`.
    fn of(document: &Document) -> Option<Self> {
        let kind = document.kind.strip_suffix("List")?;
        if kind.is_empty() {
            return Some(Self { fields: Vec::new() });
        }
        document.value.get("items")?.as_array()?;
        Some(Self {
            fields: vec![
                ("apiVersion", document.api_version.clone()),
                ("kind", kind.to_owned()),
            ],
        })
    }

    fn complete(&self, item: &mut Value) {
        let Value::Object(item) = item else { return };
        for (field, text) in &self.fields {
            item.entry(*field).or_insert_with(|| text.clone().into());
        }
    }
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
            value: span(&node.at),
            key,
            children: Children::Scalar,
        };
        let value = match node.raw {
            Raw::Null => Value::Null,
            Raw::Bool(value) => Value::Bool(value),
            Raw::Number(value) => Value::Number(integral(value)),
            Raw::String(value) => Value::String(value),
            Raw::List(nodes) => {
                let mut items = Vec::new();
                let mut child_spans = Vec::new();
                for (index, node) in nodes.into_iter().enumerate() {
                    self.path.push(Step::Index(index));
                    let (item, spans) = self.value(node, None);
                    self.path.pop();
                    items.push(item);
                    child_spans.push(spans);
                }
                spans.children = Children::List(child_spans);
                Value::Array(items)
            }
            Raw::Map(entries) => {
                let (fields, child_spans) = self.map(entries);
                spans.children = Children::Map(child_spans);
                Value::Object(fields)
            }
        };
        (value, spans)
    }

    fn map(
        &mut self,
        entries: Vec<(Node, Node)>,
    ) -> (Map<String, Value>, BTreeMap<String, SpanTree>) {
        let mut fields = Map::new();
        let mut child_spans = BTreeMap::new();
        for (key, node) in entries {
            let at = span(&key.at);
            let Some(name) = self.key(key) else { continue };
            self.path.push(Step::Key(name.clone()));
            let (value, spans) = self.value(node, Some(at.clone()));
            self.path.pop();
            if fields.insert(name.clone(), value).is_some() {
                self.report(&at, &format!("key {name:?} appears twice"));
            }
            child_spans.insert(name, spans);
        }
        (fields, child_spans)
    }

    /// JSON has only strings as keys. An integer is converted, as `kubectl` does. Anything else is an error: `120.0` would become
    /// `120`, and `on` would become `true`.
    fn key(&mut self, key: Node) -> Option<String> {
        let at = span(&key.at);
        let written = self.source.text.get(at.bytes.clone()).unwrap_or_default();
        let kind = match key.raw {
            Raw::String(name) => return Some(name),
            Raw::Number(number) if number.to_string() == written => {
                if !number.is_f64() {
                    return Some(number.to_string());
                }
                "a number"
            }
            Raw::Number(_) => "a number",
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
        let field = field::name(&self.path);
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

fn syntax_error(source: &Source, error: &serde_saphyr::Error) -> Diagnostic {
    let error = error.without_snippet();
    let (line, column) = error
        .location()
        .map_or((0, 0), |at| (at.line(), at.column()));
    let mut message = match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {key:?} appears twice")
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

#[cfg(test)]
mod tests;
