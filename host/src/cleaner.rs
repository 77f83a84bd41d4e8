//! `podloom cleaner check`: checks Cleaners, and shows what each would delete, and when.

mod files;
mod report;

use anyhow::Context;
use jiff::Timestamp;
use kube::Client;
use podloom_api::ConditionVerdict;
use podloom_controllers::CleanerSettings;
use podloom_controllers::cleaner::offline::{self, Live, Question, Rehearsal, Stage};

use self::files::{Checked, Files};
use self::report::Line;
use crate::cli::{Against, CleanerCheckArguments};
use crate::error::{CommandError, Diagnostic, shown};
use crate::lists;
use crate::manifest::Step;
use crate::output;
use crate::render::typed::diagnostic;
use crate::render::{Problems, sort};

/// Reads, checks, evaluates and prints. Evaluates nothing if any Cleaner has an error, and reports the errors of all.
pub(crate) fn check(arguments: &CleanerCheckArguments) -> Result<(), CommandError> {
    let mut problems = Problems::default();
    let found = Files::read(arguments, &mut problems)?;
    let settings = arguments.settings();
    let cleaners = found.cleaners(&arguments.namespace, &settings, &mut problems)?;
    finish(&mut problems, arguments, CommandError::Invalid)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let at = arguments.at.unwrap_or_else(Timestamp::now);
    let lines = runtime.block_on(rehearse(&found, &cleaners, arguments, (&settings, at)))?;
    report::print(&lines, arguments.output)?;
    let mut problems = Problems::default();
    lines.iter().for_each(|line| judge(line, &mut problems));
    finish(&mut problems, arguments, CommandError::CheckFailed)
}

/// Prints the warnings, and fails if there are errors.
fn finish(
    problems: &mut Problems,
    arguments: &CleanerCheckArguments,
    failed: fn(Vec<Diagnostic>) -> CommandError,
) -> Result<(), CommandError> {
    if arguments.strict {
        problems.errors.append(&mut problems.warnings);
    }
    sort(&mut problems.errors);
    problems.warnings.iter().for_each(output::warn);
    match problems.errors.is_empty() {
        true => Ok(()),
        false => Err(failed(std::mem::take(&mut problems.errors))),
    }
}

async fn rehearse<'a>(
    found: &Files,
    cleaners: &'a [Checked<'a>],
    arguments: &CleanerCheckArguments,
    (settings, at): (&CleanerSettings, Timestamp),
) -> Result<Vec<Line<'a>>, CommandError> {
    let objects = found.objects(&arguments.namespace);
    let client = match arguments.against {
        Some(Against::Cluster) => Some(lists::connect().await?.client),
        None => None,
    };
    let stage = match &client {
        Some(client) => Stage::Cluster(client.clone()),
        None => Stage::Files(&objects),
    };
    let mut lines = Vec::new();
    for cleaner in cleaners {
        let live = live(client.clone(), cleaner).await;
        let question = Question {
            spec: &cleaner.spec,
            namespace: cleaner.namespace,
            live: &live,
            at,
            settings,
        };
        let rehearsed = offline::rehearse(question, &stage).await;
        // Its spec was checked before with the same settings.
        let rehearsal = rehearsed.map_err(|findings| {
            let findings = findings
                .iter()
                .map(|finding| diagnostic(cleaner.document, finding, finding.text.clone()));
            CommandError::Invalid(findings.collect())
        })?;
        lines.push(Line {
            cleaner,
            rehearsal,
            live,
            at,
        });
    }
    Ok(lines)
}

/// What the cluster has of a Cleaner, or else its file.
async fn live(client: Option<Client>, cleaner: &Checked<'_>) -> Live {
    let written = Live {
        created: cleaner.created,
        uid: None,
        is_deleted: false,
    };
    let Some(client) = client else {
        return written;
    };
    let name = cleaner.document.name();
    let note = match offline::live(client, cleaner.namespace, name).await {
        Ok(Some(live)) => return live,
        Ok(None) if written.created.is_some() => return written,
        Ok(None) => {
            "the cluster has no such Cleaner yet, so its time is taken to be over".to_owned()
        }
        Err(error) => {
            format!("the Cleaner itself cannot be read, so its time is taken to be over: {error}")
        }
    };
    let title = shown(&cleaner.document.title());
    output::print_note(&format!("{title}: {note}\n"));
    written
}

/// Says what of a rehearsal is a mistake, and what may be one.
fn judge(line: &Line<'_>, problems: &mut Problems) {
    let document = line.cleaner.document;
    let Rehearsal {
        reason,
        message,
        conditions,
        ..
    } = &line.rehearsal;
    for result in conditions {
        if let Some(message) = &result.message {
            let index = usize::try_from(result.index).unwrap_or_default();
            let path = [
                Step::from("spec"),
                Step::from("conditions"),
                Step::Index(index),
            ];
            let text = report::without_index(index, message);
            let said = match result.result {
                ConditionVerdict::Error => &mut problems.errors,
                // It is true of an empty list.
                ConditionVerdict::True | ConditionVerdict::False => &mut problems.warnings,
            };
            said.push(document.diagnostic(&path, text));
        }
    }
    let unresolved = podloom_api::names::cleaner::reason::TARGET_RESOLVE_ERROR;
    if reason == unresolved {
        let path = [Step::from("spec"), Step::from("targets")];
        problems
            .warnings
            .push(document.diagnostic(&path, message.clone()));
    }
}
