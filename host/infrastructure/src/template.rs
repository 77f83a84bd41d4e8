//! TOSCA templates: what is sent to an Infrastructure Manager (IM), and what of a change can be.
//!
//! IM merges a new template over the one that it has: objects key by key, lists by index, and null is nothing. So what is missing in the
//! new one stays, and the answer is the same as if it had gone. [`compare`] says which changes IM takes, and how machines are removed:
//! by a number of zero. Everything here is pure.

mod change;
mod files;

use std::{fmt, io};

use podloom_engine::finding::FieldPath;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value};

use self::change::{COUNT, instances_of_type, is_compute, line_of};
pub(crate) use self::change::{Comparison, compare};
use self::files::Path;

/// The largest template in its canonical form, in bytes.
pub(crate) const TEMPLATE_BYTES_MAX: usize = 256 * 1024;
/// How deep objects and lists may be in each other. IM's parser ends with an error of its own somewhat deeper.
const DEPTH_MAX: usize = 64;
/// How deep this code goes into a value that nobody has checked: as deep as a parser of JSON does.
const DEPTH_LOOKED_AT: usize = 128;

/// How many problems are named; the next ones show when these are mended. A template can have a hundred thousand, each behind a long path.
pub(crate) const PROBLEMS_MAX: usize = 12;

/// The key of what is said about the template.
const METADATA: &str = "metadata";
/// The key in it of the name that we give an infrastructure.
const INFRA_NAME: &str = "infra_name";

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where in the template.
    path: FieldPath,
    /// What, as a sentence.
    pub(crate) message: String,
}

impl Problem {
    /// Returns where it is in an object that has the template at this field.
    pub(crate) fn below(&self, field: &str) -> FieldPath {
        let mut path = FieldPath::dotted(field);
        path.0.extend_from_slice(&self.path.0);
        path
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", files::dotted(&self.path), self.message)
    }
}

/// Returns the form that is compared, sent and stored: without the members of objects that are null.
pub(crate) fn canonical(template: &Value) -> Value {
    canonical_to(template, DEPTH_LOOKED_AT)
}

fn canonical_to(value: &Value, depth: usize) -> Value {
    let Some(below) = depth.checked_sub(1) else {
        return value.clone();
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), canonical_to(value, below)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| canonical_to(item, below)).collect(),
        other => other.clone(),
    }
}

/// Returns how many bytes a template has as JSON.
pub(crate) fn size_of(template: &Value) -> usize {
    template.to_string().len()
}

/// Checks what the schema cannot say. Unless `allow_file_references`, IM must not be told to read files: they would be its own.
///
/// # Errors
///
/// Returns all that is wrong.
pub(crate) fn check(template: &Value, allow_file_references: bool) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    let metadata = template.get(METADATA);
    if metadata.is_some_and(|metadata| !metadata.is_object()) {
        let root = Path::default();
        problems.push(root.key(METADATA).problem("it must be an object"));
    }
    too_deep(template, &Path::default(), &mut problems);
    problems.extend(files::tokens(template));
    if !allow_file_references {
        problems.extend(files::references(template));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// Finds objects and lists that are too deep in others.
fn too_deep(value: &Value, path: &Path<'_>, problems: &mut Vec<Problem>) {
    let is_nested = value.is_object() || value.is_array();
    if is_nested && path.depth() >= DEPTH_MAX {
        problems.push(path.problem("objects and lists may be 64 levels deep in each other"));
        return;
    }
    if problems.len() >= PROBLEMS_MAX {
        return;
    }
    for (inner, path) in path.inside(value) {
        too_deep(inner, &path, problems);
    }
}

/// Returns what is sent: the template with the name of the infrastructure, in JSON that a parser of YAML reads in the same way.
pub(crate) fn to_send(template: &Value, infra_name: &str) -> String {
    of(&named(template, infra_name))
}

/// Returns the template with the name of the infrastructure.
pub(crate) fn named(template: &Value, infra_name: &str) -> Value {
    let mut sent = template.clone();
    if let Value::Object(fields) = &mut sent {
        let metadata = fields
            .entry(METADATA)
            .or_insert_with(|| Value::Object(Map::new()));
        if !metadata.is_object() {
            *metadata = Value::Object(Map::new());
        }
        if let Value::Object(metadata) = metadata {
            metadata.insert(INFRA_NAME.to_owned(), infra_name.into());
        }
    }
    sent
}

// JSON that a parser of YAML 1.1 reads in the same way, as IM's does.

/// Writes what the two formats read differently in the form that both read alike.
struct YamlToo;

/// Returns the text of a value.
fn of(value: &Value) -> String {
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

// The name that we give an infrastructure, as an Infrastructure Manager returns it.

/// What matters of a template.
#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    infra_name: Option<String>,
}

/// Whether a template has the name; none if that cannot be said. A text that does not even contain it is somebody else's, whatever it is.
pub(crate) fn is_named(text: &str, name: &str) -> Option<bool> {
    if !text.contains(name) {
        return Some(false);
    }
    Some(name_in(text)?.as_deref() == Some(name))
}

/// Returns the name that a template has, if it can be read.
pub(crate) fn name_in(text: &str) -> Option<Option<String>> {
    let template: Template = serde_saphyr::from_str(text).ok()?;
    Some(template.metadata.infra_name)
}

// How many machines a template asks for.

/// What follows in the names of types whose software adds and removes machines by itself.
const ELASTIC: &str = "ElasticCluster";
/// Where a node says how many machines it has.
const PROPERTIES: &str = "/capabilities/scalable/properties";
/// What says how many: the first that is there counts.
const NUMBERS: [&str; 3] = [COUNT, "default_instances", MINIMUM];
/// How few are enough.
const MINIMUM: &str = "min_instances";

/// Returns how many machines IM makes of a template at least.
///
/// Only what the template itself says is counted. What types from elsewhere add is not, nor numbers that functions compute. It is zero
/// if software in the template changes the number of machines.
pub(crate) fn machines(template: &Value) -> usize {
    let nodes = template.pointer("/topology_template/node_templates");
    let nodes = nodes.and_then(Value::as_object).into_iter().flatten();
    let nodes: Vec<&Value> = nodes.map(|(_, node)| node).collect();
    let is_elastic = |node: &&Value| {
        let mut names = line_of(template, node).into_iter().map(|(name, _)| name);
        names.any(|name| name.ends_with(ELASTIC))
    };
    if nodes.iter().any(is_elastic) {
        return 0;
    }
    let machines = nodes.into_iter().filter(|node| is_compute(template, node));
    machines.fold(0, |sum, node| sum.saturating_add(instances(template, node)))
}

/// How many machines a node has at least.
fn instances(template: &Value, node: &Value) -> usize {
    let given = |name: &str| node.pointer(PROPERTIES)?.get(name);
    let number = |value: &Value| number(template, value);
    let wanted = NUMBERS.into_iter().find_map(|name| match given(name) {
        Some(value) => Some(number(value)),
        None => instances_of_type(template, node, name).map(number),
    });
    let wanted = wanted.unwrap_or(1);
    match given(MINIMUM) {
        Some(enough) => wanted.min(number(enough)),
        None => wanted,
    }
}

/// A number, or the default of the input that is named; zero if it is something else, since nobody knows what that comes to.
fn number(template: &Value, value: &Value) -> usize {
    let input = value.get("get_input").and_then(Value::as_str);
    let value = match input {
        Some(name) => template
            .pointer("/topology_template/inputs")
            .and_then(|inputs| inputs.get(name)?.get("default")),
        None => Some(value),
    };
    let number = value.and_then(Value::as_u64);
    number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
