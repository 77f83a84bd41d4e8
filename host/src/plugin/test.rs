//! `podloom plugin test`: a plugin on pods, with the rights that it asks for or those that a chain gives it.

mod bench;
mod cases;
mod entry;
mod golden;
mod report;
mod trial;

use std::path::Path;

use podloom_mutators::{Chain, RejectionCause};

use self::bench::{Bench, Rights};
use self::cases::Case;
use self::golden::Golden;
use self::trial::Trial;
use crate::cli::TestArguments;
use crate::manifest::{self, Depth, Document, Kind};
use crate::refusal::{Failure, Refusal};
use crate::render::Namespaces;
use crate::render::pod::{Subject, subject};
use crate::{load, output};

/// What came of a file of pods.
struct Tried {
    pods: Vec<TriedPod>,
    golden: Option<(String, Golden)>,
    refusals: Vec<Refusal>,
}

/// What came of one pod; one that was rejected is among the refusals.
struct TriedPod {
    title: String,
    outcome: Outcome,
}

enum Outcome {
    Ran(Box<Trial>),
    /// As the golden file may have it, or among the refusals.
    Denied(String),
    Failed,
}

/// Runs the plugin on each pod and tells what it did.
pub(crate) fn run(arguments: &TestArguments) -> Result<(), Failure> {
    if arguments.update && arguments.golden.is_none() && arguments.cases.is_none() {
        let message = "--update writes golden files: name one with --golden, or a directory of cases with --cases";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut bench = Bench {
        engine: load::engine_of_an_operator()?,
        name: arguments.file.display().to_string(),
        file: load::file(&arguments.file)?,
        rights: rights(arguments)?,
        config: arguments.config.as_deref().map(load::config).transpose()?,
        is_idempotent: !arguments.not_idempotent,
        last: None,
    };
    let refusals = match (&arguments.cases, &arguments.pod) {
        (Some(directory), _) => try_cases(&mut bench, directory, arguments)?,
        (None, Some(pod)) => {
            let chain = bench.chain(None)?;
            let tried = try_file(chain, pod, arguments.golden.as_deref(), arguments)?;
            output::print(&report::file(chain, &tried))?;
            tried.refusals
        }
        (None, None) => {
            return Err(Failure::Usage(
                "name pods with --pod, or --cases".to_owned(),
            ));
        }
    };
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(Failure::Found(refusals))
    }
}

fn rights(arguments: &TestArguments) -> Result<Rights, Failure> {
    match &arguments.chain {
        Some(chain) => {
            let entry = entry::find(chain, &arguments.file, arguments.entry.as_deref())?;
            Ok(Rights::Entry(entry))
        }
        None if arguments.allow.is_empty() => Ok(Rights::Asked),
        None => Ok(Rights::Allowed(arguments.allow.clone())),
    }
}

/// Tries all cases, also after one that is refused.
fn try_cases(
    bench: &mut Bench,
    directory: &Path,
    arguments: &TestArguments,
) -> Result<Vec<Refusal>, Failure> {
    let mut refusals = Vec::new();
    let cases = cases::of(directory)?;
    let width = cases.iter().map(|case| case.name.chars().count()).max();
    for case in cases {
        let tried = match try_case(bench, &case, arguments) {
            Err(Failure::Refused(refusals)) => Tried {
                pods: Vec::new(),
                golden: None,
                refusals,
            },
            tried => tried?,
        };
        output::print(&report::case(&case.name, width.unwrap_or_default(), &tried))?;
        refusals.extend(tried.refusals);
    }
    Ok(refusals)
}

fn try_case(bench: &mut Bench, case: &Case, arguments: &TestArguments) -> Result<Tried, Failure> {
    let config = case.config.as_deref().map(load::config).transpose()?;
    let chain = bench.chain(config.as_ref())?;
    let pod = case.pod.display().to_string();
    try_file(chain, &pod, Some(&case.golden), arguments)
}

/// Runs a chain of one plugin on each pod of a file, and compares what comes out.
fn try_file(
    chain: &Chain,
    file: &str,
    golden: Option<&Path>,
    arguments: &TestArguments,
) -> Result<Tried, Failure> {
    let documents = manifest::read(&[file.to_owned()], Depth::Flat)?;
    let mut tried = Tried {
        pods: Vec::new(),
        golden: None,
        refusals: Vec::new(),
    };
    let mut texts = Vec::new();
    for (document, subject) in subjects(&documents, &arguments.namespace)? {
        let outcome = match trial::of(chain, &subject) {
            Ok(trial) => {
                let broken = chain.plugins().iter();
                let broken = broken.flat_map(|plugin| trial.broken_promises(plugin, &subject));
                tried
                    .refusals
                    .extend(broken.map(|message| document.refuse(&[], message)));
                texts.push(golden::text_of(&trial.pod, &subject.pod)?);
                Outcome::Ran(Box::new(trial))
            }
            Err(RejectionCause::Denied { reason, .. }) if golden.is_some() => {
                texts.push(golden::text_of_denial(&reason));
                Outcome::Denied(reason)
            }
            Err(cause) => {
                let refusal = document.refuse(&[], cause.to_string());
                tried.refusals.push(refusal);
                Outcome::Failed
            }
        };
        tried.pods.push(TriedPod {
            title: document.title(),
            outcome,
        });
    }
    // Without all of its pods a file cannot be compared.
    if let Some(path) = golden.filter(|_| texts.len() == tried.pods.len()) {
        let found = golden::compare(path, &texts.join("---\n"), arguments.update)?;
        let shown = path.display().to_string();
        tried.refusals.extend(found.refusal(&shown));
        tried.golden = Some((shown, found));
    }
    Ok(tried)
}

/// The pods among the documents, and those that workloads describe.
fn subjects<'a>(
    documents: &'a [Document],
    namespace: &str,
) -> Result<Vec<(&'a Document, Subject)>, Failure> {
    let findings = manifest::check(documents)?;
    if !findings.refusals.is_empty() {
        return Err(Failure::Refused(findings.refusals));
    }
    let namespaces = Namespaces::of(documents);
    let subjects: Vec<_> = documents
        .iter()
        .filter_map(|document| {
            let template = match manifest::kind(document) {
                Kind::Pod => None,
                Kind::Workload(template) => Some(template),
                _ => return None,
            };
            let subject = subject(document, template.as_ref(), &namespaces, namespace);
            Some((document, subject))
        })
        .collect();
    if subjects.is_empty() {
        return Err(Failure::refused(
            "no pod to try the plugin on: it is tried on Pods and workloads; `podloom render` makes pods of Browsers",
        ));
    }
    Ok(subjects)
}
