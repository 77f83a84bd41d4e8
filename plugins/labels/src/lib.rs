//! The standard plugin `labels`: adds, overwrites, removes and inherits a pod's labels and annotations.
//!
//! [`Config`] is what users write, [`Mutator::validate`] everything that can be wrong with it, and `edit` what happens to a
//! pod: rules in the order of the configuration, then what is inherited from the namespace.

mod edit;
mod keys;
mod own;
mod template;
mod validate;

#[cfg(test)]
mod tests;

use podloom_plugin_sdk::prelude::*;

use crate::keys::Place;

/// Labels and annotations that every pod of the chain gets or loses.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(not(target_family = "wasm"), derive(JsonSchema))]
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
    /// The paths of the keys that are only added.
    #[serde(skip)]
    added: Vec<String>,
}

/// What happens to one key.
#[derive(Debug, Deserialize)]
#[cfg_attr(not(target_family = "wasm"), derive(JsonSchema))]
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
    /// The path of the key.
    #[serde(skip)]
    path: String,
}

/// What a rule does with its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(not(target_family = "wasm"), derive(JsonSchema))]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(not(target_family = "wasm"), derive(JsonSchema))]
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
        for place in [Place::Label, Place::Annotation] {
            add_needs(&mut needs, config, place);
        }
        needs
    }

    fn validate(config: &Config) -> Vec<String> {
        validate::errors(config)
    }

    fn prepare(config: &mut Config) {
        for (place, rules) in [
            (Place::Label, &mut config.labels),
            (Place::Annotation, &mut config.annotations),
        ] {
            for rule in rules {
                rule.path = keys::path(place, &rule.key);
            }
        }
        config.added = own::paths(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        let mut edit = edit::Edit::begin(config, request, pod)?;
        for place in [Place::Label, Place::Annotation] {
            edit.apply(place, config.rules(place))?;
            edit.inherit(place, config.inherited(place))?;
        }
        edit.finish()
    }
}

podloom_plugin_sdk::mutator!(Labels, schema = "config.schema.json");

impl Config {
    fn rules(&self, place: Place) -> &[Rule] {
        match place {
            Place::Label => &self.labels,
            Place::Annotation => &self.annotations,
        }
    }

    fn inherited(&self, place: Place) -> &[String] {
        match place {
            Place::Label => &self.inherit_labels,
            Place::Annotation => &self.inherit_annotations,
        }
    }

    /// Returns every key of a map that this configuration may write or remove.
    fn keys(&self, place: Place) -> impl Iterator<Item = &str> {
        let rules = self.rules(place).iter().map(|rule| rule.key.as_str());
        rules.chain(self.inherited(place).iter().map(String::as_str))
    }
}

/// Asks for the keys alone where only keys are written, for the map where it may have to go too.
fn add_needs(needs: &mut Needs, config: &Config, place: Place) {
    let rules = config.rules(place);
    if rules.iter().any(|rule| rule.mode == Mode::Remove) {
        needs.writes.push(place.path().to_owned());
    } else {
        needs
            .writes
            .extend(config.keys(place).map(|key| keys::path(place, key)));
        // The size of all annotations together is limited.
        if place == Place::Annotation && config.keys(place).next().is_some() {
            needs.reads.push(place.path().to_owned());
        }
    }
    for value in rules.iter().filter_map(|rule| rule.value.as_deref()) {
        needs
            .reads
            .extend(template::pod_paths(value).map(template::grant));
    }
}
