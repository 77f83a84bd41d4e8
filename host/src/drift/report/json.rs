//! The report for programs.

use serde_json::{Map, Value, json};

use super::super::findings::{ChainPods, Row};
use super::super::mend::mend;
use super::{Report, why};

pub(super) fn of(report: &Report<'_>) -> Value {
    let findings = report.findings;
    let unclear = findings.unclear.iter();
    let unclear = unclear.map(|(it, pods)| json!({ "pods": pods, "why": why(*it) }));
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|it| json!({ "what": it.what, "why": it.why }));
    json!({
        "pods": findings.pods,
        "namespaces": findings.namespaces.len(),
        "drifted": findings.has_drifted(),
        "missedIsKnown": findings.unjudged.is_none(),
        "matchedByPlugins": report.knows_chain,
        "missed": rows(&findings.missed),
        "changed": rows(&findings.changed),
        "chains": findings.chains.iter().map(chain).collect::<Value>(),
        "otherChains": findings.other_chains,
        "unclear": unclear.collect::<Value>(),
        "olderThanWebhook": findings.older,
        "notSelected": findings.not_selected,
        "unmatched": findings.unmatched,
        "incompleteStamps": findings.not_whole,
        "leftOut": findings.left_out,
        "skipped": skipped.collect::<Value>(),
    })
}

fn rows(rows: &[Row]) -> Value {
    rows.iter().map(row).collect()
}

fn row(row: &Row) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("namespace", json!(row.namespace));
    put("kind", json!(row.kind));
    put("name", json!(row.name));
    put("pods", json!(row.pods));
    put("names", json!(row.names));
    put("whatToDo", json!(mend(row)));
    if !row.plugins.is_empty() {
        put("plugins", json!(row.plugins));
    }
    if !row.changes.is_empty() {
        let changes = row.changes.iter();
        let changes = changes
            .map(|it| json!({ "path": it.path, "plugin": it.plugin, "manager": it.manager }));
        put("changes", changes.collect());
        put("hasMoreChanges", json!(row.has_more_changes));
    }
    Value::Object(fields)
}

fn chain(chain: &ChainPods) -> Value {
    let newest = chain.newest.map(|time| time.to_string());
    json!({
        "digest": chain.digest,
        "pods": chain.pods,
        "newest": newest,
        "isThatOfPlugins": chain.is_expected,
    })
}
