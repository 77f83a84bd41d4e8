//! Finds what a write breaks of the rules for values. What the pod had before, the write did not break.

use std::borrow::Cow;
use std::collections::BTreeMap;

use podloom_syntax::text;
use serde_json::Value;

use crate::error::AccessError;
use crate::path::push_escaped;
use crate::schema::{Rule, Schema};

/// Checks the last key of a path, which is new in its map.
pub(crate) fn check_key(path: &str, key: &str, rule: Rule) -> Result<(), AccessError> {
    match rule.problem_of_text(key) {
        None => Ok(()),
        Some(problem) => Err(refusal(path, &key_noun(key), &problem)),
    }
}

/// Checks a value, of the right type, that replaces an old one.
pub(crate) fn check_value(
    path: &str,
    new: &Value,
    old: Option<&Value>,
    schema: Schema,
) -> Result<(), AccessError> {
    walk(&mut path.to_owned(), new, old, schema)
}

fn walk(
    path: &mut String,
    new: &Value,
    old: Option<&Value>,
    schema: Schema,
) -> Result<(), AccessError> {
    let length = path.len();
    match (schema, new) {
        (Schema::Object(_) | Schema::Map(..), Value::Object(fields)) => {
            for (key, value) in fields {
                path.push('/');
                push_escaped(path, key);
                let before = old.and_then(|old| old.get(key));
                if let (Schema::Map(_, Some(rule)), None) = (schema, before) {
                    check_key(path, key, rule)?;
                }
                walk(path, value, before, schema.field(key))?;
                path.truncate(length);
            }
            Ok(())
        }
        (Schema::List(element, key), Value::Array(list)) => {
            let before = Before::new(old, key);
            for (index, value) in list.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                walk(path, value, before.of(value, index), *element)?;
                path.truncate(length);
            }
            Ok(())
        }
        (Schema::Checked(_, rule), new) if old != Some(new) => match rule.problem(new) {
            None => Ok(()),
            Some(problem) => Err(refusal(path, &value_noun(new), &problem)),
        },
        _ => Ok(()),
    }
}

/// The elements that a list had before.
struct Before<'v> {
    list: &'v [Value],
    key: Option<&'static str>,
    /// By the text of their merge key, so that a long list takes no time to search.
    by_key: BTreeMap<String, &'v Value>,
}

impl<'v> Before<'v> {
    fn new(old: Option<&'v Value>, key: Option<&'static str>) -> Self {
        let list = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let keyed = list
            .iter()
            .filter_map(|element| Some((element.get(key?)?.to_string(), element)));
        Self {
            list,
            key,
            by_key: keyed.collect(),
        }
    }

    /// The element that a new one replaces: the one with the same merge key, or else the one at its index.
    fn of(&self, new: &Value, index: usize) -> Option<&'v Value> {
        let same = self.key.and_then(|key| new.get(key));
        same.and_then(|key| self.by_key.get(&key.to_string()).copied())
            .or_else(|| self.list.get(index))
    }
}

fn refusal(path: &str, what: &str, problem: &str) -> AccessError {
    AccessError::invalid_value(path, format_args!("{what} {problem}"))
}

fn key_noun(key: &str) -> String {
    format!("the key {:?}", cut(key))
}

fn value_noun(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", cut(text)),
        value => value.to_string(),
    }
}

/// A text as messages show it, which must not be as long as a plugin likes.
fn cut(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 80;
    text::cut(text, LONGEST, "...")
}
