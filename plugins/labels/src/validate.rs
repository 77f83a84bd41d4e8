//! Everything that can be wrong with a configuration.

use podloom_plugin_sdk::path::covers;

use crate::keys::{self, Map, Protection};
use crate::template::{self, Piece, Source};
use crate::{Config, Mode, OnMissing, Rule};

/// Fields of a pod that only the API server or the kubelet fills in: they differ from run to run, and a template that carried
/// one would roll out its workload without end.
const VOLATILE: [&str; 8] = [
    "/metadata/creationTimestamp",
    "/metadata/deletionTimestamp",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/resourceVersion",
    "/metadata/selfLink",
    "/metadata/uid",
    "/status",
];

const CHANGED: &str =
    "is changed by this plugin itself, so a second run would not agree with the first";

/// Returns every error, a sentence each.
pub(crate) fn errors(config: &Config) -> Vec<String> {
    let mut errors = Vec::new();
    for map in Map::BOTH {
        check_keys(config, map, &mut errors);
        for rule in config.rules(map) {
            let key = &rule.key;
            let wrong = rule_errors(config, map, rule).into_iter();
            errors.extend(wrong.map(|error| format!("{map} {key}: {error}")));
        }
    }
    errors
}

fn check_keys(config: &Config, map: Map, errors: &mut Vec<String>) {
    let mut seen: Vec<&str> = Vec::new();
    for key in config.keys(map) {
        let mut report = |error: &str| errors.push(format!("{map} {key} {error}"));
        if seen.contains(&key) {
            report("is named twice: keep one rule for it");
        }
        seen.push(key);
        if let Some(error) = keys::key_error(map, key) {
            report(error);
        }
        match keys::protection(map, key) {
            Some(Protection::Host) => report("is written by the host alone: remove the rule"),
            Some(Protection::Kubernetes)
                if !config.allow_protected.iter().any(|allowed| allowed == key) =>
            {
                report("belongs to Kubernetes: remove the rule, or add the key to allowProtected");
            }
            Some(Protection::Kubernetes) | None => {}
        }
    }
}

/// Everything that is wrong with a rule, apart from its key.
fn rule_errors(config: &Config, map: Map, rule: &Rule) -> Vec<String> {
    let mut errors = Vec::new();
    if rule.mode == Mode::Remove {
        if rule.value.is_some() || rule.default.is_some() || rule.on_missing != OnMissing::Skip {
            errors.push("mode remove takes no value, default or onMissing".to_owned());
        }
        return errors;
    }
    let Some(value) = &rule.value else {
        return vec!["value is missing".to_owned()];
    };
    if let Some(default) = &rule.default {
        if rule.on_missing == OnMissing::Deny {
            errors.push(
                "with a default nothing is missing: remove default, or onMissing: deny".to_owned(),
            );
        }
        if let Some(error) = keys::value_error(map, default) {
            errors.push(format!("default {error}"));
        }
    }
    let mut literal = Some(String::new());
    for piece in template::pieces(value) {
        if let Piece::Text(text) = &piece {
            literal = literal.map(|literal| literal + text);
            continue;
        }
        literal = None;
        let error = match piece {
            Piece::Source(source) => source_error(config, map, rule, &source),
            Piece::Unknown(text) => Some(template::unknown(&text)),
            Piece::Text(_) => None,
        };
        errors.extend(error.map(|error| format!("value: {error}")));
    }
    let error = literal.and_then(|literal| keys::value_error(map, &literal));
    errors.extend(error.map(|error| format!("value {error}")));
    errors
}

fn source_error(config: &Config, map: Map, rule: &Rule, source: &Source) -> Option<String> {
    match source {
        Source::Pod(path) => path_error(config, path).map(|error| format!("pod{path} {error}")),
        Source::NamespaceName | Source::RequestKind | Source::RequestName => None,
        Source::Namespace(of, key) => source_key_error(*of, key),
        Source::Request(of, key) => {
            source_key_error(*of, key).or_else(|| feedback_error(config, (map, rule), (*of, key)))
        }
    }
}

fn source_key_error(map: Map, key: &str) -> Option<String> {
    keys::key_error(map, key).map(|error| format!("{map} {key} {error}"))
}

/// Where the submitted object is the pod itself, as it came, a second run reads what the first has written.
///
/// Keys that are only added are there by then, and a key that is copied unchanged stays what it is.
fn feedback_error(
    config: &Config,
    (map, rule): (Map, &Rule),
    source: (Map, &str),
) -> Option<String> {
    let (of, key) = source;
    let is_copied = source == (map, rule.key.as_str())
        && rule
            .value
            .as_deref()
            .is_some_and(|value| template::pieces(value).len() == 1);
    let is_own = config.keys(of).any(|own| own == key);
    (rule.mode == Mode::Overwrite && is_own && !is_copied)
        .then(|| format!("the submitted object's {of} {key} {CHANGED}"))
}

fn path_error(config: &Config, path: &str) -> Option<&'static str> {
    let mut segments = path.split('/').skip(1);
    if segments.any(|segment| matches!(segment, "" | "*" | "-")) {
        Some("names no single place of the pod")
    } else if VOLATILE.iter().any(|volatile| covers(volatile, path)) {
        Some("differs from run to run: use a field that the pod's author wrote")
    } else if reads_own_work(config, path) {
        Some(CHANGED)
    } else {
        None
    }
}

/// Whether a path reads a key that a rule writes or removes, or the map of one.
fn reads_own_work(config: &Config, path: &str) -> bool {
    Map::BOTH.into_iter().any(|map| {
        covers(path, map.path()) || config.keys(map).any(|key| covers(&map.key(key), path))
    })
}
