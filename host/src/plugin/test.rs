//! `podloom plugin test`: runs a plugin on pods, with the rights that it asks for or with those that a chain grants.

mod bench;
mod cases;
mod corpus;
mod coverage;
mod entry;
mod golden;
mod own_crate;
mod report;
mod trial;

use std::path::Path;

use podloom_mutation::PluginOutcome;
use podloom_mutators::Chain;

use self::bench::{Bench, Rights};
use self::cases::Case;
use self::golden::Golden;
use self::trial::Trial;
use super::config::ConfigFile;
use crate::cli::TestArguments;
use crate::error::{CommandError, Diagnostic};
use crate::manifest::{self, Depth};
use crate::subjects::{Warnings, subjects};
use crate::{load, output, source_age};

/// The result for a file of pods.
struct Tried {
    pods: Vec<TriedPod>,
    golden: Option<(String, Golden)>,
    errors: Vec<Diagnostic>,
}

/// The result for one pod. If the plugin rejected it, the reason is among the errors.
struct TriedPod {
    title: String,
    outcome: TrialOutcome,
}

enum TrialOutcome {
    Ran(Box<Trial>),
    /// The golden file may expect this; otherwise it is among the errors.
    Denied(String),
    Failed,
}

/// Runs the plugin on each pod and prints what it did. In a crate, builds the plugin first, and tries the bundle's chain at the end.
pub(crate) fn run(arguments: &TestArguments) -> Result<(), CommandError> {
    let Some(directory) = own_crate::directory(arguments) else {
        let file = arguments.plugin.clone().unwrap_or_default();
        if let Some(note) = source_age::note(&file) {
            load::warn(&note);
        }
        return check(arguments, &file);
    };
    let (file, arguments) = own_crate::build(&directory, arguments)?;
    check(&arguments, &file)?;
    own_crate::try_chain(&arguments)
}

fn check(arguments: &TestArguments, plugin: &Path) -> Result<(), CommandError> {
    if arguments.update && arguments.golden.is_none() && arguments.cases.is_none() {
        let message = "--update needs a golden file to write: name one with --golden, or a directory of cases with --cases";
        return Err(CommandError::Usage(message.to_owned()));
    }
    let mut bench = Bench {
        engine: load::engine_as_in_operator()?,
        name: plugin.display().to_string(),
        file: load::file(plugin)?,
        rights: rights(arguments, plugin)?,
        config: arguments
            .config
            .as_deref()
            .map(ConfigFile::read)
            .transpose()?,
        is_idempotent: !arguments.not_idempotent,
        last: None,
    };
    let mut errors = match (&arguments.cases, &arguments.pod) {
        (Some(directory), _) => try_cases(&mut bench, directory, arguments)?,
        (None, Some(pod)) => {
            let chain = bench.chain(None)?;
            let tried = try_file(chain, pod, arguments.golden.as_deref(), arguments)?;
            output::print(&report::file(chain, &tried))?;
            tried.errors
        }
        (None, None) if arguments.corpus.is_some() => Vec::new(),
        (None, None) => {
            return Err(CommandError::Usage(
                "no pods: name a file with --pod, a directory of cases with --cases, or recorded pods with --corpus; in a plugin's crate, \
                 `podloom plugin test` without a file finds its cases itself"
                    .to_owned(),
            ));
        }
    };
    if let Some(directory) = &arguments.corpus {
        let chain = bench.chain(None)?;
        let tally = corpus::try_all(chain, directory, &arguments.namespace)?;
        output::print(&tally.line(directory))?;
        errors.extend(tally.errors);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(CommandError::CheckFailed(errors))
    }
}

fn rights(arguments: &TestArguments, plugin: &Path) -> Result<Rights, CommandError> {
    match &arguments.chain {
        Some(chain) => {
            let entry = entry::find(chain, plugin, arguments.entry.as_deref())?;
            Ok(Rights::Entry(entry))
        }
        None if arguments.allow.is_empty() => Ok(Rights::Asked),
        None => Ok(Rights::Allowed(arguments.allow.clone())),
    }
}

/// Runs all cases, even if one is invalid.
fn try_cases(
    bench: &mut Bench,
    directory: &Path,
    arguments: &TestArguments,
) -> Result<Vec<Diagnostic>, CommandError> {
    let mut errors = Vec::new();
    let cases = cases::of(directory)?;
    let width = cases.iter().map(|case| case.name.chars().count()).max();
    for case in cases {
        let tried = match try_case(bench, &case, arguments) {
            Err(CommandError::Invalid(errors)) => Tried {
                pods: Vec::new(),
                golden: None,
                errors,
            },
            tried => tried?,
        };
        output::print(&report::case(&case.name, width.unwrap_or_default(), &tried))?;
        errors.extend(tried.errors);
    }
    Ok(errors)
}

fn try_case(
    bench: &mut Bench,
    case: &Case,
    arguments: &TestArguments,
) -> Result<Tried, CommandError> {
    let config = case.config.as_deref().map(ConfigFile::read).transpose()?;
    let chain = bench.chain(config.as_ref())?;
    let pod = case.pod.display().to_string();
    try_file(chain, &pod, Some(&case.golden), arguments)
}

/// Runs a chain of one plugin on each pod of a file, and compares the results with the golden file.
fn try_file(
    chain: &Chain,
    file: &str,
    golden: Option<&Path>,
    arguments: &TestArguments,
) -> Result<Tried, CommandError> {
    let documents = manifest::read(&[file.to_owned()], Depth::Flat)?;
    let mut tried = Tried {
        pods: Vec::new(),
        golden: None,
        errors: Vec::new(),
    };
    let mut texts = Vec::new();
    for (document, subject) in subjects(&documents, &arguments.namespace, Warnings::Printed)? {
        let outcome = match trial::of(chain, &subject) {
            Ok(trial) => {
                let broken = chain.plugins().iter();
                let broken = broken.flat_map(|plugin| trial.violations(plugin, &subject));
                tried
                    .errors
                    .extend(broken.map(|message| document.diagnostic(&[], message)));
                texts.push(golden::text_of(&trial.pod, &subject.pod)?);
                TrialOutcome::Ran(Box::new(trial))
            }
            Err(rejected) => match rejected.runs.last().map(|run| &run.outcome) {
                Some(PluginOutcome::Denied(reason)) if golden.is_some() => {
                    texts.push(golden::text_of_denial(reason));
                    TrialOutcome::Denied(reason.clone())
                }
                _ => {
                    let diagnostic = document.diagnostic(&[], rejected.to_string());
                    tried.errors.push(diagnostic);
                    TrialOutcome::Failed
                }
            },
        };
        tried.pods.push(TriedPod {
            title: document.title(),
            outcome,
        });
    }
    // The golden file is compared only if all pods have a result.
    if let Some(path) = golden.filter(|_| texts.len() == tried.pods.len()) {
        let found = golden::compare(path, &texts.join("---\n"), arguments.update)?;
        let shown = path.display().to_string();
        tried.errors.extend(found.diagnostic(&shown));
        tried.golden = Some((shown, found));
    }
    Ok(tried)
}
