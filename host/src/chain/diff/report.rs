//! What `podloom chain diff` prints.

mod json;
mod markdown;
mod text;

use podloom_pod_path::ChangeKind;

use crate::cli::DiffFormat;
use crate::compare::groups::{Group, Groups, Line, Rank, Tally};
use crate::compare::writers::{Whose, Writers};
use crate::error::CommandError;
use crate::explain::count;
use crate::feed::Skipped;
use crate::output;

/// What was compared, and what was not.
pub(super) struct Report<'a> {
    pub(super) groups: &'a Groups,
    /// What could not be read, or is not compared, and why.
    pub(super) skipped: &'a [Skipped],
}

/// Prints the report on standard output.
pub(super) fn print(report: &Report<'_>, format: DiffFormat) -> Result<(), CommandError> {
    let text = match format {
        DiffFormat::Text => text::of(report)?,
        DiffFormat::Json => output::json_text(&json::of(report))?,
        DiffFormat::Markdown => markdown::of(report)?,
    };
    output::print(&text)
}

/// The report for people.
#[cfg(test)]
pub(super) fn text_of(report: &Report<'_>) -> anyhow::Result<String> {
    text::of(report)
}

/// `412 pods in 9 namespaces`
fn many(tally: &Tally) -> String {
    let pods = usize::try_from(tally.pods).unwrap_or(usize::MAX);
    format!(
        "{} in {}",
        count(pods, "pod"),
        count(tally.namespaces(), "namespace")
    )
}

/// The heading of a group.
fn heading(rank: Rank) -> &'static str {
    match rank {
        Rank::DeniedNow => "denied now",
        Rank::FailsNow => "fails now, so it is rejected",
        Rank::IgnoredNow => "a plugin fails now, and is ignored",
        Rank::RejectedOtherwise => "still rejected, for another reason",
        Rank::AllowedNow => "allowed now",
        Rank::FailsNoMore => "fails no more, so it is allowed",
        Rank::Changed => "changed",
        Rank::WarnedOtherwise => "the same pod with other warnings",
    }
}

/// `plugin a`, or `plugins a, b`
fn plugins(names: &[String]) -> String {
    let noun = if names.len() == 1 {
        "plugin"
    } else {
        "plugins"
    };
    format!("{noun} {}", names.join(", "))
}

/// Who made a change; empty if no plugin did.
fn by(writers: &Writers) -> String {
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

/// How many pods of a group are not named.
fn unnamed(group: &Group) -> u64 {
    let named = u64::try_from(group.names.len()).unwrap_or(u64::MAX);
    group.tally.pods.saturating_sub(named)
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
