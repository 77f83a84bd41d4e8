//! What is wrong with a PortalExpose or a TunnelClass before it is stored, and what its author should know: pure, for the admission
//! webhook and the command line.
//!
//! Refused is what can never work, whatever else is in the cluster. An update is never refused for what it does not change: a problem
//! that the stored object has too becomes a warning.

use k8s_openapi::api::core::v1::{Service, Toleration};
use kube::core::ObjectMeta;
use podloom_api::{
    PortalExposeObject, PortalExposeSpec, TunnelClassObject, TunnelClassSpec, asks_to_be_default,
};
use podloom_engine::finding::{FieldPath, Finding, Findings, Subject};
use podloom_engine::shown::{list, shown};
use podloom_syntax::names;

use super::check::{Fault, examine};
use super::class::{Candidate, choose, of_spec, rivals, several_replicas};
use super::rivals::shared;
use super::service;
use super::settings::TunnelSettings;

/// How many refusals name a field; the rest is counted.
const REFUSALS: usize = 12;

/// What is around a PortalExpose. What is not known is none, and not checked.
#[derive(Clone, Copy, Default)]
pub struct Around<'a> {
    /// All TunnelClasses.
    pub classes: Option<&'a [Candidate<'a>]>,
    /// The Services of its namespace.
    pub services: Option<&'a [&'a Service]>,
    /// Other PortalExposes that will be created with it.
    pub exposes: &'a [&'a PortalExposeObject],
}

/// Checks a PortalExpose.
///
/// What is missing around it may be created a moment later, so that is only a warning.
pub fn portal_expose(
    new: &PortalExposeObject,
    old: Option<&PortalExposeObject>,
    around: &Around<'_>,
) -> Findings {
    let is_unchanged = old.is_some_and(|old| old.spec == new.spec);
    if new.metadata.deletion_timestamp.is_some() || is_unchanged {
        return Findings::default();
    }
    let known = old.map(|old| problems_of_expose(&old.spec));
    let mut findings = sorted(problems_of_expose(&new.spec), known);
    let warnings = &mut findings.warnings;
    warnings.extend(class_of(&new.spec, around.classes));
    warnings.extend(service_of(&new.spec, around.services));
    let same = around.exposes.iter();
    warnings.extend(same.filter_map(|other| same_hostname(&new.spec, other)));
    findings
}

/// Checks a TunnelClass, given all of them, itself among them or not; empty if they are not known.
pub fn tunnel_class(
    new: &TunnelClassObject,
    old: Option<&TunnelClassObject>,
    all: &[Candidate<'_>],
) -> Findings {
    let asks = |class: &TunnelClassObject| asks_to_be_default(&class.metadata);
    let is_unchanged = old.is_some_and(|old| old.spec == new.spec && asks(old) == asks(new));
    if new.metadata.deletion_timestamp.is_some() || is_unchanged {
        return Findings::default();
    }
    let known = old.map(|old| problems_of_class(&old.spec));
    let mut findings = sorted(problems_of_class(&new.spec), known);
    if let replicas @ 2.. = new.spec.replicas {
        let path = FieldPath::dotted("spec.replicas");
        let text = several_replicas(replicas);
        findings
            .warnings
            .push(Finding::at(path, &text, Subject::Problem));
    }
    findings.warnings.extend(other_defaults(new, all));
    findings
}

/// Refuses for what is new, and warns of what is stored already.
fn sorted(problems: Vec<Finding>, known: Option<Vec<Finding>>) -> Findings {
    let known = known.unwrap_or_default();
    let (warnings, mut refusals): (Vec<_>, Vec<_>) = problems
        .into_iter()
        .partition(|problem| known.contains(problem));
    let more = refusals.len().saturating_sub(REFUSALS);
    refusals.truncate(REFUSALS);
    if more > 0 {
        let text = format!("and {more} more problems");
        let path = FieldPath::dotted("spec");
        refusals.push(Finding::at(path, &text, Subject::Problem));
    }
    Findings { refusals, warnings }
}

fn problems_of_expose(spec: &PortalExposeSpec) -> Vec<Finding> {
    let (_, problems) = examine(spec);
    problems.into_iter().map(Finding::from).collect()
}

impl From<Fault> for Finding {
    fn from(fault: Fault) -> Self {
        let text = format!("it {}", fault.predicate);
        Self::at(fault.path, &text, Subject::Problem)
    }
}

fn problems_of_class(spec: &TunnelClassSpec) -> Vec<Finding> {
    // Classes without a client use that of the operator's flags, which is none of their own faults.
    let fault = of_spec(spec, &TunnelSettings::default()).err();
    let fault = fault.map(Finding::from);
    fault.into_iter().chain(problems(spec)).collect()
}

/// Why the class of a PortalExpose cannot be used, or that it is one of several defaults.
fn class_of(spec: &PortalExposeSpec, classes: Option<&[Candidate<'_>]>) -> Option<Finding> {
    let classes = classes?.iter().copied();
    let text = match choose(spec.class_name(), classes, &TunnelSettings::default()) {
        Err(problem) => problem.message,
        Ok(class) if class.rivals.is_empty() => return None,
        Ok(class) => format!(
            "several TunnelClasses ask to be the default, and {} is used: {}; set spec.tunnelClassName, or leave one default",
            shown(&class.name),
            list(&class.rivals)
        ),
    };
    let path = FieldPath::dotted("spec.tunnelClassName");
    Some(Finding::at(path, &text, Subject::Configuration))
}

fn service_of(spec: &PortalExposeSpec, services: Option<&[&Service]>) -> Option<Finding> {
    let wanted = &spec.app.service;
    let mut services = services?.iter().copied();
    let found = services.find(|it| it.metadata.name.as_deref() == Some(&wanted.name));
    let problem = service::check(wanted, found)?;
    let path = FieldPath::dotted(match found {
        None => "spec.app.service.name",
        Some(_) => "spec.app.service.port",
    });
    Some(Finding::at(path, &problem.message, Subject::Configuration))
}

/// Whether another PortalExpose wants the same hostname. Which of them gets it, only their age will show.
fn same_hostname(spec: &PortalExposeSpec, other: &PortalExposeObject) -> Option<Finding> {
    let hostname = shared(spec, &other.spec)?.hostname(&spec.app.name);
    let ObjectMeta {
        namespace, name, ..
    } = &other.metadata;
    let names = [namespace, name].map(|name| shown(name.as_deref().unwrap_or_default()));
    let [namespace, name] = names;
    let text = format!(
        "PortalExpose {namespace}/{name} wants the hostname {} too; only the older one will get it",
        shown(&hostname)
    );
    let path = FieldPath::dotted("spec.app.name");
    Some(Finding::at(path, &text, Subject::Duplicate))
}

/// Which other classes ask to be the default, if this one does.
fn other_defaults(class: &TunnelClassObject, all: &[Candidate<'_>]) -> Option<Finding> {
    if !asks_to_be_default(&class.metadata) {
        return None;
    }
    let names = rivals(class, all.iter().copied());
    let (first, _) = names
        .split_first()
        .filter(|(_, others)| !others.is_empty())?;
    let text = format!(
        "several TunnelClasses ask to be the default, and {} is used: {}; remove the annotation from all but one",
        shown(first),
        list(&names)
    );
    let key = podloom_api::names::portal::annotation::IS_DEFAULT_CLASS;
    let path = FieldPath::of(["metadata", "annotations", key]);
    Some(Finding::at(path, &text, Subject::Duplicate))
}

// What the API server would reject in the nodeSelector and the tolerations of a pod.

/// The effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// The operators whose value is a number, in newer versions of Kubernetes.
const COMPARISONS: [&str; 2] = ["Lt", "Gt"];

fn problems(spec: &TunnelClassSpec) -> Vec<Finding> {
    let selector = spec.node_selector.iter().flatten();
    let of_selector = selector.flat_map(|(key, value)| {
        let problems = [key_problem(key), value_problem(value)];
        let problems = problems.into_iter().flatten();
        problems.map(move |text| (FieldPath::dotted("spec.nodeSelector").key(key), text))
    });
    let tolerations = spec.tolerations.iter().flatten().enumerate();
    let of_tolerations = tolerations.flat_map(|(index, toleration)| {
        let path = move || FieldPath::dotted("spec.tolerations").index(index);
        let problems = of_toleration(toleration).into_iter();
        problems.map(move |(field, text)| (path().key(field), text))
    });
    let all = of_selector.chain(of_tolerations);
    all.map(|(path, text)| Finding::at(path, &text, Subject::Problem))
        .collect()
}

/// The wrong fields of a toleration, by the API server's own rules.
fn of_toleration(toleration: &Toleration) -> Vec<(&'static str, String)> {
    let Toleration {
        key,
        operator,
        value,
        effect,
        toleration_seconds,
    } = toleration;
    let [key, operator, value, effect] =
        [key, operator, value, effect].map(|text| text.as_deref().unwrap_or_default());
    let mut found = Vec::new();
    if key.is_empty() && operator != "Exists" {
        let text = "without a key only the operator Exists works; set it, or name a key";
        found.push(("operator", text.to_owned()));
    } else if let Some(problem) = key_problem(key).filter(|_| !key.is_empty()) {
        found.push(("key", problem));
    }
    match operator {
        "" | "Equal" => found.extend(value_problem(value).map(|problem| ("value", problem))),
        "Exists" if !value.is_empty() => {
            let text = "the operator Exists takes no value; remove it, or write Equal";
            found.push(("value", text.to_owned()));
        }
        "Exists" => {}
        // The API server knows whether it has them.
        comparison if COMPARISONS.contains(&comparison) => {}
        other => {
            let text = format!("{:?} is no operator; write Exists or Equal", shown(other));
            found.push(("operator", text));
        }
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        let known = EFFECTS.join(", ");
        let text = format!(
            "{:?} is no effect; leave it out, or write one of {known}",
            shown(effect)
        );
        found.push(("effect", text));
    } else if toleration_seconds.is_some() && effect != "NoExecute" {
        let text =
            "tolerationSeconds needs the effect NoExecute; set it, or remove tolerationSeconds";
        found.push(("effect", text.to_owned()));
    }
    found
}

fn key_problem(key: &str) -> Option<String> {
    let problem = names::label_key(key).err()?;
    Some(format!("the key {:?} {problem}", shown(key)))
}

fn value_problem(value: &str) -> Option<String> {
    let problem = names::label_value(value).err()?;
    Some(format!("the value {:?} {problem}", shown(value)))
}

#[cfg(test)]
mod tests;
