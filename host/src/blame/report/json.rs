//! Who wrote which path, for programs.

use serde_json::{Map, Value, json};

use super::Report;
use crate::blame::authors::{Author, Blamed};
use crate::blame::proof::Proof;
use crate::blame::stamp::Stamp;

pub(super) fn of(report: &Report<'_>) -> Value {
    let is_proof = report.proof.trees().is_some();
    let values = report.lines.iter().filter(|line| !line.line.is_head);
    let paths: Map<String, Value> = values
        .map(|line| (line.line.path.clone(), who(report, line, is_proof)))
        .collect();
    json!({
        "pod": report.name(),
        "stamp": stamp(report),
        "submittedBy": report.makers(),
        "hasManagedFields": report.fields.entries().next().is_some(),
        "proof": proof(report.proof),
        "paths": paths,
    })
}

/// Who wrote a path: a plugin, a manager, or who submitted it.
fn who(report: &Report<'_>, line: &Blamed, is_proof: bool) -> Value {
    let plugin = |index: usize| report.stamp.plugins().get(index);
    let mut who = match &line.author {
        Some(Author::Plugin(index)) => {
            let plugin = plugin(*index);
            let mut who = json!({
                "plugin": plugin.map(|it| &it.name),
                "version": plugin.map(|it| &it.version),
            });
            if is_proof {
                who["proved"] = line.is_proved.into();
            }
            who
        }
        Some(Author::Manager(name)) => json!({ "manager": name }),
        Some(Author::Submitted) | None => json!({ "submitted": true }),
    };
    if !line.depends_on.is_empty() {
        let others = line.depends_on.iter().filter_map(|index| plugin(*index));
        let others: Vec<&str> = others.map(|it| it.name.as_str()).collect();
        who["dependsOn"] = others.into();
    }
    who
}

/// None without a stamp.
fn stamp(report: &Report<'_>) -> Value {
    match report.stamp {
        Stamp::None => Value::Null,
        Stamp::Unreadable => json!({ "readable": false }),
        Stamp::Read { chain, plugins } => {
            let plugins = plugins.iter().map(|plugin| {
                json!({
                    "name": plugin.name,
                    "version": plugin.version,
                    "sha256": plugin.sha256,
                    "cut": plugin.cut,
                    "notThere": report.gone(plugin),
                })
            });
            json!({ "readable": true, "chain": chain, "plugins": plugins.collect::<Vec<_>>() })
        }
    }
}

/// None if nobody asked for it.
fn proof(proof: &Proof) -> Value {
    match proof {
        Proof::NotAsked => Value::Null,
        Proof::Impossible(why) => json!({ "provable": false, "reason": why }),
        Proof::Done {
            template, untried, ..
        } => {
            let untried = untried.iter();
            let untried = untried.map(|(plugin, why)| json!({ "plugin": plugin, "reason": why }));
            json!({
                "provable": true,
                "template": template,
                "notProvable": untried.collect::<Vec<_>>(),
            })
        }
    }
}
