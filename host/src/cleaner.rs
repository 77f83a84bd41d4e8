//! `podloom cleaner check`: checks Cleaners, and shows what each would delete, and when.

use std::fmt::Write;

use anstyle::Style;
use jiff::Timestamp;
use kube::Client;
use podloom_api::{CleanerObject, CleanerSpec, ConditionResult, ConditionVerdict, PlannedObject};
use podloom_cleaner::CleanerSettings;
use podloom_cleaner::offline::{self, Cause, Live, Next, Question, Rehearsal, Stage, TargetLine};
use podloom_syntax::text::{cut, joined};
use serde_json::{Value, json};

use crate::cli::{Against, CleanerCheckArguments, ReportFormat};
use crate::error::{CommandError, Diagnostic, shown};
use crate::feed::block_on;
use crate::manifest::{Depth, Document, Step, Unknown};
use crate::output::{ADDED, CHANGED, QUIET, REMOVED, TITLE, paint};
use crate::render::{Problems, diagnostic, typed};
use crate::{lists, manifest, output, render};

/// Reads, checks, evaluates and prints. Evaluates nothing if any Cleaner has an error, and reports the errors of all.
pub(crate) fn check(arguments: &CleanerCheckArguments) -> Result<(), CommandError> {
    let mut problems = Problems::default();
    let found = Files::read(arguments, &mut problems)?;
    let settings = arguments.settings();
    let cleaners = found.cleaners(&arguments.namespace, &settings, &mut problems)?;
    problems.finish(arguments.strict, CommandError::Invalid)?;
    let at = arguments.at.unwrap_or_else(Timestamp::now);
    let lines = block_on(rehearse(&found, &cleaners, arguments, (&settings, at)))?;
    print(&lines, arguments.output)?;
    let mut problems = Problems::default();
    lines.iter().for_each(|line| judge(line, &mut problems));
    problems.finish(arguments.strict, CommandError::CheckFailed)
}

async fn rehearse<'a>(
    found: &Files,
    cleaners: &'a [Checked<'a>],
    arguments: &CleanerCheckArguments,
    (settings, at): (&CleanerSettings, Timestamp),
) -> Result<Vec<Line<'a>>, CommandError> {
    let objects = found.objects(&arguments.namespace);
    let client = match arguments.against {
        Some(Against::Cluster) => Some(lists::connect().await?),
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
            let text = without_index(index, message);
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

// The Cleaners of some files, and the objects that are their world.

/// The objects of some files.
struct Files {
    cleaners: Vec<Document>,
    others: Vec<Document>,
}

/// A Cleaner without mistakes.
struct Checked<'a> {
    document: &'a Document,
    namespace: &'a str,
    spec: CleanerSpec,
    /// When it was created, if its file says so.
    created: Option<Timestamp>,
}

impl Files {
    /// Reads all files.
    fn read(
        arguments: &CleanerCheckArguments,
        problems: &mut Problems,
    ) -> Result<Self, CommandError> {
        let depth = Depth::of(arguments.recursive);
        let found = manifest::find(&arguments.files, &[], depth)?;
        let is_readable = found.errors.is_empty();
        problems.errors.extend(found.errors);
        let (cleaners, others): (Vec<Document>, Vec<Document>) =
            found.documents.into_iter().partition(manifest::is_cleaner);
        // A check that looks at nothing must not succeed.
        if cleaners.is_empty() && is_readable {
            problems.errors.push(Diagnostic::new(format!(
                "no Cleaner in {}: their apiVersion is cleaner.vtex.dev/v1alpha",
                arguments.files.join(", ")
            )));
        }
        Ok(Self { cleaners, others })
    }

    /// Checks the Cleaners: against their schema, as the operator does, and their conditions.
    fn cleaners<'a>(
        &'a self,
        default: &'a str,
        settings: &CleanerSettings,
        problems: &mut Problems,
    ) -> Result<Vec<Checked<'a>>, CommandError> {
        let schema = manifest::check(&self.cleaners, Unknown::LeftOut)?;
        problems.errors.extend(schema.errors);
        problems.warnings.extend(schema.warnings);
        let twice = render::duplicates(&self.cleaners, default);
        problems.errors.extend(twice);
        let mut checked = Vec::new();
        for (index, document) in self.cleaners.iter().enumerate() {
            let object: CleanerObject = match typed(document) {
                Ok(object) => object,
                Err(_) if schema.refused.contains(&index) => continue,
                Err(error) => {
                    problems.errors.push(error);
                    continue;
                }
            };
            let created = object.metadata.creation_timestamp;
            let cleaner = Checked {
                document,
                namespace: document.namespace(default),
                spec: object.spec,
                created: created.map(|time| time.0),
            };
            let findings = offline::check(&cleaner.spec, cleaner.namespace, settings);
            // Where the schema refuses a field too, the finding says better what to write.
            problems.add(document, &findings, |earlier, error| *earlier = error);
            checked.push(cleaner);
        }
        Ok(checked)
    }

    /// The objects that are no Cleaners, each with the namespace that the API server would put it into.
    fn objects(&self, default: &str) -> Vec<Value> {
        let objects = self.others.iter().map(|document| {
            let mut object = document.value.clone();
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert("namespace".to_owned(), document.namespace(default).into());
            }
            object
        });
        objects.collect()
    }
}

// Prints what Cleaners would do.

/// How much of a condition is shown, in characters.
const CONDITION_CHARACTERS: usize = 120;
/// How many names of a target's objects are shown.
const NAMES: usize = 10;

/// A Cleaner, and what it would do.
struct Line<'a> {
    cleaner: &'a Checked<'a>,
    rehearsal: Rehearsal,
    live: Live,
    at: Timestamp,
}

/// Prints the report on standard output.
fn print(lines: &[Line<'_>], format: ReportFormat) -> Result<(), CommandError> {
    let text = match format {
        ReportFormat::Text => {
            let texts: Vec<String> = lines.iter().map(Line::text).collect();
            texts.join("\n")
        }
        ReportFormat::Json => {
            let cleaners: Value = lines.iter().map(Line::json).collect();
            output::json_text(&json!({ "cleaners": cleaners }))?
        }
    };
    output::print(&text)
}

/// Returns a message about a condition without its index, which stands beside it.
fn without_index(index: usize, message: &str) -> &str {
    let prefix = format!("conditions[{index}]: ");
    message.strip_prefix(&prefix).unwrap_or(message)
}

impl Line<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |indent: usize, line: &str| {
            let _infallible = writeln!(text, "{:indent$}{}", "", line);
        };
        let title = format!(
            "Cleaner {}/{} at {}",
            self.cleaner.namespace,
            self.cleaner.document.name(),
            self.at
        );
        line(0, &paint(TITLE, &shown(&title)));
        let Rehearsal {
            reason, message, ..
        } = &self.rehearsal;
        line(2, &format!("{reason}: {}", shown(message)));
        if self.live.is_deleted {
            line(
                2,
                "it is being deleted already: its status says how far that is",
            );
        }
        if let Some(next) = self.rehearsal.next {
            line(2, &format!("next look: {}", said(next)));
        }
        for (heading, lines) in self.sections() {
            line(2, &heading);
            for it in lines {
                line(4, &it);
            }
        }
        text
    }

    /// The headings, and the lines below each.
    fn sections(&self) -> Vec<(String, Vec<String>)> {
        let mut sections = Vec::new();
        let conditions = &self.cleaner.spec.conditions;
        if conditions.is_empty() {
            sections.push(("no conditions: only its time counts".to_owned(), Vec::new()));
        }
        let results = &self.rehearsal.conditions;
        if !results.is_empty() {
            let lines = results.iter().flat_map(|it| verdict(it, conditions));
            sections.push(("conditions".to_owned(), lines.collect()));
        }
        let targets = &self.rehearsal.targets;
        if !targets.is_empty() {
            let lines = targets.iter().map(seen).collect();
            sections.push(("targets that conditions see".to_owned(), lines));
        }
        let heading = match self.rehearsal.is_due {
            true => "it would delete now, in this order",
            false => "it would delete, if all conditions were true now",
        };
        sections.push((heading.to_owned(), self.deletions()));
        sections
    }

    fn deletions(&self) -> Vec<String> {
        let mut lines = match &self.rehearsal.deleted {
            Ok(objects) => objects.iter().map(doomed).collect(),
            Err(problem) => vec![format!("it is not known what: {}", shown(problem))],
        };
        if let Some(release) = self.release() {
            lines.push(shown(&format!("the Helm release {release}")));
        }
        lines.push("this Cleaner".to_owned());
        if let Some(sink) = &self.cleaner.spec.cloud_event_sink {
            lines.push(format!("and it would send a CloudEvent to {}", shown(sink)));
        }
        lines
    }

    fn release(&self) -> Option<&str> {
        let helm = self.cleaner.spec.helm.as_ref();
        helm.filter(|it| it.delete).map(|it| it.release.as_str())
    }

    fn json(&self) -> Value {
        let at = self.cleaner.document.position(&[]);
        let Rehearsal {
            reason,
            message,
            is_due,
            next,
            targets,
            conditions,
            deleted,
        } = &self.rehearsal;
        let written = &self.cleaner.spec.conditions;
        let conditions = conditions.iter().map(|it| {
            let index = usize::try_from(it.index).unwrap_or_default();
            let message = it.message.as_deref();
            json!({
                "index": index,
                "condition": written.get(index),
                "result": it.result.as_str(),
                "message": message.map(|message| without_index(index, message)),
            })
        });
        let targets = targets.iter();
        let targets =
            targets.map(|it| json!({ "name": it.name, "kind": it.kind, "objects": it.objects }));
        json!({
            "file": &*at.file,
            "document": at.document,
            "line": at.line,
            "namespace": self.cleaner.namespace,
            "name": self.cleaner.document.name(),
            "time": self.at.to_string(),
            "reason": reason,
            "message": message,
            "due": is_due,
            "next": next.map(|it| json!({ "time": it.at.to_string(), "cause": cause(it.cause) })),
            "conditions": conditions.collect::<Value>(),
            "targets": targets.collect::<Value>(),
            "deletes": deleted.as_ref().ok().map(|it| it.iter().map(planned).collect::<Value>()),
            "problem": deleted.as_ref().err(),
            "helmRelease": self.release(),
            "cloudEventSink": self.cleaner.spec.cloud_event_sink,
        })
    }
}

fn planned(object: &PlannedObject) -> Value {
    json!({
        "target": object.target,
        "group": object.group,
        "version": object.version,
        "kind": object.kind,
        "namespace": object.namespace,
        "name": object.name,
    })
}

/// A condition and its value. What is wrong stands below.
fn verdict(result: &ConditionResult, conditions: &[String]) -> Vec<String> {
    let index = usize::try_from(result.index).unwrap_or_default();
    let style: Style = match result.result {
        ConditionVerdict::True => ADDED,
        ConditionVerdict::False => CHANGED,
        ConditionVerdict::Error => REMOVED,
    };
    let value = paint(style, &format!("{:5}", result.result.as_str()));
    let condition = conditions.get(index).map(|it| shortened(it));
    let mut lines = vec![format!(
        "[{index}] {value}  {}",
        condition.unwrap_or_default()
    )];
    if let Some(message) = &result.message {
        let message = shown(without_index(index, message));
        lines.push(format!("           {message}"));
    }
    lines
}

/// A condition in one line.
fn shortened(condition: &str) -> String {
    let words: Vec<&str> = condition.split_whitespace().collect();
    cut(&shown(&words.join(" ")), CONDITION_CHARACTERS, "...").into_owned()
}

fn seen(target: &TargetLine) -> String {
    let names = match target.objects.is_empty() {
        true => "none".to_owned(),
        false => joined(&target.objects, NAMES, ", ", |name| shown(name)),
    };
    format!("{}: {} {names}", target.name, shown(&target.kind))
}

fn doomed(object: &PlannedObject) -> String {
    let line = format!("{} {}", object.kind, object.name);
    format!(
        "{} {}",
        shown(&line),
        paint(QUIET, &format!("(target {})", object.target))
    )
}

fn said(next: Next) -> String {
    let why = match next.cause {
        Cause::Expiry => "it is old enough then",
        Cause::Time => "time alone makes all conditions true then",
        Cause::Period => {
            "the period of its retry, up to a tenth later; a target that changes is looked at before"
        }
    };
    format!("{}: {why}", next.at)
}

const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Expiry => "Expiry",
        Cause::Time => "Time",
        Cause::Period => "Period",
    }
}
