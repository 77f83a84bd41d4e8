//! SARIF 2.1.0, as code scanning of GitHub and others reads it.

use std::collections::BTreeMap;
use std::env;
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Case, Finding};
use crate::error::Position;
use crate::output::{self, json_text, object};

/// How many results GitHub keeps of a file; it refuses files with many more.
pub(super) const MOST: usize = 5000;

pub(super) fn text(cases: &[Case]) -> anyhow::Result<String> {
    let mut findings: Vec<&Finding> = cases.iter().flat_map(|it| &it.findings).collect();
    findings.sort_by_key(|it| it.level);
    if findings.len() > MOST {
        let more = findings.len() - MOST;
        output::print_note(&format!("note: the report leaves out {more} findings\n"));
        findings.truncate(MOST);
    }
    let rules = findings.iter().map(|it| it.message.rule);
    let rules: BTreeMap<&str, &str> = rules.map(|it| (it.id, it.summary)).collect();
    let driver = json!({
        "name": "podloom",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": rules.iter().map(|(id, summary)| rule(id, summary)).collect::<Value>(),
    });
    json_text(&json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver },
            "columnKind": "unicodeCodePoints",
            "results": findings.into_iter().map(result).collect::<Value>(),
        }],
    }))
}

/// GitHub requires all three texts.
fn rule(id: &str, summary: &str) -> Value {
    let text = json!({ "text": summary });
    json!({ "id": id, "shortDescription": text, "fullDescription": text, "help": text })
}

fn result(finding: &Finding) -> Value {
    let Position {
        file, line, column, ..
    } = &finding.at;
    let known = |number: &u64| Some(*number).filter(|it| *it > 0).map(Value::from);
    let region =
        known(line).map(|line| object([("startLine", Some(line)), ("startColumn", known(column))]));
    let place = object([
        ("artifactLocation", Some(json!({ "uri": uri(file) }))),
        ("region", region),
    ]);
    json!({
        "ruleId": finding.message.rule.id,
        "level": finding.level.name(),
        "message": { "text": plain(&finding.message.about()) },
        "locations": [{ "physicalLocation": place }],
    })
}

/// A text in which nothing is a link, whoever wrote parts of it.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        if matches!(letter, '\\' | '[' | ']') {
            plain.push('\\');
        }
        plain.push(letter);
    }
    plain
}

/// What a URI may have as it is.
const PLAIN: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// A file as a URI, relative to the current directory, which is the checkout's in CI.
fn uri(file: &str) -> String {
    if file == "-" {
        return "stdin".to_owned();
    }
    let file = Path::new(file);
    let here = env::current_dir().unwrap_or_default();
    let file = file.strip_prefix(here).unwrap_or(file);
    let mut plain = PathBuf::new();
    for part in file.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    let scheme = if plain.is_absolute() { "file://" } else { "" };
    let path = plain.to_string_lossy();
    format!("{scheme}{}", utf8_percent_encode(&path, &PLAIN))
}
