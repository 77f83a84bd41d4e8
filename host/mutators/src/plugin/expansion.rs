//! Bounds what a plugin's schema can make the validator do.
//!
//! Validation follows references without end and cannot be interrupted: forty definitions that each refer twice to the next
//! one keep it busy for days, and a few thousand in a row exhaust its stack. So each reference is followed here first, with
//! a budget; for that it must be a plain pointer into the schema.

use serde_json::Value;

use crate::limits::{PATTERN_BYTES, PATTERNS};
use crate::text::one_line;

/// Places in a schema once every reference is replaced by its target; a Container of Kubernetes has a few thousand.
const PLACES: usize = 200_000;
/// References that lead to references.
const NESTING: usize = 64;

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpansionError {
    #[error("with its references followed it has more than {PLACES} places")]
    TooLarge,
    #[error("more than {NESTING} of its references lead from one to the next")]
    TooDeep,
    #[error(
        "it refers to {0:?}; only pointers to something within the schema are followed, such as #/$defs/name"
    )]
    Reference(String),
    #[error("it has more than {PATTERNS} patterns, or one longer than {PATTERN_BYTES} bytes")]
    Patterns,
    #[error("checking this configuration against it takes too many steps")]
    TooSlow,
    #[error("it uses {0}, which moves what its references mean")]
    Keyword(&'static str),
}

/// Follows every reference, except into itself, and counts the patterns.
pub(super) fn check(schema: &Value) -> Result<(), ExpansionError> {
    if patterns(schema)? > PATTERNS {
        return Err(ExpansionError::Patterns);
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

struct Expansion<'a> {
    root: &'a Value,
    places: usize,
    /// The references that are being followed.
    open: Vec<&'a str>,
}

impl<'a> Expansion<'a> {
    fn visit(&mut self, place: &'a Value) -> Result<(), ExpansionError> {
        self.places += 1;
        if self.places > PLACES {
            return Err(ExpansionError::TooLarge);
        }
        match place {
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item)),
            Value::Object(fields) => fields
                .iter()
                .try_for_each(|(key, value)| self.visit_field(place, key, value)),
            _ => Ok(()),
        }
    }

    /// A property that merely has the name of a keyword has a schema as its value, not a text.
    fn visit_field(
        &mut self,
        parent: &Value,
        key: &str,
        value: &'a Value,
    ) -> Result<(), ExpansionError> {
        match (key, value) {
            ("$ref", Value::String(reference)) => self.follow(reference),
            ("$dynamicRef", Value::String(_)) => Err(ExpansionError::Keyword("$dynamicRef")),
            ("$recursiveRef", Value::String(_)) => Err(ExpansionError::Keyword("$recursiveRef")),
            ("$id", Value::String(_)) if !std::ptr::eq(parent, self.root) => {
                Err(ExpansionError::Keyword("an inner $id"))
            }
            (_, value) => self.visit(value),
        }
    }

    fn follow(&mut self, reference: &'a str) -> Result<(), ExpansionError> {
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| self.root.pointer(pointer));
        let target = target.ok_or_else(|| ExpansionError::Reference(one_line(reference, 200)))?;
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
