//! Random edits of specs, one place each, by the schema of a kind: what it allows, what it forbids, and its limits.

use std::fmt;

use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use serde_json::{Map, Value, json};

use crate::seed::Seed;

/// How much of an edit is shown.
const SHOWN: usize = 300;
/// How deep a random value has fields that it need not have.
const DEPTH: usize = 3;
/// How many strings are tried, of which the first that is not too long is taken.
const TRIES: usize = 20;
/// A limit that is higher is not tried: the object would be too large.
const MOST: u64 = 10_000;

/// Strings that some code may take for something else, with bars between them.
const WORDS: &str = "a|A.b-c_9|x/y|a?b|a#b|0|-1|true|../..| |grün ☃|a\nb|a\u{0}b|$(HOME)|{{x}}|%2F|\
    2026-01-31T03:30:00Z|example.com/a:1";

/// An edit of a spec.
pub struct Edit {
    what: &'static str,
    /// The place, as a JSON pointer from the spec.
    place: String,
    /// The same as an operation of RFC 6902 on the whole object.
    pub operation: Value,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.operation.get("value").map(Value::to_string);
        let value = value.unwrap_or_default();
        write!(f, "{} {} {value:.SHOWN$}", self.what, self.place)
    }
}

impl Edit {
    /// Makes up an edit of a spec that has this schema.
    pub fn random(seed: &mut Seed, schema: &Value, spec: &Value) -> Self {
        let mut places = Vec::new();
        collect(schema, Some(spec), String::new(), &mut places);
        // The first is the spec itself.
        let (place, schema) = places.swap_remove(1 + seed.below(places.len() - 1));
        let now = spec.pointer(&place);
        let (what, value) = edited(seed, schema, now);
        let path = format!("/spec{place}");
        let operation = match (value, now) {
            (None, _) => json!({ "op": "remove", "path": path }),
            (Some(value), None) => json!({ "op": "add", "path": path, "value": value }),
            (Some(value), _) => json!({ "op": "replace", "path": path, "value": value }),
        };
        Self {
            what,
            place,
            operation,
        }
    }

    /// Whether a message of the API server names the field, or one above it.
    #[must_use]
    pub fn is_named_in(&self, message: &str) -> bool {
        let names = self.place.split('/').skip(1);
        let mut fields = names.filter(|name| name.parse::<usize>().is_err());
        fields.any(|name| has_word(message, &name.replace("~1", "/").replace("~0", "~")))
    }
}

/// Whether a text has a word, and not only as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let goes_on = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !goes_on(before.chars().next_back()) && !goes_on(after.chars().next())
    })
}

/// Collects all places of a value: those that it has, and the fields that it could have.
fn collect<'s>(
    schema: &'s Value,
    value: Option<&Value>,
    at: String,
    places: &mut Vec<(String, &'s Value)>,
) {
    let below = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    let known = &schema["properties"];
    let mut children = Vec::new();
    match value {
        Some(Value::Object(fields)) => {
            for (name, schema) in known.as_object().into_iter().flatten() {
                children.push((below(name), schema, fields.get(name)));
            }
            // Without a schema, indexing gives null, which allows everything.
            for (name, value) in fields.iter().filter(|(name, _)| known.get(name).is_none()) {
                children.push((below(name), &schema["additionalProperties"], Some(value)));
            }
        }
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                children.push((below(&index.to_string()), &schema["items"], Some(item)));
            }
        }
        _ => {}
    }
    places.push((at, schema));
    for (at, schema, value) in children {
        collect(schema, value, at, places);
    }
}

fn with(items: &[Value], one: Value) -> Value {
    items.iter().cloned().chain([one]).collect()
}

/// What an edit does to a value that there is or is not, and the new value; none removes it.
fn edited(seed: &mut Seed, schema: &Value, now: Option<&Value>) -> (&'static str, Option<Value>) {
    match (seed.below(10), now) {
        (0, Some(_)) => ("removes", None),
        (1, _) => ("nulls", Some(Value::Null)),
        (2, _) => ("empties", Some(empty(schema))),
        (3, Some(Value::Array(items))) if !items.is_empty() => {
            let twice = items[seed.below(items.len())].clone();
            ("repeats an item of", Some(with(items, twice)))
        }
        (4, Some(Value::Array(items))) => {
            let one = allowed(seed, &schema["items"], 0);
            ("adds an item to", Some(with(items, one)))
        }
        (4, Some(Value::Object(fields))) if schema["additionalProperties"].is_object() => {
            let mut fields = fields.clone();
            let value = allowed(seed, &schema["additionalProperties"], 0);
            fields.insert(word(seed), value);
            ("adds a key to", Some(Value::Object(fields)))
        }
        (5 | 6, _) => match limits(seed, schema, 0) {
            values if values.is_empty() => ("sets", Some(allowed(seed, schema, 0))),
            values => ("goes to the limit of", Some(seed.pick(&values).clone())),
        },
        (7, _) => {
            let mut values = limits(seed, schema, 1);
            let types = json!([{}, [], true, 1.5, "Not this: ~{\u{7}"]);
            values.extend(types.as_array().into_iter().flatten().cloned());
            ("goes too far with", Some(seed.pick(&values).clone()))
        }
        _ => ("sets", Some(allowed(seed, schema, 0))),
    }
}

/// A random value that a schema allows, as far as it says so: its rules in CEL may still reject it.
fn allowed(seed: &mut Seed, schema: &Value, depth: usize) -> Value {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return seed.pick(values).clone();
    }
    let is_number_or_string = schema["x-kubernetes-int-or-string"] == true;
    match schema["type"].as_str() {
        Some("boolean") => json!(seed.below(2) == 0),
        Some("integer") => {
            let (least, most) = range(schema);
            let least = least.max(0);
            json!(least + seed.below((most - least).clamp(0, 5000) as usize + 1) as i64)
        }
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(0) + seed.below(3) as u64;
            let items = (0..count).map(|_| allowed(seed, &schema["items"], depth + 1));
            items.collect()
        }
        Some("object") => object(seed, schema, depth),
        None if is_number_or_string && seed.below(2) == 0 => json!(seed.below(3000)),
        None if !is_number_or_string => {
            let values = json!([null, -1.5, "x", [[], {}], { "a": { "b/c": [1] } }]);
            values[seed.below(5)].clone()
        }
        _ => json!(string(seed, schema)),
    }
}

fn object(seed: &mut Seed, schema: &Value, depth: usize) -> Value {
    let mut fields = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let required = schema["required"].as_array();
        let is_required = required.is_some_and(|all| all.iter().any(|it| it == name));
        if is_required || (depth < DEPTH && seed.below(3) == 0) {
            fields.insert(name.clone(), allowed(seed, field, depth + 1));
        }
    }
    let other = &schema["additionalProperties"];
    if other.is_object() || schema["x-kubernetes-preserve-unknown-fields"] == true {
        for _ in 0..seed.below(3) {
            fields.insert(word(seed), allowed(seed, other, depth + 1));
        }
    }
    Value::Object(fields)
}

/// A string that matches the pattern, if there is one that is simple enough.
fn string(seed: &mut Seed, schema: &Value) -> String {
    let pattern = schema["pattern"].as_str();
    let strings = pattern.and_then(|it| string_regex(it.trim_matches(['^', '$'])).ok());
    let most = schema["maxLength"].as_u64().unwrap_or(MOST);
    let mut runner = seed.runner();
    let tries = strings.iter().cycle().take(TRIES);
    let mut tries = tries.filter_map(|it| Some(it.new_tree(&mut runner).ok()?.current()));
    let short = tries.find(|it| it.len() as u64 <= most);
    short.unwrap_or_else(|| word(seed))
}

fn empty(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("integer") => json!(0),
        Some("boolean") => json!(false),
        _ => json!(""),
    }
}

/// Values at the limits that a schema has, or so far beyond them.
fn limits(seed: &mut Seed, schema: &Value, beyond: u64) -> Vec<Value> {
    let number = |name: &str| schema[name].as_u64();
    let upper = |name| Some(number(name).filter(|most| *most < MOST)? + beyond);
    let lower = |name| number(name)?.checked_sub(beyond);
    let mut values: Vec<Value> = Vec::new();
    let lengths = [upper("maxLength"), lower("minLength")];
    for count in lengths.into_iter().flatten() {
        values.push("x".repeat(count as usize).into());
    }
    let counts = [upper("maxItems"), lower("minItems")];
    for count in counts.into_iter().flatten() {
        let items = (0..count).map(|_| allowed(seed, &schema["items"], DEPTH));
        values.push(items.collect());
    }
    if let Some(count) = upper("maxProperties") {
        let other = &schema["additionalProperties"];
        let fields = (0..count).map(|number| (format!("k{number}"), allowed(seed, other, DEPTH)));
        values.push(fields.collect());
    }
    if schema["type"] == "integer" {
        let ((least, most), beyond) = (range(schema), beyond as i64);
        let ends = [least.checked_sub(beyond), most.checked_add(beyond)];
        values.extend(ends.map(|end| end.map_or(json!(1e19), Value::from)));
    }
    values
}

/// The smallest and the largest number that a schema allows.
fn range(schema: &Value) -> (i64, i64) {
    let given = |name: &str, other| schema[name].as_f64().map_or(other, |given| given as i64);
    let (least, most) = match schema["format"] == "int32" {
        true => (i32::MIN.into(), i32::MAX.into()),
        false => (i64::MIN, i64::MAX),
    };
    (given("minimum", least), given("maximum", most))
}

fn word(seed: &mut Seed) -> String {
    let words: Vec<&str> = WORDS.split('|').collect();
    (*seed.pick(&words)).to_owned()
}
