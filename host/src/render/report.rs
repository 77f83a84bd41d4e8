//! `--explain -o json`: what each plugin did, and all warnings and errors, for programs; and `--diff`, for people.

use podloom_mutation::{PluginOutcome, PluginRun, Write};
use serde_json::{Value, json};
use similar::TextDiff;

use super::{Problems, Rendered, Settled};
use crate::error::{Diagnostic, cut, escape_controls, shown};
use crate::manifest::Document;
use crate::output::{self, ADDED, QUIET, REMOVED, TITLE, object, paint};

/// The report.
pub(super) fn of(outcomes: &[Settled<'_>], problems: &Problems, namespace: &str) -> Value {
    let mut objects = Vec::new();
    for Settled {
        document, passes, ..
    } in outcomes
    {
        let at = document.position(&[]);
        for pass in passes {
            let runs = pass.runs.iter();
            objects.push(object([
                ("file", Some(json!(&*at.file))),
                ("document", Some(json!(at.document))),
                ("line", Some(json!(at.line))),
                ("kind", Some(json!(document.kind))),
                ("namespace", Some(json!(document.namespace(namespace)))),
                ("name", Some(json!(document.name()))),
                ("template", pass.template.as_ref().map(|path| json!(path))),
                ("plugins", Some(runs.map(plugin).collect())),
            ]));
        }
    }
    json!({
        "objects": objects,
        "warnings": problems.warnings.iter().map(diagnostic).collect::<Value>(),
        "errors": problems.errors.iter().map(diagnostic).collect::<Value>(),
    })
}

fn plugin(run: &PluginRun) -> Value {
    let (outcome, message) = match &run.outcome {
        PluginOutcome::Mutated => ("Mutated", None),
        PluginOutcome::Unchanged => ("Unchanged", None),
        PluginOutcome::Skipped(field) => (
            "Skipped",
            Some(format!("match.{} excludes this pod", field.as_str())),
        ),
        PluginOutcome::Excepted { by, denial, .. } => (
            "Excepted",
            Some(match denial {
                Some(reason) => format!("ChainException {by}: {reason}"),
                None => format!("ChainException {by}"),
            }),
        ),
        PluginOutcome::Ignored(failure) => ("Ignored", Some(failure.to_string())),
        PluginOutcome::Denied(reason) => ("Denied", Some(reason.clone())),
        PluginOutcome::Failed(failure) => ("Failed", Some(failure.to_string())),
    };
    object([
        ("name", Some(json!(run.plugin))),
        ("version", Some(json!(run.version))),
        ("outcome", Some(json!(outcome))),
        ("message", message.map(Value::from)),
        ("writes", Some(run.writes.iter().map(write).collect())),
        ("deniedWrites", Some(json!(run.refused_writes))),
        ("deniedReads", Some(json!(run.refused_reads))),
        (
            "notes",
            Some(run.notes.iter().map(|note| json!(note.text)).collect()),
        ),
    ])
}

/// A write. `old` is missing if the path was absent, `new` if it was removed, and both if values may not be shown.
fn write(write: &Write) -> Value {
    let new = write.new.as_deref();
    object([
        ("path", Some(json!(write.path))),
        ("old", write.old.clone()),
        (
            "new",
            // The host accepts only JSON, so this does not fail.
            new.map(|new| serde_json::from_str(new).unwrap_or_else(|_| Value::from(new))),
        ),
    ])
}

fn diagnostic(diagnostic: &Diagnostic) -> Value {
    let at = diagnostic.position.as_ref();
    let known = at.filter(|at| at.line > 0);
    object([
        ("file", at.map(|at| json!(&*at.file))),
        ("document", at.map(|at| json!(at.document))),
        ("line", known.map(|at| json!(at.line))),
        ("column", known.map(|at| json!(at.column))),
        (
            "object",
            diagnostic.object.as_ref().map(|object| json!(cut(object))),
        ),
        (
            "field",
            diagnostic.field.as_ref().map(|field| json!(cut(field))),
        ),
        ("message", Some(json!(cut(&diagnostic.message)))),
    ])
}

// Unified diffs, such as those of `--diff`: what the chain changed in an object.

/// The diff of an object; empty if nothing was changed.
pub(super) fn diff(document: &Document, rendered: &Rendered) -> anyhow::Result<String> {
    let Some(before) = &rendered.before else {
        return Ok(String::new());
    };
    let (before, after) = (output::yaml(before)?, output::yaml(&rendered.value)?);
    let at = document.position(&[]);
    let title = format!("{}:{} {}", at.file, at.line, document.title());
    let title = shown(&title);
    Ok(unified(
        &before,
        &after,
        &title,
        &format!("{title}, after the chain"),
    ))
}

/// A unified diff of two texts with their titles, in colour.
pub(crate) fn unified(before: &str, after: &str, title: &str, title_after: &str) -> String {
    let diff = TextDiff::from_lines(before, after)
        .unified_diff()
        .header(title, title_after)
        .to_string();
    let mut text = String::new();
    for line in diff.lines() {
        let style = match line.get(..1) {
            _ if line.starts_with("--- ") || line.starts_with("+++ ") => TITLE,
            Some("+") => ADDED,
            Some("-") => REMOVED,
            Some("@") => QUIET,
            _ => anstyle::Style::new(),
        };
        text.push_str(&paint(style, &escape_controls(line)));
        text.push('\n');
    }
    text
}
