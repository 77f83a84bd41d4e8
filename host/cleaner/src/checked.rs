//! The spec of a Cleaner, read into types that cannot be wrong.
//!
//! The API server's schema refuses most of what is refused here. But an object may be older than the schema, and what is not refused
//! here decides which objects are deleted.

mod reference;
mod selector;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use podloom_api::duration;
use podloom_api::{
    CleanerDeletion, CleanerDelivery, CleanerHelm, CleanerSpec, CleanerTarget, DeliveryPolicy,
    PropagationPolicy, is_variable_name,
};
use podloom_syntax::names::{dns_label, dns_subdomain};

pub(crate) use self::reference::{
    KindReference, Selection, is_object_name, read as read_reference,
};
use super::settings::CleanerSettings;
use podloom_engine::finding::{FieldPath, Finding, Subject};
use podloom_engine::outbound::Url;

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
    /// How targets are deleted.
    pub(crate) deletion: CheckedDeletion,
    /// The release to uninstall; none if none is.
    pub(crate) helm: Option<CheckedHelm>,
    /// Where the CloudEvent goes; none if there is none.
    pub(crate) sink: Option<String>,
    /// How it is delivered.
    pub(crate) delivery: CheckedDelivery,
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

/// How targets are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckedDeletion {
    /// When the objects that a target owns are deleted.
    pub(crate) propagation: PropagationPolicy,
    /// Above this number of objects, nothing is deleted.
    pub(crate) max_objects: usize,
    /// How long a phase may take before it is late.
    pub(crate) timeout: Duration,
    /// Whether the phase ends only when all objects are gone.
    pub(crate) waits_for_gone: bool,
}

/// How a release is uninstalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedHelm {
    /// The name of the release.
    pub(crate) release: String,
    /// Whether its hooks do not run.
    pub(crate) disables_hooks: bool,
    /// How long each hook may take.
    pub(crate) hook_timeout: Duration,
}

/// How the CloudEvent is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckedDelivery {
    /// What happens if it cannot be delivered.
    pub(crate) policy: DeliveryPolicy,
    /// After which time [`DeliveryPolicy::Ignore`] gives up.
    pub(crate) deadline: Duration,
}

/// Why a spec cannot be used: at least one finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidSpec(pub(crate) Vec<Finding>);

impl fmt::Display for InvalidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
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
    ) -> Result<Self, InvalidSpec> {
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
            deletion: problems.deletion(&spec.deletion),
            helm: spec.helm.as_ref().and_then(|helm| problems.helm(helm)),
            sink: spec.cloud_event_sink.clone(),
            delivery: problems.delivery(&spec.delivery),
            is_dry_run: spec.dry_run,
        };
        if let Some(Err(error)) = spec.cloud_event_sink.as_deref().map(Url::from_str) {
            problems.at("spec.cloudEventSink", &error);
        }
        match problems.0.is_empty() {
            true => Ok(checked),
            false => Err(InvalidSpec(problems.0)),
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
            match reference::read(&target.reference, target.delete) {
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

    fn deletion(&mut self, deletion: &CleanerDeletion) -> CheckedDeletion {
        let max_objects = deletion.max_objects;
        if !(1..=OBJECTS_MAX).contains(&max_objects) {
            let text = format!("use a number from 1 to {OBJECTS_MAX}");
            self.at("spec.deletion.maxObjects", &text);
        }
        CheckedDeletion {
            propagation: deletion.propagation_policy,
            max_objects: usize::try_from(max_objects).unwrap_or_default(),
            timeout: self.duration("spec.deletion.timeout", &deletion.timeout),
            waits_for_gone: deletion.wait_for_gone,
        }
    }

    fn helm(&mut self, helm: &CleanerHelm) -> Option<CheckedHelm> {
        if dns_subdomain(&helm.release).is_err() || helm.release.len() > RELEASE_MAX {
            let text = format!(
                "this is no name of a Helm release: at most {RELEASE_MAX} lower case letters, digits, - and ."
            );
            self.at("spec.helm.release", &text);
        }
        let hook_timeout = self.duration("spec.helm.hookTimeout", &helm.hook_timeout);
        helm.delete.then(|| CheckedHelm {
            release: helm.release.clone(),
            disables_hooks: helm.disable_hooks,
            hook_timeout,
        })
    }

    fn delivery(&mut self, delivery: &CleanerDelivery) -> CheckedDelivery {
        CheckedDelivery {
            policy: delivery.policy,
            deadline: self.duration("spec.delivery.deadline", &delivery.deadline),
        }
    }
}

#[cfg(test)]
mod tests;
