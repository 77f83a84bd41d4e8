//! The report for people.

use std::fmt::Write;

use podloom_pod_path::ChangeKind;
use serde_json::Value;

use super::{
    Group, Line, Rank, Report, heading, many, plugins, remarks, rest, same, sign, unnamed,
};
use crate::error::{escape_controls, shown};
use crate::output::{ADDED, CHANGED, QUIET, REMOVED, TITLE, WARNING, paint, yaml};

pub(super) fn of(report: &Report<'_>) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut line = |indent: usize, line: &str| {
        let _infallible = writeln!(text, "{:indent$}{line}", "");
    };
    for group in report.groups.sorted() {
        line(0, &title(group));
        if !group.names.is_empty() {
            line(2, &paint(QUIET, &names(group)));
        }
        for reason in &group.reasons {
            line(2, &shown(reason));
        }
        if group.has_more_reasons {
            line(2, &paint(QUIET, "and other reasons"));
        }
        for change in &group.lines {
            for shown in change_lines(change)? {
                line(2, &shown);
            }
        }
        if group.more_lines > 0 {
            line(2, &format!("and {} more changes", group.more_lines));
        }
    }
    if let Some(rest) = rest(report.groups) {
        line(0, &paint(WARNING, &rest));
    }
    line(0, &same(report.groups));
    for skipped in report.skipped {
        let label = paint(WARNING, "skipped:");
        let said = format!("{}: {}", skipped.what, skipped.why);
        line(0, &format!("{label} {}", shown(&said)));
    }
    Ok(text)
}

fn title(group: &Group) -> String {
    let style = match group.rank {
        Rank::DeniedNow | Rank::FailsNow => REMOVED.bold(),
        Rank::IgnoredNow | Rank::RejectedOtherwise => WARNING,
        Rank::AllowedNow | Rank::FailsNoMore => ADDED.bold(),
        Rank::Changed | Rank::WarnedOtherwise => TITLE,
    };
    let mut title = format!("{}: {}", heading(group.rank), many(&group.tally));
    if !group.plugins.is_empty() {
        let _infallible = write!(title, " ({})", plugins(&group.plugins));
    }
    paint(style, &shown(&title))
}

fn names(group: &Group) -> String {
    let more = match unnamed(group) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    shown(&format!("{}{more}", group.names.join(", ")))
}

fn change_lines(change: &Line) -> anyhow::Result<Vec<String>> {
    let style = match change.kind {
        ChangeKind::Added => ADDED,
        ChangeKind::Removed => REMOVED,
        ChangeKind::Changed | ChangeKind::Reordered => CHANGED,
    };
    let (sign, remarks) = (sign(change.kind), remarks(change));
    let mut lines = Vec::new();
    for path in change.paths() {
        let path = shown(&format!("{sign} {path}"));
        lines.push(format!(
            "{}{}",
            paint(style, &path),
            paint(QUIET, &shown(&remarks))
        ));
    }
    if let Some((old, new)) = &change.kept {
        for (sign, style, value) in [('-', REMOVED, old), ('+', ADDED, new)] {
            for row in rows(value)? {
                lines.push(format!("    {}", paint(style, &format!("{sign} {row}"))));
            }
        }
    }
    Ok(lines)
}

/// The lines of a value.
fn rows(value: &Option<Value>) -> anyhow::Result<Vec<String>> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let text = yaml(value)?;
    Ok(text.trim_end().lines().map(escape_controls).collect())
}
