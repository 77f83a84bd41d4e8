//! Everything that can be wrong with a configuration.

use crate::keys::{self, Place, Protection};
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
    " is changed by this plugin itself, so a second run would not agree with the first";

/// Returns every error, a sentence each.
pub(crate) fn errors(config: &Config) -> Vec<String> {
    let mut errors = Vec::new();
    for place in [Place::Label, Place::Annotation] {
        check_keys(config, place, &mut errors);
        for rule in config.rules(place) {
            check_rule(config, place, rule, &mut errors);
        }
    }
    errors
}

fn check_keys(config: &Config, place: Place, errors: &mut Vec<String>) {
    let mut seen: Vec<&str> = Vec::new();
    for key in config.keys(place) {
        let mut say = |error: &str| errors.push([place.noun(), " ", key, " ", error].concat());
        if seen.contains(&key) {
            say("is named twice: keep one rule for it");
        }
        seen.push(key);
        if let Some(error) = keys::key_error(place, key) {
            say(error);
        }
        match keys::protection(place, key) {
            Some(Protection::Host) => say("is written by the host alone: remove the rule"),
            Some(Protection::Kubernetes)
                if !config.allow_protected.iter().any(|allowed| allowed == key) =>
            {
                say("belongs to Kubernetes: remove the rule, or add the key to allowProtected");
            }
            Some(Protection::Kubernetes) | None => {}
        }
    }
}

fn check_rule(config: &Config, place: Place, rule: &Rule, errors: &mut Vec<String>) {
    let mut say = |error: &[&str]| {
        errors.push([place.noun(), " ", &rule.key, ": ", &error.concat()].concat());
    };
    if rule.mode == Mode::Remove {
        if rule.value.is_some() || rule.default.is_some() || rule.on_missing != OnMissing::Skip {
            say(&["mode remove takes no value, default or onMissing"]);
        }
        return;
    }
    let Some(value) = &rule.value else {
        say(&["value is missing"]);
        return;
    };
    if rule.default.is_some() && rule.on_missing == OnMissing::Deny {
        say(&["with a default nothing is missing: remove default, or onMissing: deny"]);
    }
    if let Some(error) = rule
        .default
        .as_deref()
        .and_then(|default| keys::value_error(place, default))
    {
        say(&["default ", error]);
    }
    let mut literal = Some(String::new());
    for piece in template::pieces(value) {
        match (piece, &mut literal) {
            (Piece::Text(text), Some(literal)) => literal.push_str(text),
            (Piece::Text(_), None) => {}
            (Piece::Source(source), _) => {
                literal = None;
                if let Some(error) = source_error(config, place, rule, source) {
                    say(&["value: ", &error]);
                }
            }
            (Piece::Unknown(text), _) => {
                literal = None;
                say(&["value: ", &template::unknown(text)]);
            }
        }
    }
    if let Some(error) = literal.and_then(|literal| keys::value_error(place, &literal)) {
        say(&["value ", error]);
    }
}

fn source_error(config: &Config, place: Place, rule: &Rule, source: Source<'_>) -> Option<String> {
    match source {
        Source::Pod(path) => path_error(config, path),
        Source::NamespaceName | Source::RequestKind | Source::RequestName => None,
        Source::NamespaceLabel(key) => source_key_error(Place::Label, key),
        Source::NamespaceAnnotation(key) => source_key_error(Place::Annotation, key),
        Source::RequestLabel(key) => source_key_error(Place::Label, key)
            .or_else(|| feedback_error(config, place, rule, (Place::Label, key))),
        Source::RequestAnnotation(key) => source_key_error(Place::Annotation, key)
            .or_else(|| feedback_error(config, place, rule, (Place::Annotation, key))),
    }
}

fn source_key_error(place: Place, key: &str) -> Option<String> {
    keys::key_error(place, key).map(|error| [place.noun(), " ", key, " ", error].concat())
}

/// Where the submitted object is the pod itself, as it came, a second run reads what the first has written.
///
/// Keys that are only added are settled by then, and a key that is copied unchanged stays what it is.
fn feedback_error(
    config: &Config,
    place: Place,
    rule: &Rule,
    source: (Place, &str),
) -> Option<String> {
    let (of, key) = source;
    let is_copied = source == (place, rule.key.as_str())
        && rule
            .value
            .as_deref()
            .is_some_and(|value| template::pieces(value).count() == 1);
    let is_own = config.keys(of).any(|own| own == key);
    (rule.mode == Mode::Overwrite && is_own && !is_copied)
        .then(|| ["the submitted object's ", of.noun(), " ", key, CHANGED].concat())
}

fn path_error(config: &Config, path: &str) -> Option<String> {
    let error = if path
        .split('/')
        .skip(1)
        .any(|segment| matches!(segment, "" | "*" | "-"))
    {
        " names no single place of the pod"
    } else if VOLATILE.iter().any(|volatile| covers(volatile, path)) {
        " differs from run to run: use a field that the pod's author wrote"
    } else if reads_own_work(config, path) {
        CHANGED
    } else {
        return None;
    };
    Some(["pod", path, error].concat())
}

/// Whether a path reads a key that a rule writes or removes, or the map of one.
fn reads_own_work(config: &Config, path: &str) -> bool {
    [Place::Label, Place::Annotation].into_iter().any(|place| {
        covers(path, place.path())
            || config
                .keys(place)
                .any(|key| covers(&keys::path(place, key), path))
    })
}

/// Whether `path` is `prefix` or below it.
fn covers(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
