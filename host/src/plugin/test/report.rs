//! The output of `podloom plugin test`.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use podloom_mutators::{Chain, Plugin};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::trial::{CALLS, Trial, covers};
use super::{TrialOutcome, Tried};
use crate::chain::size;
use crate::ci::GOLDEN;
use crate::error::{CommandError, Diagnostic, Position, escape_controls, shown};
use crate::explain::{count, table};
use crate::output::{ADDED, ERROR, QUIET, REMOVED, TITLE, WARNING, paint, yaml};
use crate::{explain, stamp};

/// The details of every pod of a file.
pub(super) fn file(chain: &Chain, tried: &Tried) -> String {
    let mut text = String::new();
    for (title, outcome) in &tried.pods {
        match outcome {
            TrialOutcome::Ran(trial) => {
                let _infallible = writeln!(text, "{}", paint(TITLE, title));
                for plugin in chain.plugins() {
                    text.push_str(&about(plugin, trial));
                }
            }
            TrialOutcome::Denied(reason) => {
                let denied = paint(WARNING, &format!("denied: {reason}"));
                let _infallible = writeln!(text, "{}\n  {denied}", paint(TITLE, title));
            }
            TrialOutcome::Failed => {}
        }
    }
    if let Some((path, golden)) = &tried.golden {
        let _infallible = writeln!(text, "{path}: {}", verdict(golden));
        text.push_str(lines(golden));
    }
    text
}

/// One line about a case, and the lines that differ.
pub(super) fn case(name: &str, width: usize, tried: &Tried) -> String {
    let outcome = if tried.errors.is_empty() {
        "ok  ".to_owned()
    } else {
        paint(ERROR, "FAIL")
    };
    let name = format!("{name:width$}");
    let mut text = format!("{outcome} {}", paint(TITLE, &name));
    let mut separator = "  ";
    for (_, outcome) in &tried.pods {
        let did = match outcome {
            TrialOutcome::Ran(trial) => format!(
                "{}, {} us, {}",
                count(trial.run.writes.len(), "write"),
                trial.median.as_micros(),
                size(trial.run.memory)
            ),
            TrialOutcome::Denied(_) => "denied".to_owned(),
            TrialOutcome::Failed => "rejected".to_owned(),
        };
        let _infallible = write!(text, "{separator}{did}");
        separator = "; ";
    }
    if let Some((_, golden)) = &tried.golden {
        let _infallible = write!(text, "  {}", paint(QUIET, verdict(golden)));
    }
    text.push('\n');
    if let Some((_, golden)) = &tried.golden {
        text.push_str(lines(golden));
    }
    text
}

fn verdict(golden: &Golden) -> &'static str {
    match golden {
        Golden::Same => "matches the golden file",
        Golden::Written => "golden file written",
        Golden::Missing => "no golden file",
        Golden::Differs(_) => "differs from the golden file (- golden, + result)",
    }
}

fn lines(golden: &Golden) -> &str {
    match golden {
        Golden::Differs(lines) => lines,
        _ => "",
    }
}

/// What the plugin did with one pod, and whether it is deterministic and idempotent.
fn about(plugin: &Plugin, trial: &Trial) -> String {
    let mut text = explain::plugin(&trial.run);
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(text, "    {name:<14} {value}");
    };
    let yes_or_no = |holds: bool| match holds {
        true => "yes".to_owned(),
        false => paint(ERROR, "no"),
    };
    row("deterministic", &yes_or_no(trial.is_deterministic));
    let is_idempotent = match (plugin.idempotent, trial.is_idempotent()) {
        (true, holds) => yes_or_no(holds),
        (false, true) => "yes, on this pod; not required".to_owned(),
        (false, false) => "no; not required".to_owned(),
    };
    row("idempotent", &is_idempotent);
    let median = trial.median.as_micros();
    row("time per call", &format!("{median} us (median of {CALLS})"));
    let (used, limit) = (size(trial.run.memory), size(plugin.limits.memory));
    row(
        "memory",
        &format!("{used} at the end of a call, of {limit}"),
    );
    row(
        "may write",
        &rights(plugin, trial).join(&format!("\n    {:<14} ", "")),
    );
    text
}

/// A table of paths: what the plugin asks for, what is granted, and how many writes used it.
fn rights(plugin: &Plugin, trial: &Trial) -> Vec<String> {
    let asked = &plugin.description.writes;
    let granting = |path: &str| plugin.allow.iter().find(|grant| covers(grant, path));
    let used = |path: &str| {
        let covering = trial.covering.iter();
        covering
            .filter(|covering| covering.iter().any(|covered| covered == path))
            .count()
    };
    let mut rows: Vec<[String; 3]> = asked
        .iter()
        .map(|path| {
            let grant = granting(path).cloned().unwrap_or_default();
            [path.clone(), grant, used(path).to_string()]
        })
        .collect();
    for grant in &plugin.allow {
        if !asked.iter().any(|path| covers(grant, path)) {
            let unused = format!("{}, not asked for", used(grant));
            rows.push(["-".to_owned(), grant.clone(), unused]);
        }
    }
    if rows.is_empty() {
        return vec!["nothing".to_owned()];
    }
    let heads = ["asked", "granted", "written"].map(str::to_owned);
    rows.insert(0, heads);
    table(&rows)
}

// Golden files: the expected results.

/// The result of a comparison with a golden file.
pub(super) enum Golden {
    /// It equals the result.
    Same,
    /// It was written.
    Written,
    /// It does not exist.
    Missing,
    /// It differs in these lines.
    Differs(String),
}

impl Golden {
    /// The error, with the remedy.
    pub(super) fn diagnostic(&self, path: &str) -> Option<Diagnostic> {
        let message = match self {
            Self::Same | Self::Written => return None,
            Self::Missing => "no such file; create it from the result with --update",
            Self::Differs(_) => {
                "differs from the result; if the result is right, write it with --update"
            }
        };
        Some(Diagnostic::at(Position::of_line(path, 0), message).of(&GOLDEN))
    }
}

/// Compares the result with a golden file, or writes it there.
pub(super) fn compare(path: &Path, found: &str, update: bool) -> Result<Golden, CommandError> {
    let shown = || path.display().to_string();
    let expected = match fs::read_to_string(path) {
        Ok(expected) => Some(expected),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Err(error).with_context(shown)?,
    };
    Ok(match expected {
        Some(expected) if expected == found => Golden::Same,
        _ if update => {
            fs::write(path, found).with_context(shown)?;
            Golden::Written
        }
        Some(expected) => Golden::Differs(differences(&expected, found)),
        None => Golden::Missing,
    })
}

/// The lines in which two texts differ, with some context.
fn differences(expected: &str, found: &str) -> String {
    let mut text = String::new();
    let diff = TextDiff::from_lines(expected, found);
    for (number, group) in diff.grouped_ops(3).iter().enumerate() {
        if number > 0 {
            text.push_str("    ...\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let row = escape_controls(change.value().trim_end_matches('\n'));
            let row = match change.tag() {
                ChangeTag::Insert => paint(ADDED, &format!("+ {row}")),
                ChangeTag::Delete => paint(REMOVED, &format!("- {row}")),
                ChangeTag::Equal => format!("  {row}"),
            };
            let _infallible = writeln!(text, "    {row}");
        }
    }
    text
}

/// A pod as in a golden file: without the annotations that the host adds, since they change with every build of the plugin.
pub(super) fn text_of(pod: &Value, before: &Value) -> anyhow::Result<String> {
    const ANNOTATIONS: &str = "/metadata/annotations";
    let mut pod = stamp::without(pod);
    if let Some(Value::Object(annotations)) = pod.pointer(ANNOTATIONS) {
        let is_ours = annotations.is_empty() && before.pointer(ANNOTATIONS).is_none();
        if let Some(Value::Object(metadata)) = pod.get_mut("metadata").filter(|_| is_ours) {
            metadata.remove("annotations");
        }
    }
    yaml(&pod)
}

/// The text of a golden file for a denied pod.
pub(super) fn text_of_denial(reason: &str) -> String {
    format!("# denied: {}\n", shown(reason))
}
