//! Bounds what a plugin's schema can make the validator do.
//!
//! Validation follows references without end and cannot be interrupted: forty definitions that each refer twice to the next
//! one keep it busy for days, and a few thousand in a row exhaust its stack. So each reference is followed here first, with
//! a budget; for that it must be a plain pointer into the schema, which the validator reads as it is read here.
//! What the validator does for one keyword alone and cannot be followed is refused: `unevaluatedProperties` below fifty
//! `allOf` takes it longer than anybody lives.

use serde_json::{Map, Value};

use crate::limits::{PATTERN_BYTES, PATTERNS};
use crate::text::one_line;

/// Places in a schema once every reference is replaced by its target; a Container of Kubernetes has a few thousand.
const PLACES: usize = 200_000;
/// References that lead to references.
const NESTING: usize = 64;
/// The drafts that this file knows the keywords of; an older one has others that move references.
const DRAFTS: [&str; 3] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
];

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpansionError {
    #[error("with its references followed it has more than {PLACES} places")]
    TooLarge,
    #[error("more than {NESTING} of its references lead from one to the next")]
    TooDeep,
    #[error(
        "it refers to {0:?}; only pointers to something within the schema are followed, such as #/$defs/name, of letters, digits and plain signs"
    )]
    Reference(String),
    #[error("it has more than {PATTERNS} patterns, or one longer than {PATTERN_BYTES} bytes")]
    Patterns,
    #[error("checking this configuration against it takes too many steps")]
    TooSlow,
    #[error("it uses {0}, which moves what its references mean")]
    Keyword(&'static str),
    #[error(
        "it uses {0}, which cannot be checked in bounded time; use additionalProperties or items"
    )]
    Unevaluated(&'static str),
    #[error("its $schema is {0:?}; the drafts 2020-12, 2019-09 and 07 are known")]
    Draft(String),
}

/// Follows every reference, except into itself, and counts the patterns.
pub(super) fn check(schema: &Value) -> Result<(), ExpansionError> {
    if patterns(schema)? > PATTERNS {
        return Err(ExpansionError::Patterns);
    }
    if let Some(draft) = schema.get("$schema").and_then(Value::as_str) {
        known_draft(draft)?;
    }
    let mut expansion = Expansion {
        root: schema,
        places: 0,
        open: Vec::new(),
    };
    expansion.visit(schema)
}

/// The patterns in a schema, each at the place where it stands, which is where the validator keeps it.
fn patterns(place: &Value) -> Result<usize, ExpansionError> {
    match place {
        Value::Array(items) => items.iter().map(patterns).sum(),
        Value::Object(fields) => {
            let of_fields = fields.iter().map(|(key, value)| {
                let here: Vec<&str> = match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => vec![pattern],
                    ("patternProperties", Value::Object(patterns)) => {
                        patterns.keys().map(String::as_str).collect()
                    }
                    _ => Vec::new(),
                };
                if here.iter().any(|pattern| pattern.len() > PATTERN_BYTES) {
                    return Err(ExpansionError::Patterns);
                }
                Ok(here.len() + patterns(value)?)
            });
            of_fields.sum()
        }
        _ => Ok(0),
    }
}

fn known_draft(uri: &str) -> Result<(), ExpansionError> {
    let name = uri.split_once("://").map(|(_, name)| name);
    match name {
        Some(name) if DRAFTS.contains(&name.trim_end_matches('#')) => Ok(()),
        _ => Err(ExpansionError::Draft(one_line(uri, 200))),
    }
}

/// Where a reference within the schema leads.
///
/// The validator decodes percent signs and reads some pointers otherwise, so it follows only what means the same to both.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~$/:@!&'()*+,;=".contains(c);
    let mut after_tildes = pointer.split('~').skip(1);
    if !pointer.chars().all(plain) || !after_tildes.all(|rest| rest.starts_with(['0', '1'])) {
        return None;
    }
    root.pointer(pointer)
}

struct Expansion<'a> {
    root: &'a Value,
    places: usize,
    /// The references that are being followed.
    open: Vec<&'a str>,
}

impl<'a> Expansion<'a> {
    fn visit(&mut self, place: &'a Value) -> Result<(), ExpansionError> {
        self.count()?;
        match place {
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item)),
            Value::Object(fields) => fields
                .iter()
                .try_for_each(|(key, value)| self.visit_field(place, key, value)),
            _ => Ok(()),
        }
    }

    fn count(&mut self) -> Result<(), ExpansionError> {
        self.places += 1;
        if self.places > PLACES {
            return Err(ExpansionError::TooLarge);
        }
        Ok(())
    }

    fn visit_field(
        &mut self,
        parent: &Value,
        key: &str,
        value: &'a Value,
    ) -> Result<(), ExpansionError> {
        let within = !std::ptr::eq(parent, self.root);
        match (key, value) {
            ("$ref", Value::String(reference)) => self.follow(reference),
            ("$dynamicRef", Value::String(_)) => Err(ExpansionError::Keyword("$dynamicRef")),
            ("$recursiveRef", Value::String(_)) => Err(ExpansionError::Keyword("$recursiveRef")),
            ("$id", Value::String(_)) if within => Err(ExpansionError::Keyword("an inner $id")),
            ("$schema", Value::String(_)) if within => {
                Err(ExpansionError::Keyword("an inner $schema"))
            }
            ("unevaluatedProperties", _) => {
                Err(ExpansionError::Unevaluated("unevaluatedProperties"))
            }
            ("unevaluatedItems", _) => Err(ExpansionError::Unevaluated("unevaluatedItems")),
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependentRequired" | "dependencies",
                Value::Object(named),
            ) => self.visit_named(named),
            (_, value) => self.visit(value),
        }
    }

    /// Names of the author's own choice are no keywords, even if they look like them.
    fn visit_named(&mut self, named: &'a Map<String, Value>) -> Result<(), ExpansionError> {
        self.count()?;
        named.values().try_for_each(|value| self.visit(value))
    }

    fn follow(&mut self, reference: &'a str) -> Result<(), ExpansionError> {
        let target = target(self.root, reference)
            .ok_or_else(|| ExpansionError::Reference(one_line(reference, 200)))?;
        if self.open.contains(&reference) {
            return Ok(());
        }
        if self.open.len() == NESTING {
            return Err(ExpansionError::TooDeep);
        }
        self.open.push(reference);
        let visited = self.visit(target);
        self.open.pop();
        visited
    }
}

#[cfg(test)]
mod tests;
