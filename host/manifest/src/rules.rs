//! The rules of our definitions, which the API server evaluates in CEL: evaluated on files, as it does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use podloom_cel::{Budget, Evaluation, Outcome, Program, Variables, compile_all, evaluate_many};
use serde_json::Value;

use super::document::{self, Step};

/// What rules call an object, and the one that is stored.
const NAMES: [&str; 2] = ["self", "oldSelf"];

/// What the rules of one object may take. A busy machine is no reason to refuse an object, so only the steps count.
const BUDGET: Budget = Budget {
    time: Duration::from_mins(10),
    ..Budget::SEARCH
};

/// At how many places of an object rules are evaluated: in an object with more, lists are longer than the schema allows, which is an
/// error already.
const PLACES: usize = 10_000;

/// Which rules are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Those about an object alone.
    Object,
    /// Those that compare it with what is stored.
    Change,
}

/// The rules at a node of a schema, and those inside of it.
///
/// None about a change is inside of a list: the API server knows no older version of an item there.
#[derive(Default)]
pub(super) struct Rules {
    programs: Vec<Program>,
    /// The message of each program's rule, and the way to the field that it is about.
    said: Vec<(String, Vec<Step>)>,
    fields: BTreeMap<String, Self>,
    /// Those of each item of a list, or of each value of a map.
    each: Option<Box<Self>>,
}

/// Evaluates programs with the values that they are about.
type Evaluate<'a> = dyn FnMut(&[Program], &Variables) -> Evaluation + 'a;

/// What the rules found in an object.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// At how many places rules were evaluated.
    places: usize,
    /// Where rules are broken, and their messages.
    pub(super) rules: Vec<(Vec<Step>, String)>,
    /// Where rules could not be evaluated, and why.
    pub(super) failures: Vec<(Vec<Step>, String)>,
}

impl Broken {
    /// Adds what others found.
    pub(super) fn extend(&mut self, others: Self) {
        self.places += others.places;
        self.rules.extend(others.rules);
        self.failures.extend(others.failures);
    }
}

impl Rules {
    /// Reads and compiles the rules of a schema.
    ///
    /// # Errors
    ///
    /// If one cannot be read or compiled, which a test would notice.
    pub(super) fn of(schema: &Value, about: About) -> anyhow::Result<Self> {
        let mut rules = Self::default();
        let mut conditions = Vec::new();
        let listed = schema.get("x-kubernetes-validations");
        for rule in listed.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| rule.get(field).and_then(Value::as_str);
            let condition = text("rule").context("a rule has no condition")?;
            if condition.contains(NAMES[1]) == (about == About::Change) {
                let message = text("message").context("a rule has no message")?;
                let path = text("fieldPath").unwrap_or_default().split('.').skip(1);
                let field = path.map(Step::from).collect();
                conditions.push(condition);
                rules.said.push((message.to_owned(), field));
            }
        }
        // Most nodes have none, and compiling takes a thread.
        if !conditions.is_empty() {
            rules.programs = match compile_all(&conditions, &NAMES) {
                Ok(programs) => programs,
                Err(failures) => bail!("{failures:?}"),
            };
        }
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in fields.into_iter().flatten() {
            let inside = Self::of(schema, about)?;
            if !inside.is_empty() {
                rules.fields.insert(name.clone(), inside);
            }
        }
        let each = schema.get("items").or(schema.get("additionalProperties"));
        if let Some(each) = each {
            let inside = Self::of(each, about)?;
            rules.each = (!inside.is_empty()).then(|| Box::new(inside));
        }
        Ok(rules)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.fields.is_empty() && self.each.is_none()
    }

    /// Evaluates the rules on an object, and on the one that is stored if they are about a change. Both have their defaults.
    pub(super) fn evaluate(&self, objects: &[&Value]) -> Broken {
        if self.is_empty() {
            return Broken::default();
        }
        let broken = evaluate_many(BUDGET, |evaluate| {
            let mut broken = Broken::default();
            self.walk(objects, &mut Vec::new(), &mut broken, evaluate);
            broken
        });
        broken.unwrap_or_else(|error| Broken {
            failures: vec![(Vec::new(), error)],
            ..Broken::default()
        })
    }

    fn walk(
        &self,
        values: &[&Value],
        path: &mut Vec<Step>,
        broken: &mut Broken,
        evaluate: &mut Evaluate<'_>,
    ) {
        self.here(values, path, broken, evaluate);
        for (name, rules) in &self.fields {
            rules.step((Step::Key(name.clone()), values), path, broken, evaluate);
        }
        let (Some(rules), Some(value)) = (&self.each, values.first()) else {
            return;
        };
        let steps: Vec<Step> = match value {
            Value::Object(fields) => fields.keys().cloned().map(Step::Key).collect(),
            Value::Array(items) => (0..items.len()).map(Step::Index).collect(),
            _ => return,
        };
        for step in steps {
            if broken.places >= PLACES {
                return;
            }
            rules.step((step, values), path, broken, evaluate);
        }
    }

    /// Goes on at what a step leads to, if all objects have it.
    fn step(
        &self,
        (step, values): (Step, &[&Value]),
        path: &mut Vec<Step>,
        broken: &mut Broken,
        evaluate: &mut Evaluate<'_>,
    ) {
        let way = std::slice::from_ref(&step);
        let inside = values.iter().map(|value| document::get(value, way));
        if let Some(inside) = inside.collect::<Option<Vec<&Value>>>() {
            path.push(step);
            self.walk(&inside, path, broken, evaluate);
            path.pop();
        }
    }

    fn here(
        &self,
        values: &[&Value],
        path: &[Step],
        broken: &mut Broken,
        evaluate: &mut Evaluate<'_>,
    ) {
        if self.programs.is_empty() {
            return;
        }
        broken.places += 1;
        let mut variables = Variables::default();
        for (name, value) in NAMES.iter().zip(values) {
            if let Err(error) = variables.insert(name, value) {
                broken.failures.push((path.to_vec(), error.to_string()));
                return;
            }
        }
        // No rule asks for the time.
        let evaluation = evaluate(&self.programs, &variables);
        for (outcome, (message, field)) in evaluation.outcomes.iter().zip(&self.said) {
            let at = || [path, field].concat();
            match outcome {
                Outcome::True => {}
                Outcome::False => broken.rules.push((at(), message.clone())),
                Outcome::Error(failure) => {
                    let text = format!("{} evaluating rule: {message}", failure.text());
                    broken.failures.push((at(), text));
                }
            }
        }
    }
}

/// Returns a value with the defaults of its schema, and without what is null: for rules, that is not given.
pub(super) fn complete(schema: &Value, mut value: Value) -> Value {
    fill(schema, &mut value);
    value
}

fn fill(schema: &Value, value: &mut Value) {
    let each = schema.get("items").or(schema.get("additionalProperties"));
    match value {
        Value::Array(items) => {
            if let Some(each) = each {
                items.iter_mut().for_each(|item| fill(each, item));
            }
        }
        Value::Object(fields) => {
            let known = schema.get("properties").and_then(Value::as_object);
            fields.retain(|_, value| !value.is_null());
            for (name, schema) in known.into_iter().flatten() {
                if let (false, Some(default)) = (fields.contains_key(name), schema.get("default")) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    fill(schema, value);
                }
            }
            if let Some(each) = each {
                fields.values_mut().for_each(|value| fill(each, value));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
