//! What is wrong with a Cluster, a Cloud or a provider before it is stored, and what its author should know: pure, for the admission
//! webhook and the command line.
//!
//! The schema and its rules are the API server's. Here is what they cannot say: what the template may not have, what a change of it
//! would leave behind, and which URLs and certificates cannot be used. An update is never refused for what it does not change: a
//! problem that the stored object has too becomes a warning.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;
use podloom_api::{
    CloudObject, ClusterObject, ClusterSpec, ClusterStatus, InfrastructureProviderObject,
    ProviderKind,
};
use podloom_engine::finding::{FieldPath, Finding, Findings, Subject};
use podloom_engine::outbound::{Pem, Roots, Tls, Url};

use super::template::{Comparison, PROBLEMS_MAX, Problem, TEMPLATE_BYTES_MAX};
use super::{insecure, template};

/// The field of the template.
const TEMPLATE: &str = "spec.tosca";

/// Checks a Cluster.
///
/// A template that names files of the Infrastructure Manager's machine is refused only if the provider is known and does not allow it;
/// if it is not known, there is a warning. A change that the Infrastructure Manager would ignore is refused, since it could never be
/// applied.
pub fn cluster(
    new: &ClusterObject,
    old: Option<&ClusterObject>,
    allows_file_references: Option<bool>,
) -> Findings {
    if is_settled(&new.metadata, old.is_some_and(|old| old.spec == new.spec)) {
        return Findings::default();
    }
    let found = |spec: &ClusterSpec| {
        let mut found = problems(spec, allows_file_references.unwrap_or(true));
        found.extend(unsupported(spec, new.status.as_ref()));
        found
    };
    let mut findings = sorted(found(&new.spec), old.map(|old| found(&old.spec)));
    if allows_file_references.is_none() {
        let named = problems(&new.spec, false).into_iter();
        let is_known =
            |it: &Finding| findings.refusals.contains(it) || findings.warnings.contains(it);
        let named: Vec<Finding> = named.filter(|it| !is_known(it)).collect();
        findings.warnings.extend(named);
    }
    findings
}

/// Checks a Cloud or a GlobalCloud.
pub fn cloud(new: &CloudObject, old: Option<&CloudObject>) -> Findings {
    if is_settled(&new.metadata, old.is_some_and(|old| old.spec == new.spec)) {
        return Findings::default();
    }
    sorted(problems_of_cloud(new), old.map(problems_of_cloud))
}

/// Checks an InfrastructureProvider or a GlobalInfrastructureProvider.
pub fn provider(
    new: &InfrastructureProviderObject,
    old: Option<&InfrastructureProviderObject>,
) -> Findings {
    if is_settled(&new.metadata, old.is_some_and(|old| old.spec == new.spec)) {
        return Findings::default();
    }
    let mut findings = sorted(problems_of_provider(new), old.map(problems_of_provider));
    let im = &new.spec.im;
    if let Some(text) = im.url.parse().ok().and_then(|url| insecure::warning(&url)) {
        findings.warnings.push(problem("spec.im.url", &text));
    }
    if im.insecure_skip_tls_verify && im.ca_bundle.is_some() {
        let text = "it is not used, since spec.im.insecureSkipTlsVerify accepts any certificate";
        findings.warnings.push(problem("spec.im.caBundle", text));
    }
    findings
}

/// Whether there is nothing to check.
fn is_settled(new: &ObjectMeta, is_unchanged: bool) -> bool {
    new.deletion_timestamp.is_some() || is_unchanged
}

/// Refuses for what is new, and warns of what is stored already.
fn sorted(problems: Vec<Finding>, known: Option<Vec<Finding>>) -> Findings {
    let known = known.unwrap_or_default();
    let (warnings, refusals) = problems
        .into_iter()
        .partition(|problem| known.contains(problem));
    Findings { refusals, warnings }
}

fn problem(path: &str, text: &str) -> Finding {
    Finding::at(FieldPath::dotted(path), &text, Subject::Problem)
}

/// What is wrong with the template of a Cluster.
fn problems(spec: &ClusterSpec, allows_file_references: bool) -> Vec<Finding> {
    let Some(template) = &spec.tosca else {
        return Vec::new();
    };
    let canonical = template::canonical(template);
    let mut found = Vec::new();
    let size = template::size_of(&canonical);
    if size > TEMPLATE_BYTES_MAX {
        let text = format!("it has {size} bytes as JSON; at most {TEMPLATE_BYTES_MAX} can be sent");
        found.push(problem(TEMPLATE, &text));
    }
    let named = template::check(&canonical, allows_file_references).err();
    let named = named.unwrap_or_default().into_iter();
    found.extend(named.map(|it| Finding::at(it.below(TEMPLATE), &it.message, Subject::Problem)));
    found
}

/// What of a changed template the Infrastructure Manager would ignore.
fn unsupported(spec: &ClusterSpec, status: Option<&ClusterStatus>) -> Vec<Finding> {
    let applied = status.and_then(|status| status.last_applied_tosca.as_ref());
    let (Some(applied), Some(wanted)) = (applied, &spec.tosca) else {
        return Vec::new();
    };
    match template::compare(applied, &template::canonical(wanted), &retired(status)) {
        Comparison::Unsupported(changes) => ignored(&changes),
        _ => Vec::new(),
    }
}

/// The names of the nodes that were removed from a Cluster.
pub(super) fn retired(status: Option<&ClusterStatus>) -> BTreeSet<String> {
    let retired = status.and_then(|status| status.retired_nodes.as_ref());
    retired.into_iter().flatten().cloned().collect()
}

/// Changes that the Infrastructure Manager would ignore, and what their author can do.
pub(super) fn ignored(changes: &[Problem]) -> Vec<Finding> {
    let finding = |change: &Problem| {
        let text = format!("{}; undo this, or create another Cluster", change.message);
        Finding::at(change.below(TEMPLATE), &text, Subject::Problem)
    };
    let mut found: Vec<Finding> = changes.iter().map(finding).collect();
    if changes.len() >= PROBLEMS_MAX {
        let text =
            format!("only {PROBLEMS_MAX} changes are named that cannot be made; there may be more");
        found.push(problem(TEMPLATE, &text));
    }
    found
}

fn problems_of_cloud(cloud: &CloudObject) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_global = cloud.metadata.namespace.is_none();
    if is_global && cloud.spec.provider_ref.kind == ProviderKind::InfrastructureProvider {
        let text = "a GlobalCloud belongs to no namespace; write GlobalInfrastructureProvider";
        found.push(problem("spec.providerRef.kind", text));
    }
    if let Some(openstack) = &cloud.spec.openstack {
        found.extend(problem_of_url("spec.openstack.url", &openstack.url));
    }
    found
}

fn problems_of_provider(provider: &InfrastructureProviderObject) -> Vec<Finding> {
    let im = &provider.spec.im;
    let mut found: Vec<Finding> = problem_of_url("spec.im.url", &im.url).into_iter().collect();
    if let Some(bundle) = &im.ca_bundle {
        let pem = Pem::new("it".to_owned(), bundle.clone().into_bytes());
        let checked = pem.and_then(|pem| Tls::new(&Roots::Only(&pem), None));
        if let Err(error) = checked {
            found.push(problem("spec.im.caBundle", &error.to_string()));
        }
    }
    found
}

fn problem_of_url(path: &str, url: &str) -> Option<Finding> {
    let error = url.parse::<Url>().err()?;
    Some(problem(path, &error.to_string()))
}

#[cfg(test)]
mod tests;
