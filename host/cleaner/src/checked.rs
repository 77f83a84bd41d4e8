//! The spec of a Cleaner, read into types that cannot be wrong.
//!
//! The API server's schema refuses most of what is refused here. But an object may be older than the schema, and what is not refused
//! here decides which objects are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{Expression, GroupVersionKind, Selector};
use podloom_api::{
    CleanerDeletion, CleanerHelm, CleanerSpec, CleanerTarget, TargetReference, duration,
    is_variable_name,
};
use podloom_engine::finding::{FieldPath, Finding, Subject};
use podloom_engine::outbound::Url;
use podloom_engine::shown::shown;
use podloom_syntax::names::{dns_label, dns_subdomain, label_key, label_value};

use crate::settings::CleanerSettings;

/// How many targets a spec may have.
const TARGETS_MAX: usize = 64;
/// How many conditions a spec may have.
pub(super) const CONDITIONS_MAX: usize = 32;
/// How many objects may be deleted at most.
const OBJECTS_MAX: i32 = 2000;
/// How many characters the name of a Helm release may have.
const RELEASE_MAX: usize = 53;

/// A spec that can be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checked {
    /// How long nothing is deleted.
    pub(crate) ttl: Duration,
    /// The time between two evaluations.
    pub(crate) period: Duration,
    /// Whether conditions that time has made true stay true.
    pub(crate) is_monotonic: bool,
    /// The targets, in their order.
    pub(crate) targets: Vec<CheckedTarget>,
    /// The conditions, which may still be no CEL.
    pub(crate) conditions: Vec<String>,
    /// Above this number of objects, nothing is deleted.
    pub(crate) max_objects: usize,
    /// The release to uninstall; none if none is.
    pub(crate) helm: Option<String>,
    /// Where the CloudEvent goes; none if there is none.
    pub(crate) sink: Option<String>,
    /// Whether nothing is deleted, only reported.
    pub(crate) is_dry_run: bool,
}

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckedTarget {
    /// Its name.
    pub(crate) name: String,
    /// Whether conditions see it.
    pub(crate) is_evaluated: bool,
    /// Whether it is deleted.
    pub(crate) is_deleted: bool,
    /// Its kind, as it is written.
    pub(crate) kind: KindReference,
    /// Which objects of this kind.
    pub(crate) selection: Selection,
}

impl Checked {
    /// Checks the spec of a Cleaner in this namespace.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it. Conditions that are no CEL and selectors that no label can match are not: they are found when
    /// they are needed.
    pub(crate) fn of(
        spec: &CleanerSpec,
        namespace: &str,
        settings: &CleanerSettings,
    ) -> Result<Self, Vec<Finding>> {
        let mut problems = Problems::default();
        problems.of_namespace(namespace, settings);
        problems.of_lists(spec);
        let retry = spec.retry.as_ref();
        let checked = Self {
            ttl: problems.duration("spec.ttl", &spec.ttl),
            period: match spec.retry_period() {
                Ok(period) => period,
                Err(error) => problems.default_at("spec.retry.period", &error),
            },
            is_monotonic: retry.is_some_and(|retry| retry.monotonic),
            targets: problems.targets(&spec.targets),
            conditions: spec.conditions.clone(),
            max_objects: problems.max_objects(&spec.deletion),
            helm: spec.helm.as_ref().and_then(|helm| problems.helm(helm)),
            sink: spec.cloud_event_sink.clone(),
            is_dry_run: spec.dry_run,
        };
        problems.duration("spec.delivery.deadline", &spec.delivery.deadline);
        if let Some(Err(error)) = spec.cloud_event_sink.as_deref().map(Url::from_str) {
            problems.at("spec.cloudEventSink", &error);
        }
        match problems.0.is_empty() {
            true => Ok(checked),
            false => Err(problems.0),
        }
    }

    /// Returns the targets that conditions see.
    pub(crate) fn evaluated(&self) -> impl Iterator<Item = &CheckedTarget> {
        self.targets.iter().filter(|target| target.is_evaluated)
    }

    /// Returns the names that conditions know, besides the time.
    pub(crate) fn variable_names(&self) -> Vec<String> {
        self.evaluated().map(|target| target.name.clone()).collect()
    }
}

/// Returns all of what is wrong, in one line.
pub(crate) fn joined(findings: &[Finding]) -> String {
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    findings.join("; ")
}

/// What is wrong.
#[derive(Default)]
struct Problems(Vec<Finding>);

impl Problems {
    fn add(&mut self, path: FieldPath, text: &impl fmt::Display) {
        self.0.push(Finding::at(path, text, Subject::Problem));
    }

    fn at(&mut self, keys: &str, text: &impl fmt::Display) {
        self.add(FieldPath::dotted(keys), text);
    }

    fn default_at<T: Default>(&mut self, keys: &str, text: &impl fmt::Display) -> T {
        self.at(keys, text);
        T::default()
    }

    fn duration(&mut self, keys: &str, text: &str) -> Duration {
        duration::parse(text).unwrap_or_else(|error| self.default_at(keys, &error))
    }

    fn of_namespace(&mut self, namespace: &str, settings: &CleanerSettings) {
        if dns_label(namespace).is_err() {
            // It may be from a file, and becomes a part of a URL.
            self.at("metadata.namespace", &"this is no name of a namespace");
        }
        if settings.excluded_namespaces.contains(namespace) {
            let text = format!(
                "the operator deletes nothing in the namespace {namespace}, by its flag --cleaner-excluded-namespaces; move this Cleaner \
                 and its targets to another namespace"
            );
            self.at("metadata.namespace", &text);
        }
    }

    fn of_lists(&mut self, spec: &CleanerSpec) {
        if spec.targets.len() > TARGETS_MAX {
            let text = format!("there are more than {TARGETS_MAX} targets, use fewer");
            self.at("spec.targets", &text);
        }
        if spec.conditions.len() > CONDITIONS_MAX {
            let text = format!("there are more than {CONDITIONS_MAX} conditions, use fewer");
            self.at("spec.conditions", &text);
        }
    }

    fn targets(&mut self, targets: &[CleanerTarget]) -> Vec<CheckedTarget> {
        let mut names = BTreeSet::new();
        let mut checked = Vec::new();
        for (index, target) in targets.iter().enumerate() {
            let path = FieldPath::dotted("spec.targets").index(index);
            if !is_variable_name(&target.name) {
                let text = "no condition could use this name: begin with a letter or an underscore, go on with letters, digits and \
                            underscores, at most 63, and use no word of CEL";
                self.add(path.clone().key("name"), &text);
            } else if !names.insert(target.name.as_str()) {
                let text = "another target has this name, use another";
                self.add(path.clone().key("name"), &text);
            }
            match read_reference(&target.reference, target.delete) {
                Ok((kind, selection)) => checked.push(CheckedTarget {
                    name: target.name.clone(),
                    is_evaluated: target.include_when_evaluating,
                    is_deleted: target.delete,
                    kind,
                    selection,
                }),
                Err((field, text)) => {
                    let path = path.key("reference");
                    let path = field.iter().fold(path, |path, field| path.key(field));
                    self.add(path, &text);
                }
            }
        }
        checked
    }

    /// What the deletion needs of the rest is read again then: the spec may be edited.
    fn max_objects(&mut self, deletion: &CleanerDeletion) -> usize {
        if !(1..=OBJECTS_MAX).contains(&deletion.max_objects) {
            let text = format!("use a number from 1 to {OBJECTS_MAX}");
            self.at("spec.deletion.maxObjects", &text);
        }
        self.duration("spec.deletion.timeout", &deletion.timeout);
        usize::try_from(deletion.max_objects).unwrap_or_default()
    }

    fn helm(&mut self, helm: &CleanerHelm) -> Option<String> {
        if dns_subdomain(&helm.release).is_err() || helm.release.len() > RELEASE_MAX {
            let text = format!(
                "this is no name of a Helm release: at most {RELEASE_MAX} lower case letters, digits, - and ."
            );
            self.at("spec.helm.release", &text);
        }
        self.duration("spec.helm.hookTimeout", &helm.hook_timeout);
        helm.delete.then(|| helm.release.clone())
    }
}

/// A kind as a spec writes it: the letters of `kind` may have any case.
pub(crate) type KindReference = GroupVersionKind;

/// Which objects of a kind a target is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selection {
    /// The one of this name.
    One(String),
    /// Those with these labels. A selector that no label can match is a mistake that shows when the target is read.
    Labelled(Result<Selector, String>),
}

/// What is wrong: in which field of the reference, and what to write instead.
type Mistake = (Option<&'static str>, &'static str);

const BAD_GROUP: &str =
    "this is no API group; write one such as apps, or leave it out for the core";
const BAD_VERSION: &str = "this is no version of an API; write one such as v1";
const BAD_KIND: &str = "this is no kind; write one such as Pod";
const BAD_NAME: &str =
    "this is no name of an object: it has no slash and no percent sign, and is not . or ..";

/// Reads the reference of a target.
pub(crate) fn read_reference(
    reference: &TargetReference,
    is_deleted: bool,
) -> Result<(KindReference, Selection), Mistake> {
    Ok((kind(reference)?, selection(reference, is_deleted)?))
}

fn kind(reference: &TargetReference) -> Result<KindReference, Mistake> {
    let group = reference.api_group.as_deref();
    let (field, group, version) = match (&reference.version, &reference.api_version) {
        (Some(version), None) => ("version", group.unwrap_or_default(), version.as_str()),
        (None, Some(_)) if group.is_some() => {
            return Err((
                None,
                "give apiGroup and version, or apiVersion instead of both",
            ));
        }
        (None, Some(both)) => {
            let (group, version) = both.split_once('/').unwrap_or(("", both));
            ("apiVersion", group, version)
        }
        _ => return Err((None, "give exactly one of version and apiVersion")),
    };
    if !group.is_empty() && dns_subdomain(group).is_err() {
        return Err((Some("apiGroup"), BAD_GROUP));
    }
    // The name of a version begins with a letter, and becomes a part of a URL.
    if dns_label(version).is_err() || version.starts_with(|it: char| it.is_ascii_digit()) {
        return Err((Some(field), BAD_VERSION));
    }
    if dns_label(&reference.kind.to_ascii_lowercase()).is_err() {
        return Err((Some("kind"), BAD_KIND));
    }
    Ok(KindReference::gvk(group, version, &reference.kind))
}

fn selection(reference: &TargetReference, is_deleted: bool) -> Result<Selection, Mistake> {
    let read = match (
        &reference.name,
        &reference.match_labels,
        &reference.label_selector,
    ) {
        (Some(name), None, None) if is_object_name(name) => {
            return Ok(Selection::One(name.clone()));
        }
        (Some(_), None, None) => return Err((Some("name"), BAD_NAME)),
        (None, Some(labels), None) => read_labels(labels),
        (None, None, Some(selector)) => read_selector(selector),
        _ => {
            return Err((
                None,
                "give exactly one of name, matchLabels and labelSelector",
            ));
        }
    };
    if is_deleted && read.as_ref().is_ok_and(Selector::selects_all) {
        let text =
            "an empty selector would delete all objects of this kind, give at least one label";
        return Err((None, text));
    }
    Ok(Selection::Labelled(read))
}

/// Returns whether a name is one segment of a URL's path. Some kinds have names that are no DNS names.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_part_of_path = |c: char| c != '/' && c != '%' && !c.is_control();
    (1..=253).contains(&name.len())
        && name.chars().all(is_part_of_path)
        && name != "."
        && name != ".."
}

/// Reads labels with their values. A value with a comma would be read by the API server as another selector, so each part is checked.
/// What is wrong is why no object can have such labels.
fn read_labels(labels: &BTreeMap<String, String>) -> Result<Selector, String> {
    let equal = |(key, value): (&String, &String)| {
        checked_key(key)?;
        checked_value(key, value)?;
        Ok(Expression::Equal(key.clone(), value.clone()))
    };
    labels.iter().map(equal).collect()
}

/// Reads a selector.
fn read_selector(selector: &LabelSelector) -> Result<Selector, String> {
    let labels = selector.match_labels.as_ref();
    let mut read = labels.map_or_else(|| Ok(Selector::default()), read_labels)?;
    for requirement in selector.match_expressions.iter().flatten() {
        read.extend([expression(requirement)?]);
    }
    Ok(read)
}

fn expression(requirement: &LabelSelectorRequirement) -> Result<Expression, String> {
    let key = requirement.key.clone();
    checked_key(&key)?;
    let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
    for value in &values {
        checked_value(&key, value)?;
    }
    // An empty list of values means something else to the API server than here.
    match (requirement.operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(Expression::In(key, values)),
        ("NotIn", false) => Ok(Expression::NotIn(key, values)),
        ("Exists", true) => Ok(Expression::Exists(key)),
        ("DoesNotExist", true) => Ok(Expression::DoesNotExist(key)),
        _ => Err(format!(
            "the requirement for the label {key} needs the operator In or NotIn and values, or Exists or DoesNotExist and none"
        )),
    }
}

fn checked_key(key: &str) -> Result<(), String> {
    label_key(key).map_err(|error| format!("the label key {:?} {error}", shown(key)))
}

fn checked_value(key: &str, value: &str) -> Result<(), String> {
    label_value(value)
        .map_err(|error| format!("the value {:?} of the label {key} {error}", shown(value)))
}

#[cfg(test)]
mod tests;
