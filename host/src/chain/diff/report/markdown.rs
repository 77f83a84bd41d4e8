//! The report for a pull request.

use std::fmt::Write;

use super::{Group, Line, Report, heading, many, plugins, remarks, rest, same, sign, unnamed};
use crate::error::cut;
use crate::output::yaml;

pub(super) fn of(report: &Report<'_>) -> anyhow::Result<String> {
    let groups = report.groups;
    let mut text = String::from("### What the new chain changes\n\n");
    for group in groups.sorted() {
        text.push_str(&of_group(group)?);
    }
    if let Some(rest) = rest(groups) {
        let _infallible = writeln!(text, "**{rest}**\n");
    }
    let _infallible = writeln!(text, "{}", capitalized(&same(groups)));
    if !report.skipped.is_empty() {
        text.push_str("\nSkipped:\n\n");
        for skipped in report.skipped {
            let _infallible = writeln!(text, "- {}: {}", plain(&skipped.what), plain(&skipped.why));
        }
    }
    Ok(text)
}

fn of_group(group: &Group) -> anyhow::Result<String> {
    let mut text = format!(
        "**{}: {}**",
        capitalized(heading(group.rank)),
        many(&group.tally)
    );
    if !group.plugins.is_empty() {
        let _infallible = write!(text, " ({})", plain(&plugins(&group.plugins)));
    }
    text.push_str("\n\n");
    if !group.names.is_empty() {
        let names: Vec<String> = group.names.iter().map(|name| code(name)).collect();
        let more = match unnamed(group) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let _infallible = writeln!(text, "{}{more}\n", names.join(", "));
    }
    for reason in &group.reasons {
        let _infallible = writeln!(text, "> {}\n", plain(reason));
    }
    if group.has_more_reasons {
        text.push_str("> and other reasons\n\n");
    }
    for line in &group.lines {
        text.push_str(&change(line)?);
    }
    if group.more_lines > 0 {
        let _infallible = writeln!(text, "- and {} more changes", group.more_lines);
    }
    if !group.lines.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

fn change(line: &Line) -> anyhow::Result<String> {
    let mut text = String::new();
    for path in line.paths() {
        let path = code(&format!("{} {path}", sign(line.kind)));
        let _infallible = writeln!(text, "- {path}{}", plain(&remarks(line)));
    }
    let Some((old, new)) = &line.kept else {
        return Ok(text);
    };
    text.push_str("\n  ~~~~diff\n");
    for (sign, value) in [('-', old), ('+', new)] {
        let Some(value) = value else { continue };
        for row in yaml(value)?.trim_end().lines() {
            let _infallible = writeln!(text, "  {sign} {row}");
        }
    }
    text.push_str("  ~~~~\n\n");
    Ok(text)
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase());
    first.into_iter().flatten().chain(letters).collect()
}

/// A text in which nothing means anything to Markdown, in one line.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in cut(text).chars() {
        match letter {
            letter if letter.is_control() => plain.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '!' | '@' => {
                plain.push('\\');
                plain.push(letter);
            }
            letter => plain.push(letter),
        }
    }
    plain
}

/// A text as code, in one line.
fn code(text: &str) -> String {
    let text: String = cut(text)
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    // A fence must be longer than any row of back ticks in it.
    let longest = text.split(|letter| letter != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or_default() + 1);
    match text.contains('`') {
        true => format!("{fence} {text} {fence}"),
        false => format!("{fence}{text}{fence}"),
    }
}
