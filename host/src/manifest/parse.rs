//! From the text of a file to its objects.
//!
//! Text is read as `kubectl` reads it: several documents in a file, empty ones skipped, anchors and merge keys resolved,
//! `0644` octal, and YAML 1.1's booleans (`yes`, `no`, `on`, `off`, `y`, `n` too), so that what renders here means the same
//! to the API server. A field that wanted a string and got one of those is refused by its type, with the advice to quote it.
//! JSON is YAML.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Location, Options};

use super::document::{Document, Inside, Mark, Spot};
use super::field::{self, Step};
use super::node::{Node, Raw};
use super::numbering::Numbering;
use super::source::Source;
use crate::refusal::{Place, Refusal};

/// Deeper than any object of Kubernetes (a CRD with a pod inside needs about sixty), and safe for every recursion here.
const MAX_DEPTH: usize = 128;
/// Thousands of pods in one file; each value takes some hundred bytes of memory.
const MAX_NODES: usize = 1_000_000;
/// More than anyone puts into one file.
const MAX_DOCUMENTS: usize = 50_000;
/// What aliases may add to the text, in parser events.
const MAX_REPLAYED: usize = 100_000;

/// Reads a file's objects, with Lists taken apart and empty documents left out.
pub(super) fn parse(source: &Source) -> Result<Vec<Document>, Vec<Refusal>> {
    let mut documents = Vec::new();
    let mut refusals = Vec::new();
    for read in read(source, &mut refusals)? {
        collect(source, read, &mut documents, &mut refusals);
    }
    if refusals.is_empty() {
        Ok(documents)
    } else {
        Err(refusals)
    }
}

/// Reads a file's documents, whatever they are.
pub(super) fn values(source: &Source) -> Result<Vec<Value>, Vec<Refusal>> {
    let mut refusals = Vec::new();
    let documents = read(source, &mut refusals)?;
    if refusals.is_empty() {
        Ok(documents.into_iter().map(|read| read.value).collect())
    } else {
        Err(refusals)
    }
}

/// A document before anyone has looked at what it is.
struct Read {
    number: usize,
    value: Value,
    mark: Mark,
}

fn read(source: &Source, refusals: &mut Vec<Refusal>) -> Result<Vec<Read>, Vec<Refusal>> {
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
            refusals,
        };
        let (value, mark) = reader.value(node, None);
        documents.push(Read {
            number,
            value,
            mark,
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
            // Each list and each map has an end, which counts here, and each document two.
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
    read: Read,
    documents: &mut Vec<Document>,
    refusals: &mut Vec<Refusal>,
) {
    let Read {
        number,
        value,
        mark,
    } = read;
    let mut document = Document {
        api_version: text_field(&value, "apiVersion"),
        kind: text_field(&value, "kind"),
        value,
        number,
        source: source.clone(),
        mark,
    };
    if !document.value.is_object() {
        refusals.push(Refusal::at(
            document.place(&[]),
            "a Kubernetes object was expected: a map with apiVersion, kind and metadata",
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
        refusals.push(Refusal::at(
            document.place(&[]),
            format!("every object needs {}", missing.join(" and ")),
        ));
        return;
    }
    let Some(item_type) = ItemType::of(&document) else {
        documents.push(document);
        return;
    };
    let items = document.value.get_mut("items").map(Value::take);
    let marks = match std::mem::take(&mut document.mark.inside) {
        Inside::Map(mut fields) => fields.remove("items").map(|mark| mark.inside),
        _ => None,
    };
    if let (Some(Value::Array(items)), Some(Inside::List(marks))) = (items, marks) {
        for (mut value, mark) in items.into_iter().zip(marks) {
            item_type.complete(&mut value);
            let item = Read {
                number,
                value,
                mark,
            };
            collect(source, item, documents, refusals);
        }
    }
}

/// What the items of a list are that do not say it themselves, as in a PodList of the API server.
struct ItemType {
    fields: Vec<(&'static str, String)>,
}

impl ItemType {
    /// None if the document is no list: one is a List, or a kind that ends with it and has items.
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

/// Turns nodes into values and marks, by Kubernetes' rules for keys.
struct Reader<'a> {
    source: &'a Source,
    number: usize,
    path: Vec<Step>,
    refusals: &'a mut Vec<Refusal>,
}

impl Reader<'_> {
    fn value(&mut self, node: Node, key: Option<Spot>) -> (Value, Mark) {
        let mut mark = Mark {
            value: spot(&node.at),
            key,
            inside: Inside::Scalar,
        };
        let value = match node.raw {
            Raw::Null => Value::Null,
            Raw::Bool(value) => Value::Bool(value),
            Raw::Number(value) => Value::Number(integral(value)),
            Raw::String(value) => Value::String(value),
            Raw::List(nodes) => {
                let mut items = Vec::new();
                let mut marks = Vec::new();
                for (index, node) in nodes.into_iter().enumerate() {
                    self.path.push(Step::Index(index));
                    let (item, mark) = self.value(node, None);
                    self.path.pop();
                    items.push(item);
                    marks.push(mark);
                }
                mark.inside = Inside::List(marks);
                Value::Array(items)
            }
            Raw::Map(entries) => {
                let (fields, marks) = self.map(entries);
                mark.inside = Inside::Map(marks);
                Value::Object(fields)
            }
        };
        (value, mark)
    }

    fn map(&mut self, entries: Vec<(Node, Node)>) -> (Map<String, Value>, BTreeMap<String, Mark>) {
        let mut fields = Map::new();
        let mut marks = BTreeMap::new();
        for (key, node) in entries {
            let at = spot(&key.at);
            let Some(name) = self.key(key) else { continue };
            self.path.push(Step::Key(name.clone()));
            let (value, mark) = self.value(node, Some(at.clone()));
            self.path.pop();
            if fields.insert(name.clone(), value).is_some() {
                self.refuse(&at, &format!("key {name:?} is given twice"));
            }
            marks.insert(name, mark);
        }
        (fields, marks)
    }

    /// JSON knows only strings as keys. An integer becomes one without loss, as `kubectl` does it; `120.0` would become
    /// `120` and `on` would become `true`, which nobody meant.
    fn key(&mut self, key: Node) -> Option<String> {
        let at = spot(&key.at);
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
            Raw::List(_) | Raw::Map(_) => "no scalar",
        };
        let message = if written.is_empty() {
            format!("a key is {kind} and must be a string")
        } else {
            format!("the key {written} is read as {kind} and must be a string: write \"{written}\"")
        };
        self.refuse(&at, &message);
        None
    }

    fn refuse(&mut self, at: &Spot, message: &str) {
        let place = Place {
            file: self.source.name.clone(),
            document: self.number,
            line: at.line,
            column: at.column,
        };
        let field = field::name(&self.path);
        self.refusals.push(Refusal {
            field: (!field.is_empty()).then_some(field),
            ..Refusal::at(place, message)
        });
    }
}

/// JSON knows one kind of number: to the API server `1.0` and `1e3` are integers, as `kubectl` sends them.
fn integral(number: Number) -> Number {
    // Beyond 2^53 a float no longer tells which integer was meant.
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

fn spot(at: &Location) -> Spot {
    let span = at.span();
    let start = span.byte_offset().unwrap_or_default();
    let length = span.byte_len().unwrap_or_default();
    Spot {
        line: at.line(),
        column: at.column(),
        bytes: usize::try_from(start).unwrap_or_default()
            ..usize::try_from(start + length).unwrap_or_default(),
    }
}

fn syntax_error(source: &Source, error: &serde_saphyr::Error) -> Refusal {
    let error = error.without_snippet();
    let (line, column) = error
        .location()
        .map_or((0, 0), |at| (at.line(), at.column()));
    let mut message = match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {key:?} is given twice")
        }
        serde_saphyr::Error::Budget { breach, .. } => too_large(breach),
        serde_saphyr::Error::AliasError { error, .. }
            if matches!(
                **error,
                serde_saphyr::Error::AliasReplayLimitExceeded { .. }
            ) =>
        {
            "the aliases stand for too much text: write it out, in several files".to_owned()
        }
        other => {
            let text = other.to_string();
            let suffix = format!(" at line {line}, column {column}");
            format!("not YAML: {}", text.strip_suffix(&suffix).unwrap_or(&text))
        }
    };
    let here = usize::try_from(line)
        .ok()
        .and_then(|line| source.text.lines().nth(line.saturating_sub(1)));
    if here.is_some_and(|here| here.trim_start_matches(' ').starts_with('\t')) {
        let _infallible = write!(message, " (the line is indented by a tab: use spaces)");
    }
    Refusal::at(
        Place {
            file: source.name.clone(),
            document: Numbering::new(&source.text).document(line),
            line,
            column,
        },
        message,
    )
}

/// Says which limit a text is over, and what to do.
fn too_large(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { .. } => format!("nested more than {MAX_DEPTH} levels deep"),
        BudgetBreach::Documents { .. } => {
            format!("more than {MAX_DOCUMENTS} documents: split the file")
        }
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            format!("more than {MAX_NODES} values: split the file")
        }
        other => format!("larger than is read: {other:?}"),
    }
}

#[cfg(test)]
mod tests;
