//! The report for programs.

use serde_json::{Value, json};

use super::super::findings::Row;
use super::super::mend::mend;
use super::{Report, why};

pub(super) fn of(report: &Report<'_>) -> Value {
    let findings = report.findings;
    let unclear = findings.unclear.iter();
    let unclear = unclear.map(|(it, pods)| json!({ "pods": pods, "why": why(*it) }));
    json!({
        "pods": findings.pods,
        "namespaces": findings.namespaces.len(),
        "drifted": findings.has_drifted(),
        "missedIsKnown": findings.unjudged.is_none(),
        "matchedByPlugins": report.knows_chain,
        "missed": rows(&findings.missed),
        "changed": rows(&findings.changed),
        "chains": findings.chains,
        "otherChains": findings.other_chains,
        "unclear": unclear.collect::<Value>(),
        "olderThanWebhook": findings.older,
        "notSelected": findings.not_selected,
        "unmatched": findings.unmatched,
        "incompleteStamps": findings.not_whole,
        "leftOut": findings.left_out,
        "skipped": report.skipped,
    })
}

fn rows(rows: &[Row]) -> Value {
    rows.iter().map(row).collect()
}

fn row(row: &Row) -> Value {
    let mut fields = json!(row);
    fields["whatToDo"] = mend(row).into();
    if !row.changes.is_empty() {
        fields["hasMoreChanges"] = row.has_more_changes.into();
    }
    fields
}
