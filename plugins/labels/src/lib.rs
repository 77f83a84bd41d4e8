//! The standard plugin `labels`: adds, overwrites, removes and inherits a pod's labels and annotations.
//!
//! [`Config`] is what users write, `validate` everything that can be wrong with it, and `Edit` what happens to a pod: rules in the order of
//! the configuration, then what is inherited from the namespace.

mod keys;
mod template;
mod validate;

use std::collections::BTreeMap;

use podloom_plugin_sdk::prelude::*;

use crate::keys::Map;

/// Labels and annotations that every pod of the chain gets or loses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Change these labels, in this order.
    #[serde(default)]
    pub labels: Vec<Rule>,
    /// Change these annotations, in this order.
    #[serde(default)]
    pub annotations: Vec<Rule>,
    /// Copy these labels from the namespace to the pod's labels, unless the pod has them.
    #[serde(default)]
    pub inherit_labels: Vec<String>,
    /// Copy these annotations from the namespace to the pod's annotations, unless the pod has them.
    #[serde(default)]
    pub inherit_annotations: Vec<String>,
    /// Allow rules for these keys although they are protected: the domains `kubernetes.io` and `k8s.io`, and what controllers
    /// find their pods by, such as `pod-template-hash`. Name each key in full.
    #[serde(default)]
    pub allow_protected: Vec<String>,
    /// What is read of each pod: the paths of the keys that are only added, below `/metadata`.
    #[serde(skip)]
    added: Vec<String>,
}

/// What happens to one key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The key, with its prefix if it has one.
    pub key: String,
    /// The value. `$(SOURCE)` in it is replaced, `$$(` stands for `$(`. A source is `pod/PATH` (`pod/spec/serviceAccountName`),
    /// `namespace/name`, `namespace/labels/KEY`, `namespace/annotations/KEY`, `request/kind`, `request/name`,
    /// `request/labels/KEY` or `request/annotations/KEY`.
    #[serde(default)]
    pub value: Option<String>,
    /// What to do where the pod has the key already, or `remove`. Default: `addIfAbsent`.
    #[serde(default)]
    pub mode: Mode,
    /// What to do where a source of the value is missing, or the value it gives is not allowed. Default: `skip`.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Use this value where a source of the value is missing, or the value it gives is not allowed.
    #[serde(default)]
    pub default: Option<String>,
    /// The value, taken apart.
    #[serde(skip)]
    template: Vec<template::Piece>,
    /// The path of the key.
    #[serde(skip)]
    path: String,
}

/// What a rule does with its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Add the key unless the pod has it.
    #[default]
    AddIfAbsent,
    /// Give the key this value, whatever the pod has. Changing a label may take the pod out of its Service.
    Overwrite,
    /// Remove the key, and the map when nothing is left in it.
    Remove,
}

/// What a rule does without its sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnMissing {
    /// Leave the key as it is, with a note.
    #[default]
    Skip,
    /// Deny the pod.
    Deny,
}

struct Labels;

impl Mutator for Labels {
    type Config = Config;
    const NAME: &str = "labels";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Adds, overwrites, removes and inherits labels and annotations";

    fn needs(config: &Config) -> Needs {
        let mut needs = Needs::default();
        for map in Map::BOTH {
            let rules = config.rules(map);
            // The keys alone where only keys are written, the map where it may have to be deleted too.
            if rules.iter().any(|rule| rule.mode == Mode::Remove) {
                needs.writes.push(map.path().to_owned());
            } else {
                let keys = config.keys(map).map(|key| map.key(key));
                needs.writes.extend(keys);
                // The size of all annotations together is limited.
                if map == Map::Annotations && config.keys(map).next().is_some() {
                    needs.reads.push(map.path().to_owned());
                }
            }
            for value in rules.iter().filter_map(|rule| rule.value.as_deref()) {
                needs.reads.extend(template::grants(value));
            }
        }
        needs
    }

    fn validate(config: &Config) -> Vec<String> {
        validate::errors(config)
    }

    fn prepare(config: &mut Config) {
        for (map, rules) in [
            (Map::Labels, &mut config.labels),
            (Map::Annotations, &mut config.annotations),
        ] {
            for rule in rules {
                rule.template = template::pieces(rule.value.as_deref().unwrap_or_default());
                rule.path = map.key(&rule.key);
            }
        }
        config.added = added(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        let mut edit = Edit {
            request,
            pod,
            own: own(config, pod)?,
            annotated: false,
            denials: Vec::new(),
        };
        for map in Map::BOTH {
            edit.apply(map, config.rules(map))?;
            edit.inherit(map, config.inherited(map))?;
        }
        if edit.annotated {
            edit.check_annotations_size()?;
        }
        Rejection::deny_if_any(&edit.denials)
    }
}

podloom_plugin_sdk::mutator!(Labels, schema = "config.schema.json");

impl Config {
    fn rules(&self, map: Map) -> &[Rule] {
        match map {
            Map::Labels => &self.labels,
            Map::Annotations => &self.annotations,
        }
    }

    fn inherited(&self, map: Map) -> &[String] {
        match map {
            Map::Labels => &self.inherit_labels,
            Map::Annotations => &self.inherit_annotations,
        }
    }

    /// Returns every key of a map that this configuration may write or remove.
    fn keys(&self, map: Map) -> impl Iterator<Item = &str> {
        let rules = self.rules(map).iter().map(|rule| rule.key.as_str());
        rules.chain(self.inherited(map).iter().map(String::as_str))
    }
}

/// What the API server allows for all annotations together, keys and values, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// What the pod had at first of the keys that are only added. Rules name different keys, so none sees what another has done.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Own {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Own {
    fn get(&self, map: Map, key: &str) -> Option<&str> {
        let map = match map {
            Map::Labels => &self.labels,
            Map::Annotations => &self.annotations,
        };
        map.get(key).map(String::as_str)
    }
}

fn own(config: &Config, pod: &Pod) -> Result<Own, Error> {
    if config.added.is_empty() {
        return Ok(Own::default());
    }
    let fields: Vec<&str> = config.added.iter().map(String::as_str).collect();
    Ok(pod.view("/metadata", &fields)?.unwrap_or_default())
}

/// Returns the paths below `/metadata` of the keys that are only added.
fn added(config: &Config) -> Vec<String> {
    let mut paths = Vec::new();
    for map in Map::BOTH {
        let rules = config.rules(map).iter();
        let added = rules
            .filter(|rule| rule.mode == Mode::AddIfAbsent)
            .map(|rule| &rule.key);
        for key in added.chain(config.inherited(map)) {
            let path = map.key(key);
            paths.extend(path.strip_prefix("/metadata").map(str::to_owned));
        }
    }
    paths
}

/// The work on one pod.
struct Edit<'p> {
    request: &'p Request,
    pod: &'p Pod,
    own: Own,
    /// Whether an annotation was written, so that their size must be checked.
    annotated: bool,
    denials: Vec<String>,
}

impl Edit<'_> {
    /// Applies the rules of one map, in order.
    fn apply(&mut self, map: Map, rules: &[Rule]) -> Result<(), Rejection> {
        let mut removed = false;
        for rule in rules {
            match rule.mode {
                Mode::Remove => removed |= self.remove(map, &rule.key)?,
                Mode::AddIfAbsent | Mode::Overwrite => self.write(map, rule)?,
            }
        }
        if removed && self.pod.keys(map.path())?.is_empty() {
            self.pod.remove(map.path())?;
        }
        Ok(())
    }

    /// Copies keys from the namespace's map of the same kind, unless the pod has them.
    fn inherit(&mut self, map: Map, keys: &[String]) -> Result<(), Rejection> {
        for key in keys {
            match map.of_namespace(self.request, key) {
                Some(value) => self.add(map, key, &map.key(key), &value)?,
                None => skip(map, key, &format!("the namespace has no {map} of this key")),
            }
        }
        Ok(())
    }

    /// Gives a key the value of its rule, if there is one.
    fn write(&mut self, map: Map, rule: &Rule) -> Result<(), Rejection> {
        let key = &rule.key;
        let keeps_own = rule.mode == Mode::AddIfAbsent && self.own.get(map, key).is_some();
        let value = match (self.value(map, rule)?, &rule.default) {
            (Ok(value), _) => value,
            (Err(reason), Some(default)) => {
                if let Some(set) = template::set_in_a_cluster(&rule.template, self.request, &reason)
                {
                    note(&format!(
                        "{map} {key}: the rule's default counts, but in a cluster the API server sets {set} before"
                    ));
                }
                default.clone()
            }
            // The pod needs no value of ours.
            (Err(_), None) if keeps_own => return Ok(()),
            (Err(reason), None) => {
                match rule.on_missing {
                    OnMissing::Skip => skip(map, key, &reason),
                    OnMissing::Deny => {
                        let denial = format!("{map} {key} is required: {reason}");
                        self.denials.push(denial);
                    }
                }
                return Ok(());
            }
        };
        match rule.mode {
            Mode::Overwrite => self.set(map, key, &rule.path, &value),
            Mode::AddIfAbsent | Mode::Remove => self.add(map, key, &rule.path, &value),
        }
    }

    /// The value that a rule's template gives; the inner error says why it gives none.
    fn value(&self, map: Map, rule: &Rule) -> Result<template::Rendered, Rejection> {
        // A rule with a default of its own says what a pod without a source gets.
        let assume = rule.default.is_none();
        let value = template::render(&rule.template, self.request, self.pod, assume)?;
        Ok(
            value.and_then(|value| match keys::value_error(map, &value) {
                None => Ok(value),
                Some(error) => {
                    let template = rule.value.as_deref().unwrap_or_default();
                    Err(format!("its value of {template} {error}"))
                }
            }),
        )
    }

    /// Writes a key that the pod does not have; the pod's own value is kept.
    fn add(&mut self, map: Map, key: &str, path: &str, value: &str) -> Result<(), Rejection> {
        match self.own.get(map, key) {
            None => self.set(map, key, path, value),
            Some(own) => {
                if own != value {
                    note(&format!("{map} {key}: the pod's own value is kept"));
                }
                Ok(())
            }
        }
    }

    fn set(&mut self, map: Map, key: &str, path: &str, value: &str) -> Result<(), Rejection> {
        match self.pod.set_text(path, value) {
            Err(error) => skip_if_forbidden(map, key, error),
            Ok(()) => {
                self.annotated |= map == Map::Annotations;
                Ok(())
            }
        }
    }

    /// Removes a key. Returns whether the pod had it.
    fn remove(&self, map: Map, key: &str) -> Result<bool, Rejection> {
        self.pod
            .remove(&map.key(key))
            .or_else(|error| skip_if_forbidden(map, key, error).map(|()| false))
    }

    fn check_annotations_size(&mut self) -> Result<(), Rejection> {
        let text = self.pod.get_json(Map::Annotations.path())?;
        let text = text.unwrap_or_default();
        // As JSON they are never shorter than keys and values alone, so nearly every pod is done here.
        if text.len() <= ANNOTATIONS_LIMIT {
            return Ok(());
        }
        let annotations: BTreeMap<String, String> =
            self.pod.annotations().node().get()?.unwrap_or_default();
        let sizes = annotations
            .iter()
            .map(|(key, value)| key.len() + value.len());
        if sizes.sum::<usize>() > ANNOTATIONS_LIMIT {
            self.denials.push(format!(
                "the annotations are larger than {ANNOTATIONS_LIMIT} bytes together: shorten the pod's or those of the plugin"
            ));
        }
        Ok(())
    }
}

/// What the plugin was granted was checked when it was loaded: what is forbidden now is a label that a selector needs. It may be a tenant
/// who keeps the label in this way.
fn skip_if_forbidden(map: Map, key: &str, error: Error) -> Result<(), Rejection> {
    let Error::Forbidden(reason) = error else {
        return Err(error.into());
    };
    warn(&skipped(map, key, &reason));
    Ok(())
}

fn skip(map: Map, key: &str, reason: &str) {
    note(&skipped(map, key, reason));
}

fn skipped(map: Map, key: &str, reason: &str) -> String {
    format!("{map} {key} skipped: {reason}")
}

#[cfg(test)]
mod tests;
