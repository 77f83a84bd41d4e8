//! The report for people.

use std::collections::BTreeSet;

use super::super::findings::{Findings, Row};
use super::super::judge::Unclear;
use super::super::mend::mend;
use super::table::table;
use super::{Report, pods, why};
use crate::error::shown;
use crate::explain::count;
use crate::output::{QUIET, REMOVED, TITLE, WARNING, paint};

pub(super) fn of(report: &Report<'_>) -> String {
    let findings = report.findings;
    let mut lines = Vec::new();
    for (heading, rows) in [
        ("missed the chain", &findings.missed),
        ("changed after the chain", &findings.changed),
    ] {
        if !rows.is_empty() {
            lines.push(paint(REMOVED.bold(), &title(heading, rows)));
            lines.extend(table_of(rows));
        }
    }
    lines.extend(chains(findings));
    lines.push(conclusion(report));
    lines.extend(remarks(report));
    for skipped in report.skipped {
        let label = paint(WARNING, "skipped:");
        let said = format!("{}: {}", skipped.what, skipped.why);
        lines.push(format!("{label} {}", shown(&said)));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// `missed the chain: 4 pods in 2 namespaces`
fn title(heading: &str, rows: &[Row]) -> String {
    let number = rows.iter().map(|row| row.pods).sum();
    let namespaces: BTreeSet<&str> = rows.iter().map(|row| row.namespace.as_str()).collect();
    let namespaces = count(namespaces.len(), "namespace");
    format!("{heading}: {} in {namespaces}", pods(number))
}

/// A row of the table for each owner, and below it what is to be said about it.
fn table_of(rows: &[Row]) -> Vec<String> {
    let heading = ["NAMESPACE", "OWNER", "PODS", "WHAT TO DO"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        [
            row.namespace.clone(),
            format!("{} {}", row.kind, row.name),
            row.pods.to_string(),
            mend(row),
        ]
    });
    let cells: Vec<[String; 4]> = std::iter::once(heading).chain(cells).collect();
    let mut lines = Vec::new();
    let mut aligned = table(&cells).into_iter();
    lines.extend(aligned.next().map(|it| format!("  {}", paint(QUIET, &it))));
    for (line, row) in aligned.zip(rows) {
        lines.push(format!("  {}", shown(&line)));
        let details = details(row).into_iter();
        lines.extend(details.map(|it| format!("    {}", paint(QUIET, &shown(&it)))));
    }
    lines
}

fn details(row: &Row) -> Vec<String> {
    let mut details = Vec::new();
    let is_itself = row.kind == "Pod";
    if !is_itself {
        let more = match row.unnamed() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        details.push(format!("{}{more}", row.names.join(", ")));
    }
    if !row.plugins.is_empty() {
        let names: Vec<&str> = row.plugins.iter().map(String::as_str).collect();
        details.push(format!("without: {}", names.join(", ")));
    }
    for change in &row.changes {
        let of = match &change.plugin {
            Some(plugin) => format!("plugin {plugin}"),
            None => "the chain's stamp".to_owned(),
        };
        details.push(format!("{} ({of}), by {}", change.path, change.manager));
    }
    if row.has_more_changes {
        details.push("and more changes".to_owned());
    }
    details
}

fn chains(findings: &Findings) -> Vec<String> {
    if findings.chains.is_empty() {
        return Vec::new();
    }
    let heading = ["PODS", "NEWEST POD", "CHAIN"].map(str::to_owned);
    let rows = findings.chains.iter().map(|chain| {
        let newest = chain.newest.map(|time| time.to_string());
        let which = match chain.is_expected {
            Some(true) => "  that of --plugins",
            Some(false) => "  another one",
            None => "",
        };
        let digest = format!("{}{which}", chain.digest);
        [chain.pods.to_string(), newest.unwrap_or_default(), digest]
    });
    let rows: Vec<[String; 3]> = std::iter::once(heading).chain(rows).collect();
    let mut lines = vec![paint(TITLE, "chains that pods passed")];
    let rows = table(&rows).into_iter().enumerate();
    lines.extend(rows.map(|(number, line)| match number {
        0 => format!("  {}", paint(QUIET, &line)),
        _ => format!("  {}", shown(&line)),
    }));
    if findings.other_chains > 0 {
        lines.push(format!(
            "  and {} of more chains",
            pods(findings.other_chains)
        ));
    }
    lines
}

/// What is said of all pods.
fn conclusion(report: &Report<'_>) -> String {
    let findings = report.findings;
    let namespaces = count(findings.namespaces.len(), "namespace");
    let all = format!("{} in {namespaces}", pods(findings.pods));
    if findings.pods == 0 {
        return match &report.scope.namespace {
            Some(namespace) => format!("no pods in namespace {namespace}"),
            None => "no pods".to_owned(),
        };
    }
    if findings.unjudged.is_some() {
        return format!("looked at {all}, but which of them missed the chain is not known");
    }
    match (findings.has_drifted(), findings.unclear.is_empty()) {
        (true, _) => format!("looked at {all}"),
        (false, true) => format!("nothing drifted: {all}"),
        (false, false) => format!("nothing is known to have drifted: {all}"),
    }
}

/// What the reader has to know about pods that are in no table.
fn remarks(report: &Report<'_>) -> Vec<String> {
    let findings = report.findings;
    let mut remarks = Vec::new();
    for (unclear, number) in &findings.unclear {
        let label = paint(WARNING, "unclear:");
        let which = match unclear {
            Unclear::Size => "",
            _ => " without a stamp",
        };
        let number = pods(*number);
        remarks.push(format!("{label} {number}{which}: {}", why(*unclear)));
    }
    for (number, what) in [
        (
            findings.older,
            "without a stamp: older than the webhook configuration",
        ),
        (
            findings.not_selected,
            "without a stamp: not selected by the webhook",
        ),
        (findings.unmatched, "without a stamp: no plugin matches"),
        (
            findings.not_whole,
            "with an incomplete stamp, so not all changes are seen",
        ),
        (
            findings.left_out,
            "left out: ended, being deleted, or mirrors of files on nodes",
        ),
    ] {
        if number > 0 {
            remarks.push(format!("{} {what}", pods(number)));
        }
    }
    if !report.knows_chain && !findings.missed.is_empty() {
        remarks.push(
            "without --plugins, every pod that the webhook selects counts as matched by a plugin"
                .to_owned(),
        );
    }
    remarks
}
