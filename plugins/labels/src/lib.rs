//! The standard plugin `labels`: adds, overwrites, removes and inherits a pod's labels and annotations.
//!
//! [`Config`] is what users write, `validate` everything that can be wrong with it, and `edit` what happens to a pod: rules in
//! the order of the configuration, then what is inherited from the namespace.

mod edit;
mod keys;
mod template;
mod validate;

#[cfg(test)]
mod tests;

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
            add_needs(&mut needs, config, map);
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
        config.added = edit::added(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        edit::apply(config, request, pod)
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

/// Asks for the keys alone where only keys are written, for the map where it may have to be deleted too.
fn add_needs(needs: &mut Needs, config: &Config, map: Map) {
    let rules = config.rules(map);
    if rules.iter().any(|rule| rule.mode == Mode::Remove) {
        needs.writes.push(map.path().to_owned());
    } else {
        needs
            .writes
            .extend(config.keys(map).map(|key| map.key(key)));
        // The size of all annotations together is limited.
        if map == Map::Annotations && config.keys(map).next().is_some() {
            needs.reads.push(map.path().to_owned());
        }
    }
    for value in rules.iter().filter_map(|rule| rule.value.as_deref()) {
        needs.reads.extend(template::grants(value));
    }
}
