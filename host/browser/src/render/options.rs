//! The options of one session, on top of its configuration: JSON in an annotation of the Browser.
//!
//! `{"labels": {"team": "search"}, "containers": {"browser": {"env": {"LANG": "de_DE"}}}}`
//!
//! Clients were written for a reader that takes null as empty, so this one does too.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podloom_api::{SessionOptions, names};
use podloom_engine::shown::Shown;
use podloom_syntax::text::matches;
use serde_json::{Map, Value};

use super::check::{is_env_name, is_qualified_name};
use super::resolve::Resolved;
use super::similar;

/// What is wrong with the annotation, and where, or with what is copied to the pod; values are left out, since they may be secrets.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct OptionsError {
    sentence: String,
    /// `labels` or `annotations`, if the Browser's own have what is not allowed.
    pub(crate) copied: Option<&'static str>,
}

/// What is wrong with the annotation.
fn wrong(sentence: &str) -> OptionsError {
    OptionsError {
        sentence: format!("annotation {}{sentence}", names::annotation::OPTIONS),
        copied: None,
    }
}

/// Returns what is wrong with a session's options: as they are written, and then by the limits of its configuration if that is known.
pub(crate) fn check_options(
    metadata: &ObjectMeta,
    resolved: Option<&Resolved<'_>>,
) -> Result<(), OptionsError> {
    let options = Options::read(metadata)?;
    let Some(resolved) = resolved else {
        return Ok(());
    };
    options.check(resolved)?;
    check_copied(metadata, resolved)
}

/// The text of the options, if there are any.
fn text(metadata: &ObjectMeta) -> Option<&str> {
    let text = metadata
        .annotations
        .as_ref()?
        .get(names::annotation::OPTIONS)?;
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// Annotations that are about the Browser alone, or that only the host may write once the chain has run.
pub(super) const NEVER_COPIED: [&str; 5] = [
    names::annotation::OPTIONS,
    names::annotation::RECIPE,
    names::annotation::LAST_APPLIED,
    names::annotation::MUTATIONS,
    names::annotation::CHAIN,
];

/// The operator sets these three itself on the Browser and its pod, and overrides what is there.
const OWN_LABELS: [&str; 3] = [
    names::label::BROWSER,
    names::label::BROWSER_NAME,
    names::label::BROWSER_VERSION,
];

/// A session's options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Labels of the pod; their values are made valid.
    pub(super) labels: BTreeMap<String, String>,
    /// Environment variables by container.
    env: BTreeMap<String, BTreeMap<String, String>>,
}

impl Options {
    /// Reads the options of a Browser; none, or an empty annotation, are no options.
    pub(super) fn read(metadata: &ObjectMeta) -> Result<Self, OptionsError> {
        text(metadata).map_or_else(|| Ok(Self::default()), Self::parse)
    }

    fn parse(text: &str) -> Result<Self, OptionsError> {
        let value = serde_json::from_str(text).map_err(|error| {
            wrong(&format!(
                r#" is not valid JSON: {error}; write for example {{"labels": {{"team": "search"}}}}"#
            ))
        })?;
        let mut root = object("the whole", Some(value))?;
        let mut options = Self::default();
        for (key, value) in texts("labels", root.remove("labels"))? {
            if !is_qualified_name(&key) {
                return Err(invalid_key("labels", &key, "label key"));
            }
            options.labels.insert(key, names::label_value(&value));
        }
        for (container, value) in object("containers", root.remove("containers"))? {
            let path = format!("containers.{}", similar::shown(&container));
            let mut fields = object(&path, Some(value))?;
            let path = format!("{path}.env");
            let env = texts(&path, fields.remove("env"))?;
            if let Some(key) = env.keys().find(|key| !is_env_name(key)) {
                return Err(invalid_key(&path, key, "variable name"));
            }
            options.env.insert(container, env);
        }
        Ok(options)
    }

    /// Returns an error for the first label or variable that is asked for and not allowed.
    ///
    /// Options for a container that the pod does not have are ignored, so they are allowed.
    pub(super) fn check(&self, resolved: &Resolved<'_>) -> Result<(), OptionsError> {
        // Annotations are not among the options; see `check_copied`.
        let Some(SessionOptions {
            labels,
            annotations: _,
            env: allowed,
        }) = resolved.session_options
        else {
            return Ok(());
        };
        let config = resolved.config;
        let labels = labels.as_deref().unwrap_or_default();
        check_keys("labels", self.labels.keys(), labels, config)?;
        let settings = &resolved.effective.settings;
        let containers = settings.init_containers.iter().chain(&settings.sidecars);
        let others = containers.flatten().map(|container| &*container.name);
        for container in std::iter::once(names::container::BROWSER).chain(others) {
            if let Some(env) = self.env.get(container) {
                let path = format!("containers.{}.env", similar::shown(container));
                let names = allowed.as_ref().and_then(|env| env.get(container));
                check_keys(&path, env.keys(), names.map_or(&[], Vec::as_slice), config)?;
            }
        }
        Ok(())
    }

    /// Sets a container's variables: by name where it has them, else at the end in the order of their names.
    pub(super) fn apply(&self, container: &mut Container) {
        let Some(wanted) = self.env.get(&container.name).filter(|env| !env.is_empty()) else {
            return;
        };
        let mut wanted: BTreeMap<&String, &String> = wanted.iter().collect();
        let env = container.env.get_or_insert_default();
        for known in env.iter_mut() {
            if let Some((name, value)) = wanted.remove_entry(&known.name) {
                *known = variable(name, value);
            }
        }
        env.extend(
            wanted
                .into_iter()
                .map(|(name, value)| variable(name, value)),
        );
    }
}

/// Returns an error for the first label or annotation of a Browser that its pod would get and that is not allowed.
///
/// Without this, a label that the options may not set could be set on the Browser instead.
pub(super) fn check_copied(
    metadata: &ObjectMeta,
    resolved: &Resolved<'_>,
) -> Result<(), OptionsError> {
    // Variables are not in the metadata; see `Options::check`.
    let Some(SessionOptions {
        labels,
        annotations,
        env: _,
    }) = resolved.session_options
    else {
        return Ok(());
    };
    let fields = [
        ("labels", &metadata.labels, labels, &OWN_LABELS[..]),
        (
            "annotations",
            &metadata.annotations,
            annotations,
            &NEVER_COPIED[..],
        ),
    ];
    for (field, has, patterns, excepted) in fields {
        let keys = has.iter().flat_map(BTreeMap::keys);
        let keys = keys.filter(|key| !excepted.contains(&key.as_str()));
        let patterns = patterns.as_deref().unwrap_or_default();
        if let Some(refusal) = not_allowed(keys, patterns, resolved.config) {
            let (key, allowed) = refusal;
            return Err(OptionsError {
                sentence: format!("metadata.{field} of the Browser has {key}, but {allowed}"),
                copied: Some(field),
            });
        }
    }
    Ok(())
}

fn check_keys<'a>(
    path: &str,
    asked: impl Iterator<Item = &'a String>,
    patterns: &[String],
    config: &str,
) -> Result<(), OptionsError> {
    match not_allowed(asked, patterns, config) {
        Some((key, allowed)) => Err(wrong(&format!(": {path} asks for {key}, but {allowed}"))),
        None => Ok(()),
    }
}

/// Returns the first key that no pattern matches, and what the BrowserConfig allows instead.
fn not_allowed<'a>(
    mut keys: impl Iterator<Item = &'a String>,
    patterns: &[String],
    config: &str,
) -> Option<(Shown<'a>, String)> {
    let key = keys.find(|key| !patterns.iter().any(|pattern| matches(pattern, key)))?;
    let allowed = match patterns {
        [] => "nothing".to_owned(),
        patterns => format!("only {}", similar::list(patterns)),
    };
    let allowed = format!("sessionOptions of BrowserConfig {config} allow {allowed} there");
    Some((similar::shown(key), allowed))
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}

fn invalid_key(path: &str, key: &str, what: &str) -> OptionsError {
    let key = similar::shown(key);
    wrong(&format!(
        ": {path} holds {key:?}, which is not a valid {what}"
    ))
}

/// Reads an object; one that is absent or null is empty.
fn object(path: &str, value: Option<Value>) -> Result<Map<String, Value>, OptionsError> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(value) => Err(wrong_type(path, "an object", &value)),
    }
}

/// Reads an object of texts; null is the empty text.
fn texts(path: &str, value: Option<Value>) -> Result<BTreeMap<String, String>, OptionsError> {
    object(path, value)?
        .into_iter()
        .map(|(key, value)| match value {
            Value::Null => Ok((key, String::new())),
            Value::String(text) => Ok((key, text)),
            value => {
                let path = format!("{path}.{}", similar::shown(&key));
                Err(wrong_type(&path, "a string", &value))
            }
        })
        .collect()
}

fn wrong_type(path: &str, expected: &str, value: &Value) -> OptionsError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    wrong(&format!(": {path} is {found}, use {expected}"))
}

// Keys in the options that nothing reads: most are slips.

/// The keys of the options, and those of each container in them.
const KEYS: [&str; 2] = ["labels", "containers"];
const CONTAINER_KEYS: [&str; 1] = ["env"];

/// Returns a sentence about each key in a session's options that nothing reads; none if the options cannot be read at all. Such keys are
/// ignored, since clients may write more than this reader knows.
pub(crate) fn unknown_options(metadata: &ObjectMeta) -> Vec<String> {
    let Some(Ok(Value::Object(root))) = text(metadata).map(serde_json::from_str) else {
        return Vec::new();
    };
    let mut unknown = unknown_keys("", &root, &KEYS);
    let containers = root.get("containers").and_then(Value::as_object);
    for (container, fields) in containers.into_iter().flatten() {
        let path = format!("containers.{}.", similar::shown(container));
        let fields = fields.as_object().into_iter();
        unknown.extend(fields.flat_map(|fields| unknown_keys(&path, fields, &CONTAINER_KEYS)));
    }
    unknown
}

fn unknown_keys(path: &str, fields: &Map<String, Value>, known: &[&str]) -> Vec<String> {
    let known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
    let unknown = fields.keys().filter(|key| !known.contains(key));
    let sentence = |key: &String| {
        let hint = match similar::closest(key, &known) {
            Some(similar) => format!("did you mean {similar:?}?"),
            None => format!("use only {}", similar::both(&known)),
        };
        let (annotation, key) = (names::annotation::OPTIONS, similar::shown(key));
        format!("annotation {annotation}: {path}{key} is ignored, {hint}")
    };
    unknown.map(sentence).collect()
}

#[cfg(test)]
mod tests;
