//! What `podloom drift` prints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::tally::{Findings, MORE_OWNERS, Row};
use super::{Scope, Unclear};
use crate::cli::ReportFormat;
use crate::error::{CommandError, shown};
use crate::explain::{and_more, count, table};
use crate::feed::Skipped;
use crate::output;
use crate::output::{QUIET, REMOVED, TITLE, WARNING, paint};
use crate::reports::{Key, Policy};

/// Prints the report on standard output.
pub(super) fn print(
    findings: &Findings,
    scope: &Scope,
    format: ReportFormat,
) -> Result<(), CommandError> {
    let text = match format {
        ReportFormat::Text => text_of(findings, scope),
        ReportFormat::Json => output::json_text(&json_of(findings))?,
    };
    output::print(&text)
}

/// Why it is not known whether pods missed the chain.
fn why(unclear: Unclear) -> &'static str {
    match unclear {
        Unclear::Configuration => "which pods the webhook selects could not be read",
        Unclear::Namespace => "the labels of their namespaces could not be read",
        Unclear::Conditions => {
            "the webhook configuration has matchConditions, which are not evaluated here"
        }
        Unclear::Size => {
            "they are larger than 512 KiB, or nested too deep, so they were not looked at"
        }
        Unclear::Ephemeral => {
            "it is not known whether the chain would deny or change their ephemeral containers"
        }
        Unclear::Deployment => "the stamps on the Deployments of their tunnels could not be read",
    }
}

// The report for programs.

pub(super) fn json_of(findings: &Findings) -> Value {
    let unclear = findings.unclear.iter();
    let unclear = unclear.map(|(it, pods)| json!({ "pods": pods, "why": why(*it) }));
    json!({
        "pods": findings.pods,
        "namespaces": findings.namespaces.len(),
        "drifted": findings.has_drifted(),
        "missedIsKnown": findings.unjudged.is_none(),
        "matchedByPlugins": findings.knows_chain,
        "missed": rows(&findings.missed),
        "changed": rows(&findings.changed),
        "ephemeral": rows(&findings.ephemeral),
        "chains": findings.chains,
        "otherChains": findings.other_chains,
        "unclear": unclear.collect::<Value>(),
        "olderThanWebhook": findings.older,
        "notSelected": findings.not_selected,
        "unmatched": findings.unmatched,
        "excepted": findings.excepted,
        "incompleteStamps": findings.not_whole,
        "leftOut": findings.left_out,
        "skipped": findings.skipped,
    })
}

/// What reports say: of each owner in its namespace.
pub(crate) fn reported(findings: &Findings) -> Vec<(String, Key, String)> {
    let kinds = [
        ("missed", "missed the chain", &findings.missed),
        (
            "changed",
            "passed the chain and were changed after it",
            &findings.changed,
        ),
        (
            "ephemeral",
            "have ephemeral containers that the chain would deny or change",
            &findings.ephemeral,
        ),
    ];
    let reported = kinds.into_iter().flat_map(|(rule, what, rows)| {
        rows.iter().map(move |row| {
            let about = match row.kind.as_str() {
                MORE_OWNERS => ("", ""),
                kind => (kind, row.name.as_str()),
            };
            let details: String = details(row).iter().map(|it| format!("; {it}")).collect();
            let text = format!("{} {what}{details}. {}", count(row.pods, "pod"), mend(row));
            (
                row.namespace.clone(),
                Key::of(Policy::Drift, rule, about),
                text,
            )
        })
    });
    reported.collect()
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

// The report for people.

pub(super) fn text_of(findings: &Findings, scope: &Scope) -> String {
    let mut lines = Vec::new();
    for (heading, rows) in [
        ("missed the chain", &findings.missed),
        ("changed after the chain", &findings.changed),
        (
            "with ephemeral containers that the chain would deny or change",
            &findings.ephemeral,
        ),
    ] {
        if !rows.is_empty() {
            lines.push(paint(REMOVED.bold(), &title(heading, rows)));
            lines.extend(table_of(rows));
        }
    }
    lines.extend(chains(findings));
    lines.push(conclusion(findings, scope));
    lines.extend(remarks(findings));
    lines.extend(findings.skipped.iter().map(Skipped::line));
    lines.push(String::new());
    lines.join("\n")
}

/// `missed the chain: 4 pods in 2 namespaces`
fn title(heading: &str, rows: &[Row]) -> String {
    let number: u64 = rows.iter().map(|row| row.pods).sum();
    let namespaces: BTreeSet<&str> = rows.iter().map(|row| row.namespace.as_str()).collect();
    let namespaces = count(namespaces.len(), "namespace");
    format!("{heading}: {} in {namespaces}", count(number, "pod"))
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
        let more = and_more(row.pods, row.names.len());
        details.push(format!("{}{more}", row.names.join(", ")));
    }
    if !row.plugins.is_empty() {
        let names: Vec<&str> = row.plugins.iter().map(String::as_str).collect();
        details.push(format!("without: {}", names.join(", ")));
    }
    details.extend(row.reasons.iter().cloned());
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
            count(findings.other_chains, "pod")
        ));
    }
    lines
}

/// What is said of all pods.
fn conclusion(findings: &Findings, scope: &Scope) -> String {
    let namespaces = count(findings.namespaces.len(), "namespace");
    let all = format!("{} in {namespaces}", count(findings.pods, "pod"));
    if findings.pods == 0 {
        return match &scope.namespace {
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
fn remarks(findings: &Findings) -> Vec<String> {
    let mut remarks = Vec::new();
    for (unclear, number) in &findings.unclear {
        let label = paint(WARNING, "unclear:");
        let which = match unclear {
            Unclear::Size | Unclear::Ephemeral => "",
            _ => " without a stamp",
        };
        let number = count(*number, "pod");
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
            findings.excepted,
            "passed because of a ChainException, which podloom blame names",
        ),
        (
            findings.not_whole,
            "with an incomplete stamp, so not all changes are seen",
        ),
        (
            findings.left_out,
            "left out: ended, being deleted, waiting at the gate, or mirrors of files on nodes",
        ),
    ] {
        if number > 0 {
            remarks.push(format!("{} {what}", count(number, "pod")));
        }
    }
    if !findings.knows_chain && !findings.missed.is_empty() {
        remarks.push(
            "without --plugins, every pod that the webhook selects counts as matched by a plugin"
                .to_owned(),
        );
    }
    remarks
}

// What to do about pods of an owner: new ones pass the chain.

/// The longest name of an object.
const NAME: usize = 253;

/// How to replace the pods of an owner.
fn mend(row: &Row) -> String {
    if row.kind == MORE_OWNERS {
        return "look at their owners: there are too many to list them".to_owned();
    }
    if row.is_template_changed {
        return "undo the change in its template: a restart would only roll that out again"
            .to_owned();
    }
    // Who writes a pod names its owner, and people copy commands into their shells.
    let named = [&row.namespace, &row.name].into_iter().chain(&row.names);
    if !named.into_iter().all(|name| is_name(name)) {
        return "look at its owner: a name is not one that Kubernetes allows".to_owned();
    }

    let Row {
        namespace,
        kind,
        name,
        ..
    } = row;
    match kind.as_str() {
        "Deployment" | "StatefulSet" | "DaemonSet" => {
            let kind = kind.to_lowercase();
            format!("kubectl rollout restart {kind}/{name} -n {namespace}")
        }
        "ReplicaSet" | "ReplicationController" => {
            let more = match and_more(row.pods, row.names.len()).is_empty() {
                true => "",
                false => ", and so on",
            };
            let names = row.names.join(" ");
            format!("kubectl delete pod {names} -n {namespace}{more}")
        }
        // The API server refuses a new pod with ephemeral containers.
        "Pod" if row.is_debugged => {
            let without = r#"[{"op":"remove","path":"/spec/ephemeralContainers"}]"#;
            format!(
                "kubectl get pod {name} -n {namespace} -o yaml | kubectl patch --local -f - --type=json -p '{without}' -o yaml | kubectl replace --force -f -"
            )
        }
        "Pod" => {
            format!("kubectl get pod {name} -n {namespace} -o yaml | kubectl replace --force -f -")
        }
        "CronJob" => "wait for its next Job".to_owned(),
        "Job" => "let it end, or create it again".to_owned(),
        "Browser" => "let the session end; a new Browser gets a new pod".to_owned(),
        _ => format!("delete its pods, which {kind} {name} creates again"),
    }
}

/// Whether a text can be the name of an object.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b':')
    };
    text.len() <= NAME
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(is_inner)
}

#[cfg(test)]
mod tests;
