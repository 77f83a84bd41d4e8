//! Leaves out of an object what must not be committed. Pure.

use std::collections::HashMap;

use podloom_api::names;
use podloom_mutators::{CHAIN, MUTATIONS};
use serde_json::Value;

/// Annotations that hold a whole object, or that only say what a controller did.
const LEFT_OUT: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "objectset.rio.cattle.io/applied",
    "kapp.k14s.io/original",
    "deployment.kubernetes.io/revision",
    CHAIN,
    MUTATIONS,
];

/// Removes annotations that no chain should see: those of any metadata in the object.
pub(crate) fn annotations(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match (name.as_str(), value) {
                    ("metadata", Value::Object(metadata)) => {
                        let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
                        else {
                            continue;
                        };
                        annotations.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
                        if annotations.is_empty() {
                            metadata.remove("annotations");
                        }
                    }
                    (_, value) => annotations(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(annotations),
        _ => {}
    }
}

/// Puts placeholders in the place of values that may be secret: those of env, args, commands after the program, HTTP headers, queries of
/// HTTP paths, and what only a volume's driver understands.
///
/// The same value of an object gets the same placeholder, and a number says nothing about the value. So a recording changes only if
/// the object does.
pub(crate) fn values(object: &mut Value) {
    let mut placeholders = Placeholders::default();
    placeholders.conceal(object);
    let options = object.get_mut("metadata").and_then(|it| {
        it.get_mut("annotations")?
            .get_mut(names::annotation::OPTIONS)
    });
    if let Some(Value::String(text)) = options {
        // What no operator can read has no meaning, so nothing is lost.
        let mut parsed: Value = serde_json::from_str(text).unwrap_or_default();
        placeholders.conceal(&mut parsed);
        *text = parsed.to_string();
    }
}

#[derive(Default)]
struct Placeholders(HashMap<String, usize>);

impl Placeholders {
    fn conceal(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    self.field(name, value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.conceal(item)),
            _ => {}
        }
    }

    fn field(&mut self, name: &str, value: &mut Value) {
        match (name, value) {
            ("env" | "httpHeaders", Value::Array(variables)) => {
                variables.iter_mut().for_each(|it| self.variable(it));
            }
            // Of a Browser's options; of a CSI driver; of a flexVolume.
            ("env" | "volumeAttributes" | "options", Value::Object(variables)) => {
                variables.values_mut().for_each(|it| self.whole(it));
            }
            ("args", Value::Array(arguments)) => {
                arguments.iter_mut().for_each(|it| self.argument(it));
            }
            ("command", Value::Array(words)) => {
                words.iter_mut().enumerate().for_each(|it| self.word(it));
            }
            ("httpGet", get) => {
                if let Some(path) = get.get_mut("path") {
                    self.query(path);
                }
                self.conceal(get);
            }
            (_, value) => self.conceal(value),
        }
    }

    fn variable(&mut self, variable: &mut Value) {
        if let Some(value) = variable.get_mut("value") {
            self.whole(value);
        }
    }

    fn whole(&mut self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.placeholder(text);
        }
    }

    /// Only the path stays.
    fn query(&mut self, path: &mut Value) {
        if let Value::String(text) = path
            && let Some((path, query)) = text.split_once('?')
        {
            *text = format!("{path}?{}", self.placeholder(query));
        }
    }

    /// The program stays, but one with spaces is a whole command line.
    fn word(&mut self, (place, word): (usize, &mut Value)) {
        match word.as_str() {
            Some(program) if place == 0 && !program.contains(char::is_whitespace) => {}
            _ => self.argument(word),
        }
    }

    /// The name of a long option stays, since plugins look for it.
    fn argument(&mut self, argument: &mut Value) {
        let Value::String(text) = argument else {
            return;
        };
        *text = match text.split_once('=') {
            Some((option, value)) if is_option(option) => {
                format!("{option}={}", self.placeholder(value))
            }
            _ if is_option(text) => return,
            _ => self.placeholder(text),
        };
    }

    fn placeholder(&mut self, value: &str) -> String {
        // Nothing is hidden by hiding that there is nothing.
        if value.is_empty() {
            return String::new();
        }
        let next = self.0.len() + 1;
        let number = *self.0.entry(value.to_owned()).or_insert(next);
        format!("value-{number}")
    }
}

/// Whether an argument is the name of a long option, as `--log-level`.
fn is_option(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    text.strip_prefix("--")
        .is_some_and(|name| !name.is_empty() && name.len() <= 40 && name.bytes().all(is_inner))
}

#[cfg(test)]
mod tests;
