//! Prints what Cleaners would do.

use std::fmt::Write;

use anstyle::Style;
use jiff::Timestamp;
use podloom_api::{ConditionResult, ConditionVerdict, PlannedObject};
use podloom_controllers::cleaner::offline::{Cause, Live, Next, Rehearsal, TargetLine};
use podloom_syntax::text::{cut, joined};
use serde_json::{Value, json};

use super::files::Checked;
use crate::cli::ReportFormat;
use crate::error::{CommandError, shown};
use crate::output::{self, ADDED, CHANGED, QUIET, REMOVED, TITLE, paint};

/// How much of a condition is shown, in characters.
const CONDITION_CHARACTERS: usize = 120;
/// How many names of a target's objects are shown.
const NAMES: usize = 10;

/// A Cleaner, and what it would do.
pub(super) struct Line<'a> {
    pub(super) cleaner: &'a Checked<'a>,
    pub(super) rehearsal: Rehearsal,
    pub(super) live: Live,
    pub(super) at: Timestamp,
}

/// Prints the report on standard output.
pub(super) fn print(lines: &[Line<'_>], format: ReportFormat) -> Result<(), CommandError> {
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
pub(super) fn without_index(index: usize, message: &str) -> &str {
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
