//! Expands the references of a plugin's schema, so that it becomes a finite tree.
//!
//! The validator follows each reference each time, and cannot be interrupted: forty definitions that each refer twice to the next
//! one keep it busy for days. So it gets a schema without references, of limited size and depth, and only with the keywords that
//! are listed here, which bounds its work. A recursive schema cannot be expanded, and is refused.

use std::collections::BTreeSet;

use jsonschema::Draft;
use serde_json::{Map, Value};

use crate::{PATTERN_BYTES, PATTERNS};

/// Values in the tree. A Container of Kubernetes has about 900.
const VALUES: usize = 16_384;
/// Bytes of all text, and of the pointers to all values, which the validator keeps.
const TEXT: usize = 4 << 20;
/// Nested schemas. Each takes some kilobytes of stack when the validator is built.
const DEPTH: usize = 64;
/// The drafts whose keywords are known here.
const DRAFTS: [(&str, Draft); 3] = [
    ("json-schema.org/draft/2020-12/schema", Draft::Draft202012),
    ("json-schema.org/draft/2019-09/schema", Draft::Draft201909),
    ("json-schema.org/draft-07/schema", Draft::Draft7),
];

/// Expands all references of a schema. Returns it with its draft, or why it is not used.
pub(crate) fn expand(schema: &Value) -> Result<(Value, Draft)> {
    let draft = schema
        .get("$schema")
        .map_or(Ok(Draft::default()), known_draft)?;
    let mut expansion = Expansion {
        root: schema,
        draft,
        values: 0,
        text: 0,
        patterns: BTreeSet::new(),
        pattern_properties: 0,
        open: vec![schema],
    };
    let schema = expansion.schema(schema, TreePosition::default())?;
    Ok((schema, draft))
}

fn known_draft(uri: &Value) -> Result<Draft> {
    let name = uri.as_str().and_then(|uri| uri.split_once("://"));
    let known = name.and_then(|(_, name)| {
        let mut drafts = DRAFTS.iter();
        drafts.find(|(draft, _)| *draft == name.trim_end_matches('#'))
    });
    known.map(|(_, draft)| *draft).ok_or_else(|| {
        let uri = written(uri);
        format!("its $schema is {uri:?}, but only the drafts 2020-12, 2019-09 and 07 are supported")
    })
}

/// What a keyword holds.
enum Holds {
    /// One schema, or a list of them.
    Schemas,
    /// An object of schemas or lists of names, whose keys are not keywords.
    Named,
    /// Not a schema.
    Plain,
}

/// None for keywords that are left out, since they only describe or name the schema.
///
/// `format` is left out too; no draft requires checking it.
fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "allOf"
        | "anyOf"
        | "oneOf"
        | "not"
        | "if"
        | "then"
        | "else"
        | "items"
        | "prefixItems"
        | "additionalItems"
        | "contains"
        | "additionalProperties"
        | "propertyNames" => Holds::Schemas,
        "properties" | "patternProperties" | "dependentSchemas" | "dependentRequired"
        | "dependencies" => Holds::Named,
        "type" | "enum" | "const" | "multipleOf" | "maximum" | "exclusiveMaximum" | "minimum"
        | "exclusiveMinimum" | "maxLength" | "minLength" | "pattern" | "maxItems" | "minItems"
        | "uniqueItems" | "maxContains" | "minContains" | "maxProperties" | "minProperties"
        | "required" => Holds::Plain,
        _ => return None,
    })
}

/// Why a keyword is not accepted.
fn refused(keyword: &str, at: TreePosition) -> Option<String> {
    let keyword = match keyword {
        "$dynamicRef" | "$recursiveRef" => keyword,
        "$id" if at.depth > 0 => "an inner $id",
        "$schema" if at.depth > 0 => "an inner $schema",
        "unevaluatedProperties" | "unevaluatedItems" => {
            return Some(format!(
                "it uses {keyword}, which cannot be checked in bounded time; use additionalProperties or items instead"
            ));
        }
        _ => return None,
    };
    Some(format!(
        "it uses {keyword}, which changes what its references point to; remove it"
    ))
}

/// A position in the tree.
#[derive(Clone, Copy)]
struct TreePosition {
    /// How many schemas are around it.
    depth: usize,
    /// The length of its pointer.
    location: usize,
    /// How often the validator copies it: each `not` keeps a copy of its schema.
    copies: usize,
}

impl Default for TreePosition {
    fn default() -> Self {
        Self {
            depth: 0,
            location: 0,
            copies: 1,
        }
    }
}

impl TreePosition {
    fn key(self, key: &str) -> Self {
        Self {
            location: self.location + 1 + key.len(),
            copies: self.copies + usize::from(key == "not"),
            ..self
        }
    }
}

type Result<T, E = String> = std::result::Result<T, E>;

struct Expansion<'a> {
    root: &'a Value,
    draft: Draft,
    values: usize,
    text: usize,
    /// The validator compiles equal patterns once.
    patterns: BTreeSet<&'a str>,
    /// Patterns that are names of properties are compiled each time.
    pattern_properties: usize,
    /// The targets of the references that are being expanded.
    open: Vec<&'a Value>,
}

impl<'a> Expansion<'a> {
    fn schema(&mut self, schema: &'a Value, at: TreePosition) -> Result<Value> {
        self.count(at, at.location)?;
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => return Ok(schema.clone()),
            // A list of required names, or an invalid schema.
            _ => return self.plain(schema, at),
        };
        if at.depth == DEPTH {
            return Err(format!(
                "with its references expanded it has more than {DEPTH} nested schemas"
            ));
        }
        let inner = TreePosition {
            depth: at.depth + 1,
            ..at
        };
        let reference = keywords.get("$ref");
        // Drafts up to 07 ignore keywords beside a reference.
        if let (Some(reference), Draft::Draft7) = (reference, self.draft) {
            return self.follow(reference, inner);
        }
        let mut expanded = Map::new();
        for (keyword, value) in keywords {
            if let Some(error) = refused(keyword, at) {
                return Err(error);
            }
            if let Some(holds) = holds(keyword) {
                let value = self.keyword(keyword, value, &holds, inner.key(keyword))?;
                expanded.insert(keyword.clone(), value);
            }
        }
        let Some(reference) = reference else {
            return Ok(Value::Object(expanded));
        };
        let target = self.follow(reference, inner.key("allOf/0000"))?;
        if expanded.is_empty() {
            return Ok(target);
        }
        let all = expanded
            .entry("allOf")
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.push(target);
        }
        Ok(Value::Object(expanded))
    }

    fn follow(&mut self, reference: &'a Value, at: TreePosition) -> Result<Value> {
        let name = || written(reference);
        let target = self.target(reference).ok_or_else(|| {
            format!("its reference {:?} does not point into the schema; write a pointer such as #/$defs/name, without percent-encoding", name())
        })?;
        if self.open.iter().any(|open| std::ptr::eq(*open, target)) {
            return Err(format!(
                "its reference {:?} is recursive; replace it with true, and let the plugin check that value itself",
                name()
            ));
        }
        self.open.push(target);
        let expanded = self.schema(target, at);
        self.open.pop();
        expanded
    }

    /// Only pointers into the schema without percent-encoding are followed.
    fn target(&self, reference: &Value) -> Option<&'a Value> {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        if pointer.contains('%') {
            return None;
        }
        self.root.pointer(pointer)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        holds: &Holds,
        at: TreePosition,
    ) -> Result<Value> {
        self.note_patterns(keyword, value)?;
        match (holds, value) {
            (Holds::Schemas, Value::Array(schemas)) => {
                self.count(at, at.location)?;
                let schemas = schemas
                    .iter()
                    .map(|schema| self.schema(schema, at.key("0000")));
                schemas.collect()
            }
            (Holds::Schemas, schema) => self.schema(schema, at),
            (Holds::Named, Value::Object(named)) => {
                self.count(at, at.location)?;
                let named = named.iter().map(|(name, schema)| {
                    let schema = self.schema(schema, at.key(name))?;
                    Ok((name.clone(), schema))
                });
                named.collect()
            }
            (Holds::Named | Holds::Plain, value) => {
                self.count(at, at.location)?;
                self.plain(value, at)
            }
        }
    }

    fn note_patterns(&mut self, keyword: &str, value: &'a Value) -> Result<()> {
        let mut long = false;
        match (keyword, value) {
            ("pattern", Value::String(pattern)) => {
                self.patterns.insert(pattern);
                long = pattern.len() > PATTERN_BYTES;
            }
            ("patternProperties", Value::Object(patterns)) => {
                self.pattern_properties += patterns.len();
                long = patterns.keys().any(|pattern| pattern.len() > PATTERN_BYTES);
            }
            _ => {}
        }
        if long || self.patterns.len() + self.pattern_properties > PATTERNS {
            return Err(format!(
                "it has more than {PATTERNS} patterns, or one longer than {PATTERN_BYTES} bytes"
            ));
        }
        Ok(())
    }

    /// Copies a value that is not a schema, or not a valid one.
    fn plain(&mut self, value: &'a Value, at: TreePosition) -> Result<Value> {
        match value {
            Value::Array(items) => {
                self.count(at, 0)?;
                items.iter().map(|item| self.plain(item, at)).collect()
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| {
                    self.count(at, key.len())?;
                    Ok((key.clone(), self.plain(value, at)?))
                });
                fields.collect()
            }
            Value::String(text) => {
                self.count(at, text.len())?;
                Ok(value.clone())
            }
            _ => {
                self.count(at, 0)?;
                Ok(value.clone())
            }
        }
    }

    fn count(&mut self, at: TreePosition, text: usize) -> Result<()> {
        self.values += at.copies;
        self.text += at.copies.saturating_mul(text);
        if self.values > VALUES || self.text > TEXT {
            return Err(format!(
                "with its references expanded it has more than {VALUES} values, or more than {} MiB of text; replace parts of it with true, and let the plugin check those itself",
                TEXT >> 20
            ));
        }
        Ok(())
    }
}

fn written(reference: &Value) -> String {
    let text = reference.as_str().map(str::to_owned);
    text.unwrap_or_else(|| reference.to_string())
}

#[cfg(test)]
mod tests;
