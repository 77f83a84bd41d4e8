//! `podloom infra check`: checks Clusters, and what they run on, offline, and shows what is sent for them.

mod objects;
mod requests;

use podloom_controllers::Findings;
use podloom_controllers::infrastructure::offline::{self, Request};
use podloom_controllers::infrastructure::validate::ClusterAround;

use self::objects::{Object, Objects, Status, same};
use self::requests::Planned;
use crate::cli::InfraCheckArguments;
use crate::error::{CommandError, Diagnostic};
use crate::explain;
use crate::manifest::{self, Depth, Document, Unknown};
use crate::output;
use crate::render::typed::diagnostic;
use crate::render::{Problems, duplicates, sort};

/// Reads, checks and prints. Prints nothing that is sent if any object has an error, and reports the errors of all.
pub(crate) fn check(arguments: &InfraCheckArguments) -> Result<(), CommandError> {
    let is_input = |file: &String| file == "-";
    if arguments.files.iter().any(is_input) && arguments.previous.iter().any(is_input) {
        let text = "-f - and --previous - do not go together: standard input can be read only once";
        return Err(CommandError::Usage(text.to_owned()));
    }
    let mut problems = Problems::default();
    let found = read(&arguments.files, arguments, &mut problems)?;
    let before = match arguments.previous.as_slice() {
        [] => None,
        files => Some(read(files, arguments, &mut problems)?.documents),
    };
    let namespace = arguments.namespace.as_str();
    let new = objects(&found.documents, namespace, &mut problems)?;
    let previous = before
        .as_deref()
        .map(|documents| Objects::read(documents, namespace, Status::Read));
    if let Some(previous) = &previous {
        problems.warnings.extend(unrelated(&new, previous));
        let unreadable = previous.unreadable.iter();
        let unreadable = unreadable.map(|(_, diagnostic)| diagnostic.clone());
        problems.errors.extend(unreadable);
    }
    let planned = check_all(&new, previous.as_ref(), arguments, &mut problems);
    if arguments.strict {
        problems.errors.append(&mut problems.warnings);
    }
    sort(&mut problems.errors);
    problems.warnings.iter().for_each(output::warn);
    if !problems.errors.is_empty() {
        return Err(CommandError::Invalid(problems.errors));
    }
    output::print_note(&found.counted());
    requests::print(&planned, arguments)
}

/// The objects of our kinds in some files.
struct Files {
    documents: Vec<Document>,
    /// How many objects of other kinds there are.
    others: usize,
}

impl Files {
    fn counted(&self) -> String {
        let objects = |count| explain::count(count, "object");
        let checked = objects(self.documents.len());
        match self.others {
            0 => format!("checked {checked}\n"),
            others => format!(
                "checked {checked}, and left out {} of other kinds\n",
                objects(others)
            ),
        }
    }
}

fn read(
    files: &[String],
    arguments: &InfraCheckArguments,
    problems: &mut Problems,
) -> Result<Files, CommandError> {
    let depth = match arguments.recursive {
        true => Depth::Recursive,
        false => Depth::Flat,
    };
    let found = manifest::find(files, &[], depth)?;
    let is_readable = found.errors.is_empty();
    problems.errors.extend(found.errors);
    let (documents, others): (Vec<Document>, Vec<Document>) = found
        .documents
        .into_iter()
        .partition(manifest::is_infrastructure);
    // A check that looks at nothing must not succeed.
    if documents.is_empty() && is_readable {
        problems.errors.push(Diagnostic::new(format!(
            "no Cluster, Cloud or InfrastructureProvider in {}: their apiVersion is infrastructure.podloom.dev/v1alpha1",
            files.join(", ")
        )));
    }
    Ok(Files {
        documents,
        others: others.len(),
    })
}

/// Reads the objects, and checks them against their schemas. One that breaks its schema is checked further if it fits its type.
fn objects<'a>(
    documents: &'a [Document],
    namespace: &str,
    problems: &mut Problems,
) -> Result<Objects<'a>, CommandError> {
    let checked = manifest::check(documents, Unknown::LeftOut)?;
    problems.errors.extend(checked.errors);
    problems.warnings.extend(checked.warnings);
    let duplicates = duplicates::find(documents, namespace);
    problems.errors.extend(duplicates);
    let objects = Objects::read(documents, namespace, Status::LeftOut);
    let unreadable = objects.unreadable.iter();
    let unreadable = unreadable.filter(|(index, _)| !checked.refused.contains(index));
    let unreadable = unreadable.map(|(_, diagnostic)| diagnostic.clone());
    problems.errors.extend(unreadable);
    Ok(objects)
}

/// Warns if nothing has a previous version: that looks like success, though no change was checked.
fn unrelated(new: &Objects<'_>, previous: &Objects<'_>) -> Option<Diagnostic> {
    let has_any = new
        .clusters
        .iter()
        .any(|it| same(&previous.clusters, it).is_some())
        || new
            .clouds
            .iter()
            .any(|it| same(&previous.clouds, it).is_some())
        || new
            .providers
            .iter()
            .any(|it| same(&previous.providers, it).is_some());
    let text = "no object is in --previous under the same kind, namespace and name, so no change was checked";
    (!has_any).then(|| Diagnostic::new(text))
}

/// Checks all objects. Returns what is sent for those that have no mistake.
fn check_all<'a>(
    new: &'a Objects<'a>,
    previous: Option<&Objects<'_>>,
    arguments: &InfraCheckArguments,
    problems: &mut Problems,
) -> Vec<Planned<'a>> {
    for provider in &new.providers {
        let old = previous.and_then(|it| same(&it.providers, provider));
        let findings = offline::provider(&provider.value, old);
        report(provider.document, &findings, problems);
    }
    for cloud in &new.clouds {
        let old = previous.and_then(|it| same(&it.clouds, cloud));
        report(cloud.document, &offline::cloud(&cloud.value, old), problems);
    }
    let mut planned = Vec::new();
    for cluster in &new.clusters {
        let old = previous.and_then(|it| same(&it.clusters, cluster));
        let Object {
            document, value, ..
        } = cluster;
        let assumed = arguments.allow_file_references.then_some(true);
        let around = ClusterAround {
            allows_file_references: new.allows_file_references(cluster).or(assumed),
        };
        report(document, &offline::cluster(value, old, around), problems);
        match offline::request(value, old) {
            Request::Unsupported(refusals) => {
                let findings = Findings {
                    refusals,
                    ..Findings::default()
                };
                report(document, &findings, problems);
            }
            request => planned.push(Planned {
                document,
                adopted: value.spec.adopt_infrastructure_id.as_deref(),
                request,
            }),
        }
    }
    planned
}

/// Adds findings to the problems. A field that its schema refuses already is not told twice.
fn report(document: &Document, findings: &Findings, problems: &mut Problems) {
    let known = problems.errors.len();
    for finding in &findings.refusals {
        let error = diagnostic(document, finding, finding.text.clone());
        let earlier = problems.errors.iter().take(known);
        let mut same =
            earlier.filter(|it| it.position == error.position && it.field == error.field);
        if same.next().is_none() {
            problems.errors.push(error);
        }
    }
    let warnings = findings.warnings.iter();
    let warnings = warnings.map(|it| diagnostic(document, it, it.text.clone()));
    problems.warnings.extend(warnings);
}
