//! Bounds how long the validator may be busy with a configuration.
//!
//! Validation cannot be interrupted, and a schema of a few hundred bytes can keep it busy for ever:
//! `{"additionalProperties": {"allOf": [...]}}` with 300 references to itself takes 300 times as long for each level of the
//! configuration. So the way of the validator is followed here first, without looking for what is wrong, and given up
//! once it is too long.

use serde_json::{Map, Value};

use super::expansion::{ExpansionError, target};

/// Subschemas that are applied to values. The configurations of the standard plugins need a few hundred.
const STEPS: usize = 100_000;
/// How deeply these are within each other; the validator has a stack.
const DEPTH: usize = 256;
/// Text that is read in one step, by a pattern above all.
const TEXT: usize = 64;

/// Whether a configuration can be validated in reasonable time. The schema's references must be pointers into it.
pub(super) fn check(schema: &Value, config: &Value) -> Result<(), ExpansionError> {
    let mut walk = Walk {
        root: schema,
        left: STEPS,
        open: Vec::new(),
    };
    walk.apply(schema, config, Cost { times: 1, depth: 0 })
}

struct Walk<'a> {
    root: &'a Value,
    left: usize,
    /// The references that are being followed, and from which place.
    open: Vec<(*const Value, *const Value)>,
}

/// What applying a schema costs here.
#[derive(Clone, Copy)]
struct Cost {
    /// A choice is tried first, and looked at once more for what is wrong with it.
    times: usize,
    depth: usize,
}

type Result<T, E = ExpansionError> = std::result::Result<T, E>;

impl Walk<'_> {
    fn take(&mut self, steps: usize) -> Result<()> {
        self.left = self
            .left
            .checked_sub(steps)
            .ok_or(ExpansionError::TooSlow)?;
        Ok(())
    }

    fn take_each(&mut self, cost: Cost, steps: usize) -> Result<()> {
        self.take(cost.times.saturating_mul(steps))
    }

    fn apply(&mut self, schema: &Value, place: &Value, cost: Cost) -> Result<()> {
        self.take(cost.times)?;
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        if cost.depth == DEPTH {
            return Err(ExpansionError::TooSlow);
        }
        let cost = Cost {
            depth: cost.depth + 1,
            ..cost
        };
        for (keyword, value) in keywords {
            self.keyword(keyword, value, place, cost)?;
            match place {
                Value::Object(fields) => self.of_object(keyword, value, fields, cost)?,
                Value::Array(items) => self.of_list(keyword, value, items, cost)?,
                Value::String(text) => self.take_each(cost, 1 + text.len() / TEXT)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A circle that leads to no other place ends where it began.
    fn follow(&mut self, target: &Value, place: &Value, cost: Cost) -> Result<()> {
        let here = (std::ptr::from_ref(target), std::ptr::from_ref(place));
        if self.open.contains(&here) {
            return self.take(cost.times);
        }
        self.open.push(here);
        let applied = self.apply(target, place, cost);
        self.open.pop();
        applied
    }

    /// What applies to the place itself.
    fn keyword(&mut self, keyword: &str, value: &Value, place: &Value, cost: Cost) -> Result<()> {
        let twice = Cost {
            times: cost.times.saturating_mul(2),
            ..cost
        };
        match (keyword, value) {
            ("$ref", Value::String(reference)) => {
                let target = target(self.root, reference);
                target.map_or(Ok(()), |target| self.follow(target, place, cost))
            }
            ("allOf", Value::Array(schemas)) => self.each(schemas, place, cost),
            ("anyOf" | "oneOf", Value::Array(schemas)) => self.each(schemas, place, twice),
            ("not" | "if" | "then" | "else", schema) => self.apply(schema, place, twice),
            ("dependentSchemas" | "dependencies" | "dependentRequired", Value::Object(named)) => {
                self.take_each(cost, named.values().map(size).sum())?;
                self.each(named.values(), place, cost)
            }
            ("const" | "enum" | "required", value) => self.take_each(cost, size(value)),
            _ => Ok(()),
        }
    }

    fn of_object(
        &mut self,
        keyword: &str,
        value: &Value,
        fields: &Map<String, Value>,
        cost: Cost,
    ) -> Result<()> {
        match (keyword, value) {
            ("properties", Value::Object(properties)) => {
                self.take_each(cost, properties.len())?;
                properties.iter().try_for_each(|(name, schema)| {
                    let field = fields.get(name);
                    field.map_or(Ok(()), |field| self.apply(schema, field, cost))
                })
            }
            ("patternProperties", Value::Object(patterns)) => {
                for (name, field) in fields {
                    let steps = patterns.len().saturating_mul(1 + name.len() / TEXT);
                    self.take_each(cost, steps)?;
                    self.each(patterns.values(), field, cost)?;
                }
                Ok(())
            }
            ("additionalProperties", schema) => fields
                .values()
                .try_for_each(|field| self.apply(schema, field, cost)),
            ("propertyNames", schema) => fields
                .keys()
                .try_for_each(|name| self.apply(schema, &Value::String(name.clone()), cost)),
            _ => Ok(()),
        }
    }

    fn of_list(&mut self, keyword: &str, value: &Value, items: &[Value], cost: Cost) -> Result<()> {
        match (keyword, value) {
            ("items" | "prefixItems", Value::Array(schemas)) => items
                .iter()
                .zip(schemas)
                .try_for_each(|(item, schema)| self.apply(schema, item, cost)),
            ("items" | "additionalItems" | "contains", schema) => items
                .iter()
                .try_for_each(|item| self.apply(schema, item, cost)),
            // Each is compared with each at worst.
            ("uniqueItems", Value::Bool(true)) => {
                self.take_each(cost, items.len().saturating_mul(items.len()) / 16)
            }
            _ => Ok(()),
        }
    }

    fn each<'v>(
        &mut self,
        schemas: impl IntoIterator<Item = &'v Value>,
        place: &Value,
        cost: Cost,
    ) -> Result<()> {
        schemas
            .into_iter()
            .try_for_each(|schema| self.apply(schema, place, cost))
    }
}

/// What comparing with a value takes at most, or looking for what it lists.
fn size(value: &Value) -> usize {
    let text = |text: &String| text.len() / TEXT;
    let within = match value {
        Value::String(string) => text(string),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| text(key) + size(value))
            .sum(),
        _ => 0,
    };
    1 + within
}

#[cfg(test)]
mod tests;
