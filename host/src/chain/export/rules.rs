//! What a configuration of the plugin `labels` says, in CEL.

use std::fmt;

use podloom_mutators::cel_literal;
use podloom_pod_path::LAST_APPLIED;
use serde::Deserialize;

use crate::manifest::escape;

/// A configuration of the plugin, as far as a policy can say it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Config {
    labels: Vec<Rule>,
    annotations: Vec<Rule>,
    inherit_labels: Vec<String>,
    inherit_annotations: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    key: String,
    value: String,
    mode: Mode,
    on_missing: OnMissing,
    default: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum Mode {
    #[default]
    AddIfAbsent,
    Overwrite,
    Remove,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum OnMissing {
    #[default]
    Skip,
    Deny,
}

/// One of the two maps of a pod or of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Map {
    Labels,
    Annotations,
}

impl Map {
    pub(super) const BOTH: [Self; 2] = [Self::Labels, Self::Annotations];

    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    /// The condition that an object has such a map.
    pub(super) fn is_in(self, object: &str) -> String {
        format!("has({object}.metadata.{})", self.field())
    }

    fn has(self, object: &str, key: &str) -> String {
        let (map, key) = (self.field(), cel_literal(key));
        format!("{} && {key} in {object}.metadata.{map}", self.is_in(object))
    }
}

/// What one of its entries is called.
impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field().trim_end_matches('s'))
    }
}

/// What the policy does with one key. No other step has this key, so their order does not matter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) map: Map,
    pub(super) key: String,
    /// What must hold in CEL.
    pub(super) conditions: Vec<String>,
    /// What of the namespace its expressions see.
    pub(super) reads: Vec<(Map, String)>,
    /// The value in CEL; none if the key is removed.
    pub(super) value: Option<String>,
}

impl Step {
    /// Of the key in the pod.
    pub(super) fn path(&self) -> String {
        format!("/metadata/{}/{}", self.map.field(), escape(&self.key))
    }

    /// The condition as one expression.
    pub(super) fn condition(&self) -> String {
        match self.conditions.is_empty() {
            true => "true".to_owned(),
            false => self.conditions.join(" && "),
        }
    }
}

/// The steps of a configuration, and what cannot be said, each with the rule. Labels that may be in selectors are overwritten and removed
/// only if they are among the unselected.
pub(super) fn steps(config: &Config, unselected: &[String]) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut refused) = (Vec::new(), Vec::new());
    for map in Map::BOTH {
        let (rules, inherited) = match map {
            Map::Labels => (&config.labels, &config.inherit_labels),
            Map::Annotations => (&config.annotations, &config.inherit_annotations),
        };
        let inherited = inherited.iter().map(|key| Rule {
            key: key.clone(),
            value: format!("$(namespace/{}/{key})", map.field()),
            ..Rule::default()
        });
        let inherited: Vec<Rule> = inherited.collect();
        for rule in rules.iter().chain(&inherited) {
            match step(map, rule, unselected) {
                Ok(step) => steps.push(step),
                Err(why) => refused.push(format!("{map} {}: {why}", rule.key)),
            }
        }
    }
    (steps, refused)
}

fn step(map: Map, rule: &Rule, unselected: &[String]) -> Result<Step, String> {
    let key = &rule.key;
    if map == Map::Labels && rule.mode != Mode::AddIfAbsent && !unselected.contains(key) {
        return Err(format!(
            "the plugin leaves labels alone that the selector of a pod's owner names, and a policy cannot know them; if no selector names this one, pass --unselected {key}"
        ));
    }
    let mut step = Step {
        map,
        key: key.clone(),
        conditions: Vec::new(),
        reads: Vec::new(),
        value: None,
    };
    let has = map.has("object", key);
    match rule.mode {
        Mode::AddIfAbsent => step.conditions.push(format!("!({has})")),
        Mode::Overwrite => {}
        Mode::Remove => {
            step.conditions.push(has);
            return Ok(step);
        }
    }
    step.value = Some(value(rule, &mut step)?);
    Ok(step)
}

/// The values that Kubernetes accepts for a label.
const LABEL_VALUE: &str = "'^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$'";

/// The value of a rule; adds to the step under which conditions there is one.
fn value(rule: &Rule, step: &mut Step) -> Result<String, String> {
    let pieces = pieces(&rule.value)?;
    let mut is_there = Vec::new();
    for piece in &pieces {
        if let Piece::Namespace(of, key) = piece {
            step.reads.push((*of, key.clone()));
            is_there.push(of.has("namespaceObject", key));
        }
    }
    let parts: Vec<String> = pieces.iter().map(Piece::to_cel).collect();
    let value = match parts.is_empty() {
        true => cel_literal(""),
        false => parts.join(" + "),
    };
    // A plain text was checked when the chain was loaded, and one label or name is valid as it is.
    let is_valid = match pieces.as_slice() {
        [Piece::Namespace(of, _)] => *of == Map::Labels,
        pieces => pieces.len() < 2,
    };
    if step.map == Map::Labels && !is_valid {
        is_there.push(format!("({value}).matches({LABEL_VALUE})"));
    }
    match (&rule.default, rule.on_missing) {
        _ if is_there.is_empty() => {}
        (Some(default), _) => {
            let default = cel_literal(default);
            return Ok(format!("({} ? {value} : {default})", is_there.join(" && ")));
        }
        (None, OnMissing::Skip) => step.conditions.extend(is_there),
        (None, OnMissing::Deny) => {
            let why = "onMissing: deny rejects pods, which needs a ValidatingAdmissionPolicy; use skip or a default";
            return Err(why.to_owned());
        }
    }
    Ok(value)
}

/// A part of a value.
enum Piece {
    Text(String),
    NamespaceName,
    Namespace(Map, String),
}

impl Piece {
    fn to_cel(&self) -> String {
        match self {
            Self::Text(text) => cel_literal(text),
            Self::NamespaceName => "request.namespace".to_owned(),
            Self::Namespace(map, key) => {
                let key = cel_literal(key);
                format!("namespaceObject.metadata.{}[{key}]", map.field())
            }
        }
    }

    fn source(text: &str) -> Result<Self, String> {
        let of = |prefix: &str| text.strip_prefix(prefix).map(str::to_owned);
        match (text, of("namespace/labels/"), of("namespace/annotations/")) {
            ("namespace/name", ..) => Ok(Self::NamespaceName),
            ("request/kind", ..) => Ok(Self::Text("Pod".to_owned())),
            (_, Some(key), _) => Ok(Self::Namespace(Map::Labels, key)),
            // The plugin never sees this one.
            (_, _, Some(key)) if key != LAST_APPLIED => Ok(Self::Namespace(Map::Annotations, key)),
            _ => Err(format!(
                "$({text}) cannot be said: only namespace/name, namespace/labels/KEY, namespace/annotations/KEY and request/kind can"
            )),
        }
    }
}

/// The parts of a template, as the plugin reads it: `$(SOURCE)` is replaced, and `$$(` stands for `$(`.
fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let (mut text, mut rest) = (String::new(), template);
    while let Some(char) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("$$(") {
            text.push_str("$(");
            rest = after;
        } else if let Some((source, after)) =
            rest.strip_prefix("$(").and_then(|it| it.split_once(')'))
        {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::source(source)?);
            rest = after;
        } else {
            text.push(char);
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests;
