//! What `podloom chain diff` and `podloom admission diff` print.

use std::collections::HashMap;
use std::fmt::Write;

use podloom_pod_path::ChangeKind;
use serde_json::{Value, json};

use crate::ci::{self, Level, Report};
use crate::cli::DiffFormat;
use crate::compare::groups::{Group, Groups, Line, Tally, group};
use crate::compare::{Verdict, Whose, Writers};
use crate::error::{CommandError, Diagnostic, Position, Rule, cut, escape_controls, shown};
use crate::explain::count;
use crate::feed::Skipped;
use crate::output::{self, ADDED, CHANGED, QUIET, REMOVED, TITLE, WARNING, paint, yaml};

/// What the two commands say in words of their own.
pub(crate) struct Words {
    /// The title of the report in Markdown.
    pub(crate) title: &'static str,
    /// What stands before the name of what rejects a pod, and before several of them.
    pub(crate) rejects: [&'static str; 2],
}

impl Words {
    pub(crate) const OF_CHAINS: Self = Self {
        title: "What the new chain changes",
        rejects: ["plugin ", "plugins "],
    };
    /// What rejects a pod has a name that says what it is.
    pub(crate) const OF_ADMISSION: Self = Self {
        title: "What changes at admission",
        rejects: ["", ""],
    };

    /// `plugin a`, or `plugins a, b`
    fn names(&self, names: &[String]) -> String {
        let [one, several] = self.rejects;
        let before = if names.len() == 1 { one } else { several };
        format!("{before}{}", names.join(", "))
    }
}

/// Prints what is different on standard output, and what could not be read or is not compared.
pub(crate) fn print(
    groups: &Groups,
    skipped: &[Skipped],
    format: DiffFormat,
    words: &Words,
) -> Result<(), CommandError> {
    let text = match format {
        DiffFormat::Text | DiffFormat::Sarif | DiffFormat::Junit => {
            text_of(groups, skipped, words)?
        }
        DiffFormat::Json => output::json_text(&json!({
            "compared": groups.all,
            "same": groups.same,
            "groups": groups.sorted().into_iter().map(group).collect::<Value>(),
            "notListed": groups.rest,
            "skipped": skipped,
        }))?,
        DiffFormat::Markdown => markdown_of(groups, skipped, words)?,
    };
    ci::print(format.report(), &text)
}

/// `412 pods in 9 namespaces`
fn many(tally: &Tally) -> String {
    let namespaces = count(tally.namespaces(), "namespace");
    format!("{} in {namespaces}", count(tally.pods, "pod"))
}

/// The heading of a group.
fn heading(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::DeniedNow => "denied now",
        Verdict::FailsNow => "fails now, so it is rejected",
        Verdict::IgnoredNow => "a plugin fails now, and is ignored",
        Verdict::RejectedOtherwise => "still rejected, for another reason",
        Verdict::AllowedNow => "allowed now",
        Verdict::FailsNoMore => "fails no more, so it is allowed",
        Verdict::Changed => "changed",
        Verdict::WarnedOtherwise => "the same pod with other warnings",
    }
}

/// Who made a change; empty if no plugin did.
fn by(writers: &Writers) -> String {
    let plugins = |names| Words::OF_CHAINS.names(names);
    match (writers.plugins.as_slice(), writers.chain) {
        ([], _) => String::new(),
        (names, Whose::New) => plugins(names),
        (names, Whose::Old) => format!("no longer {}", plugins(names)),
    }
}

const fn sign(kind: ChangeKind) -> char {
    match kind {
        ChangeKind::Added => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Changed | ChangeKind::Reordered => '~',
    }
}

/// What there is to say of a change besides its path.
fn remarks(line: &Line) -> String {
    let mut remarks: Vec<String> = Vec::new();
    if line.kind == ChangeKind::Reordered {
        remarks.push("another order".to_owned());
    }
    let by = by(&line.writers);
    if !by.is_empty() {
        remarks.push(by);
    }
    match line.values() {
        Some(1) => {}
        Some(several) => remarks.push(format!("{several} different values")),
        None => remarks.push("more than 100 different values".to_owned()),
    }
    match remarks.is_empty() {
        true => String::new(),
        false => format!(" ({})", remarks.join("; ")),
    }
}

/// What is said at the end about the pods that are the same.
fn same(groups: &Groups) -> String {
    let (start, tally) = match (groups.is_empty(), groups.same.pods) {
        (false, 0) => return "every pod is affected".to_owned(),
        (true, _) => ("nothing changes", &groups.all),
        (false, 1) => ("nothing changes for the other", &groups.same),
        (false, _) => ("nothing changes for the others", &groups.same),
    };
    let verb = if tally.pods == 1 { "comes" } else { "come" };
    format!("{start}: {} {verb} out the same", many(tally))
}

/// What is said about the pods without a group.
fn rest(groups: &Groups) -> Option<String> {
    let rest = &groups.rest;
    (rest.pods > 0).then(|| format!("more differences, which are not listed: {}", many(rest)))
}

// The report for a pull request.

fn markdown_of(groups: &Groups, skipped: &[Skipped], words: &Words) -> anyhow::Result<String> {
    let mut text = format!("### {}\n\n", words.title);
    for group in groups.sorted() {
        text.push_str(&of_group(group, words)?);
    }
    if let Some(rest) = rest(groups) {
        let _infallible = writeln!(text, "**{rest}**\n");
    }
    let _infallible = writeln!(text, "{}", capitalized(&same(groups)));
    if !skipped.is_empty() {
        text.push_str("\nSkipped:\n\n");
        for skipped in skipped {
            let _infallible = writeln!(text, "- {}: {}", plain(&skipped.what), plain(&skipped.why));
        }
    }
    Ok(text)
}

fn of_group(group: &Group, words: &Words) -> anyhow::Result<String> {
    let mut text = format!(
        "**{}: {}**",
        capitalized(heading(group.verdict)),
        many(&group.tally)
    );
    if !group.plugins.is_empty() {
        let _infallible = write!(text, " ({})", plain(&words.names(&group.plugins)));
    }
    text.push_str("\n\n");
    if !group.names.is_empty() {
        let names: Vec<String> = group.names.iter().map(|name| code(name)).collect();
        let _infallible = writeln!(text, "{}{}\n", names.join(", "), group.more());
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

// The report for people.

pub(super) fn text_of(
    groups: &Groups,
    skipped: &[Skipped],
    words: &Words,
) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut line = |indent: usize, line: &str| {
        let _infallible = writeln!(text, "{:indent$}{line}", "");
    };
    for group in groups.sorted() {
        line(0, &title(group, words));
        if !group.names.is_empty() {
            let names = format!("{}{}", group.names.join(", "), group.more());
            line(2, &paint(QUIET, &shown(&names)));
        }
        for reason in &reasons(group) {
            line(2, reason);
        }
        for change in &group.lines {
            for shown in path_lines(change).into_iter().chain(value_lines(change)?) {
                line(2, &shown);
            }
        }
        if let Some(more) = more_lines(group) {
            line(2, &more);
        }
    }
    if let Some(rest) = rest(groups) {
        line(0, &paint(WARNING, &rest));
    }
    line(0, &same(groups));
    for skipped in skipped {
        line(0, &skipped.line());
    }
    Ok(text)
}

fn title(group: &Group, words: &Words) -> String {
    let style = match group.verdict {
        Verdict::DeniedNow | Verdict::FailsNow => REMOVED.bold(),
        Verdict::IgnoredNow | Verdict::RejectedOtherwise => WARNING,
        Verdict::AllowedNow | Verdict::FailsNoMore => ADDED.bold(),
        Verdict::Changed | Verdict::WarnedOtherwise => TITLE,
    };
    let mut title = format!("{}: {}", heading(group.verdict), many(&group.tally));
    if !group.plugins.is_empty() {
        let _infallible = write!(title, " ({})", words.names(&group.plugins));
    }
    paint(style, &shown(&title))
}

fn reasons(group: &Group) -> Vec<String> {
    let more = group
        .has_more_reasons
        .then(|| paint(QUIET, "and other reasons"));
    let reasons = group.reasons.iter().map(|reason| shown(reason));
    reasons.chain(more).collect()
}

fn more_lines(group: &Group) -> Option<String> {
    let more = group.more_lines;
    (more > 0).then(|| format!("and {more} more changes"))
}

fn path_lines(change: &Line) -> Vec<String> {
    let style = match change.kind {
        ChangeKind::Added => ADDED,
        ChangeKind::Removed => REMOVED,
        ChangeKind::Changed | ChangeKind::Reordered => CHANGED,
    };
    let (sign, remarks) = (sign(change.kind), remarks(change));
    let paths = change.paths().into_iter().map(|path| {
        let path = shown(&format!("{sign} {path}"));
        format!("{}{}", paint(style, &path), paint(QUIET, &shown(&remarks)))
    });
    paths.collect()
}

fn value_lines(change: &Line) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    if let Some((old, new)) = &change.kept {
        for (sign, style, value) in [('-', REMOVED, old), ('+', ADDED, new)] {
            let text = value.as_ref().map(yaml).transpose()?.unwrap_or_default();
            for row in text.trim_end().lines().map(escape_controls) {
                lines.push(format!("    {}", paint(style, &format!("{sign} {row}"))));
            }
        }
    }
    Ok(lines)
}

// The report for programs of CI. It has no values.

/// Adds the groups to what was found, each at the line of the plugin that made it. If a difference fails the command, it is an error.
pub(super) fn add(
    groups: &Groups,
    skipped: &[Skipped],
    plugins: &HashMap<String, u64>,
    (fails, found): (bool, &mut Report),
) {
    for group in groups.sorted() {
        let level = match rank(group.verdict) {
            _ if fails => Level::Error,
            level => level,
        };
        let at = Position::of_line(found.file(), line_of(group, plugins));
        // Several groups may be of as many pods.
        let first = group.names.first().map(|name| format!(": {name}"));
        let name = plain_text(&title(group, &Words::OF_CHAINS)) + &first.unwrap_or_default();
        let case = found.look_at(at, name);
        found.add_to(case, level, &finding(group));
    }
    let case = found.look_at(Position::of_line(found.file(), 0), same(groups));
    if let Some(rest) = rest(groups) {
        let level = if fails { Level::Error } else { Level::Note };
        found.add_to(
            case,
            level,
            &Diagnostic::new(rest).of(rule(Verdict::Changed)),
        );
    }
    for skipped in skipped {
        found.add_to(case, Level::Note, &Diagnostic::new(skipped.to_string()));
    }
}

const fn rank(verdict: Verdict) -> Level {
    match verdict {
        Verdict::DeniedNow | Verdict::FailsNow => Level::Error,
        Verdict::IgnoredNow | Verdict::RejectedOtherwise | Verdict::AllowedNow => Level::Warning,
        Verdict::FailsNoMore | Verdict::Changed | Verdict::WarnedOtherwise => Level::Note,
    }
}

const fn rule(verdict: Verdict) -> &'static Rule {
    match verdict {
        Verdict::DeniedNow => &Rule {
            id: "denied-now",
            summary: "The new chain denies pods.",
        },
        Verdict::FailsNow => &Rule {
            id: "fails-now",
            summary: "A plugin fails now, so pods are rejected.",
        },
        Verdict::IgnoredNow => &Rule {
            id: "ignored-now",
            summary: "A plugin fails now, and is ignored.",
        },
        Verdict::RejectedOtherwise => &Rule {
            id: "rejected-otherwise",
            summary: "Pods are still rejected, for another reason.",
        },
        Verdict::AllowedNow => &Rule {
            id: "allowed-now",
            summary: "The new chain allows pods that were denied.",
        },
        Verdict::FailsNoMore => &Rule {
            id: "fails-no-more",
            summary: "A plugin fails no more, so pods are allowed.",
        },
        Verdict::Changed => &Rule {
            id: "changed",
            summary: "The new chain makes other pods.",
        },
        Verdict::WarnedOtherwise => &Rule {
            id: "warned-otherwise",
            summary: "The same pods get other warnings.",
        },
    }
}

/// The line of the first plugin of the new chain that has to do with it; 0 if there is none.
fn line_of(group: &Group, plugins: &HashMap<String, u64>) -> u64 {
    let writers = group.lines.iter().flat_map(|line| &line.writers.plugins);
    let mut named = group.plugins.iter().chain(writers);
    named
        .find_map(|name| plugins.get(name))
        .copied()
        .unwrap_or(0)
}

fn finding(group: &Group) -> Diagnostic {
    let names = (!group.names.is_empty())
        .then(|| shown(&format!("{}{}", group.names.join(", "), group.more())));
    let mut lines = vec![title(group, &Words::OF_CHAINS)];
    lines.extend(names);
    lines.extend(reasons(group));
    lines.extend(group.lines.iter().flat_map(path_lines));
    lines.extend(more_lines(group));
    Diagnostic::new(plain_text(&lines.join("\n"))).of(rule(group.verdict))
}

/// A text without its colours.
fn plain_text(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
