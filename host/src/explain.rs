//! Shows what each plugin did to a pod: the output of `--explain`.

use std::fmt::Write as _;

use podloom_mutation::Severity;
use podloom_mutation::{PluginOutcome, PluginRun, Write};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::error::shown;
use crate::output::{ADDED, CHANGED, QUIET, REMOVED, TITLE, WARNING, paint, yaml};

/// The diff of one object: a heading, and below it what each plugin wrote and noted.
pub(crate) fn object(title: &str, runs: &[PluginRun]) -> String {
    let mut text = format!("{}\n", paint(TITLE, title));
    if runs.is_empty() {
        line(&mut text, 1, &paint(QUIET, "the chain has no plugins"));
    }
    for run in runs {
        text.push_str(&plugin(run));
    }
    text
}

/// What one plugin did.
pub(crate) fn plugin(run: &PluginRun) -> String {
    let mut text = String::new();
    let name = format!("{} {}", run.plugin, run.version);
    let did = match &run.outcome {
        PluginOutcome::Mutated => count(run.writes.len(), "write"),
        PluginOutcome::Unchanged => paint(QUIET, "wrote nothing"),
        PluginOutcome::Skipped(dimension) => paint(
            QUIET,
            &format!("skipped: match.{} excludes this pod", dimension.as_str()),
        ),
        PluginOutcome::Excepted {
            by,
            until,
            denial: None,
        } => paint(
            QUIET,
            &format!("skipped: ChainException {by}, until {until}"),
        ),
        PluginOutcome::Excepted { by, until, .. } => paint(
            WARNING,
            &format!("would deny the pod, but for ChainException {by}, until {until}"),
        ),
        PluginOutcome::Ignored(failure) => paint(
            WARNING,
            &format!("failed, and failurePolicy Ignore kept the pod unchanged: {failure}"),
        ),
        PluginOutcome::Denied(_) => paint(WARNING, "denied the pod"),
        PluginOutcome::Failed(_) => paint(WARNING, "failed"),
    };
    line(&mut text, 1, &format!("{name}: {did}"));
    for write in &run.writes {
        text.push_str(&change(write));
    }
    if run.refused_writes > 0 {
        let denied = format!("{} denied", count(run.refused_writes, "write"));
        line(&mut text, 2, &paint(WARNING, &denied));
    }
    if run.refused_reads > 0 {
        let denied = format!("{} denied", count(run.refused_reads, "read"));
        line(&mut text, 2, &paint(WARNING, &denied));
    }
    for note in &run.notes {
        let word = match note.severity {
            Severity::Warning => paint(WARNING, "warning:"),
            Severity::Normal => paint(QUIET, "note:"),
        };
        line(&mut text, 2, &format!("{word} {}", note.text));
    }
    text
}

/// One write, as an added, removed or changed value.
fn change(write: &Write) -> String {
    let new = write.new.as_deref();
    let new = new
        // The host accepts only JSON, so this does not fail.
        .map(|new| serde_json::from_str(new).unwrap_or_else(|_| Value::String(new.to_owned())));
    let path = &shown(&write.path);
    let mut text = String::new();
    match (&write.old, &new) {
        (None, Some(new)) => one_sided(&mut text, '+', path, new),
        (Some(old), None) => one_sided(&mut text, '-', path, old),
        (Some(old), Some(new)) if is_scalar(old) && is_scalar(new) => {
            let change = format!("~ {path}: {} -> {}", scalar(old), scalar(new));
            line(&mut text, 2, &paint(CHANGED, &change));
        }
        (Some(old), Some(new)) => {
            line(&mut text, 2, &paint(CHANGED, &format!("~ {path}")));
            lines_between(&mut text, old, new);
        }
        (None, None) => line(&mut text, 2, &paint(CHANGED, &format!("~ {path}"))),
    }
    text
}

fn one_sided(text: &mut String, sign: char, path: &str, value: &Value) {
    let style = if sign == '+' { ADDED } else { REMOVED };
    if is_scalar(value) {
        let change = format!("{sign} {path}: {}", scalar(value));
        return line(text, 2, &paint(style, &change));
    }
    line(text, 2, &paint(style, &format!("{sign} {path}")));
    for row in yaml(value).unwrap_or_default().lines() {
        line(text, 4, &paint(style, row));
    }
}

/// The lines in which two values differ, with one line of context.
fn lines_between(text: &mut String, old: &Value, new: &Value) {
    let (old, new) = (yaml(old).unwrap_or_default(), yaml(new).unwrap_or_default());
    let diff = TextDiff::from_lines(old.as_str(), new.as_str());
    for group in diff.grouped_ops(1) {
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let row = change.value().trim_end_matches('\n');
            match change.tag() {
                ChangeTag::Insert => line(text, 3, &paint(ADDED, &format!("+ {row}"))),
                ChangeTag::Delete => line(text, 3, &paint(REMOVED, &format!("- {row}"))),
                ChangeTag::Equal => line(text, 3, &format!("  {row}")),
            }
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => !text.contains('\n'),
        _ => true,
    }
}

fn scalar(value: &Value) -> String {
    yaml(value).unwrap_or_default().trim_end().to_owned()
}

/// A number and its noun, in the plural where needed.
pub(crate) fn count(number: impl TryInto<usize>, noun: &str) -> String {
    match number.try_into().unwrap_or(usize::MAX) {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// What follows a list of the first names; empty if all are shown.
pub(crate) fn and_more(all: u64, shown: usize) -> String {
    match all.saturating_sub(shown.try_into().unwrap_or(u64::MAX)) {
        0 => String::new(),
        more => format!(", and {more} more"),
    }
}

/// Rows whose columns are aligned. The last one is not padded.
pub(crate) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A plugin, and what there is to say of it.
pub(crate) fn sheet(title: &str, summary: &str, rows: &[(&str, String)]) -> String {
    let mut text = format!("{}  {}\n", paint(TITLE, title), paint(QUIET, summary));
    for (name, value) in rows {
        let _infallible = writeln!(text, "   {name:<14} {value}");
    }
    text
}

fn line(text: &mut String, depth: usize, content: &str) {
    let indent = depth * 2;
    let _infallible = writeln!(text, "{:indent$}{content}", "");
}

#[cfg(test)]
mod tests;
