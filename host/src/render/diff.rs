//! Unified diffs, such as those of `--diff`: what the chain changed in an object.

use similar::TextDiff;

use super::outcome::Rendered;
use crate::error::{escape_controls, shown};
use crate::manifest::Document;
use crate::output::{self, ADDED, QUIET, REMOVED, TITLE, paint};

/// The diff of an object; empty if nothing was changed.
pub(super) fn of(document: &Document, rendered: &Rendered) -> anyhow::Result<String> {
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
