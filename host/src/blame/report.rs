//! What the command prints.

use std::collections::BTreeSet;

use anstyle::Style;
use podloom_mutators::MutationEntry;
use serde_json::{Map, Value, json};

use super::Stamp;
use super::authors::{Author, Blamed, is_at_or_below};
use super::proof::{Proof, short};
use crate::cli::BlameFormat;
use crate::error::{escape_controls, shown};
use crate::managed_fields::ManagedFields;
use crate::manifest::metadata;
use crate::output::{self, ADDED, CHANGED, QUIET, WARNING, paint};

/// A pod, and who wrote its lines.
pub(super) struct Report<'a> {
    pub(super) pod: &'a Value,
    pub(super) lines: &'a [Blamed],
    pub(super) stamp: &'a Stamp,
    pub(super) fields: &'a ManagedFields<'a>,
    pub(super) proof: &'a Proof,
}

/// The report as text.
pub(super) fn render(report: &Report<'_>, format: BlameFormat) -> anyhow::Result<String> {
    match format {
        BlameFormat::Text => Ok(text_of(report)),
        BlameFormat::Json => output::json_text(&json_of(report)),
    }
}

impl Report<'_> {
    /// As `shop/web`.
    fn name(&self) -> String {
        let text = |field: &str| Some(metadata(self.pod, field)).filter(|it| !it.is_empty());
        let name = text("name").or_else(|| text("generateName"));
        let name = name.unwrap_or("(without a name)");
        match text("namespace") {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The managers that made the pod, each once.
    fn makers(&self) -> BTreeSet<&str> {
        let makers = self.fields.entries().filter(|entry| entry.is_maker);
        makers.map(|entry| entry.manager.as_str()).collect()
    }

    /// The paths that a plugin wrote, and where the pod has nothing: it removed that, or somebody did later.
    fn gone<'p>(&self, plugin: &'p MutationEntry) -> Vec<&'p str> {
        let is_there = |path: &str| {
            let mut lines = self.lines.iter();
            lines.any(|line| is_at_or_below(&line.line.path, path))
        };
        let paths = plugin.paths.iter().map(String::as_str);
        paths.filter(|path| !is_there(path)).collect()
    }
}

// Who wrote which path, for programs.

fn json_of(report: &Report<'_>) -> Value {
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
        "proof": proof_json(report.proof),
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
fn proof_json(proof: &Proof) -> Value {
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

// The pod with a gutter, for people.

/// The longest gutter; who has a longer name moves his line to the right.
const WIDEST: usize = 48;

fn text_of(report: &Report<'_>) -> String {
    let mut text = String::new();
    for (style, line) in notes(report) {
        text.push_str(&paint(style, &format!("# {}", shown(&line))));
        text.push('\n');
    }
    let plugins = report.stamp.plugins();
    let is_proof = report.proof.trees().is_some();
    let gutters: Vec<(Style, String)> = report
        .lines
        .iter()
        .map(|line| gutter(line, plugins, is_proof))
        .collect();
    let widths = gutters.iter().map(|(_, gutter)| gutter.chars().count());
    let width = widths
        .filter(|width| *width <= WIDEST)
        .max()
        .unwrap_or_default();
    for ((style, gutter), line) in gutters.iter().zip(report.lines) {
        let gutter = paint(*style, &format!("{gutter:width$}"));
        let row = format!("{gutter} | {}", line.line.text);
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Who wrote a line.
fn gutter(line: &Blamed, plugins: &[MutationEntry], is_proof: bool) -> (Style, String) {
    let (style, mut text) = match &line.author {
        None => return (QUIET, String::new()),
        Some(Author::Submitted) => (QUIET, "submitted".to_owned()),
        Some(Author::Manager(name)) => (CHANGED, name.clone()),
        Some(Author::Plugin(index)) => (ADDED, plugins.get(*index).map(titled).unwrap_or_default()),
    };
    let mut remarks = Vec::new();
    if is_proof && !line.is_proved && matches!(line.author, Some(Author::Plugin(_))) {
        remarks.push("not proved".to_owned());
    }
    let others = line.depends_on.iter().filter_map(|it| plugins.get(*it));
    let others: Vec<&str> = others.map(|entry| entry.name.as_str()).collect();
    if !others.is_empty() {
        remarks.push(format!("depends on {}", others.join(", ")));
    }
    if !remarks.is_empty() {
        text.push_str(&format!(" ({})", remarks.join("; ")));
    }
    (style, escape_controls(&text))
}

fn titled(plugin: &MutationEntry) -> String {
    format!("{} {}", plugin.name, plugin.version)
}

/// What is to know before reading the lines.
fn notes(report: &Report<'_>) -> Vec<(Style, String)> {
    let mut notes = vec![(QUIET, format!("Pod {}", report.name()))];
    notes.push(match report.stamp {
        Stamp::None => (
            WARNING,
            "It has no stamp, so it did not pass a chain of podloom: no line is a plugin's.".to_owned(),
        ),
        Stamp::Unreadable => (
            WARNING,
            "Its stamp cannot be read, so somebody has changed it: which lines are a plugin's is not known."
                .to_owned(),
        ),
        Stamp::Read { chain, plugins } => {
            let names: Vec<String> = plugins.iter().map(titled).collect();
            let names = match names.is_empty() {
                true => "no plugin ran".to_owned(),
                false => names.join(", "),
            };
            (QUIET, format!("It passed the chain {}: {names}", short(chain)))
        }
    });
    notes.push((QUIET, submitted(report)));
    if report.fields.is_cut() {
        let text = "Its managedFields are too long: some managers may be missing.";
        notes.push((WARNING, text.to_owned()));
    }
    for plugin in report.stamp.plugins() {
        if plugin.cut {
            let name = &plugin.name;
            let text = format!(
                "Lines of {name} may be missing: the stamp had no room for all of its paths. They are shown as \"submitted\"."
            );
            notes.push((WARNING, text));
        }
        let gone = report.gone(plugin);
        if !gone.is_empty() {
            let text = format!(
                "{} also wrote what is not there: {}",
                plugin.name,
                gone.join(", ")
            );
            notes.push((QUIET, text));
        }
    }
    notes.extend(proof_notes(report.proof));
    notes
}

/// What the word stands for.
fn submitted(report: &Report<'_>) -> String {
    let makers: Vec<&str> = report.makers().into_iter().collect();
    match (report.fields.entries().count(), makers.as_slice()) {
        (0, _) => "It has no managedFields (kubectl prints them with --show-managed-fields), so \"submitted\" is every line that is \
                   not a plugin's."
            .to_owned(),
        (_, []) => "\"submitted\" is what somebody submitted or the API server set: nothing says which.".to_owned(),
        (_, makers) => format!(
            "\"submitted\" is what {} submitted or the API server set: nothing says which.",
            makers.join(" and ")
        ),
    }
}

fn proof_notes(proof: &Proof) -> Vec<(Style, String)> {
    match proof {
        Proof::NotAsked => Vec::new(),
        Proof::Impossible(why) => vec![(WARNING, format!("Not provable: {why}."))],
        Proof::Done {
            template, untried, ..
        } => {
            let text = format!(
                "Proved by leaving out each plugin in turn, on the template of {template}."
            );
            let mut notes = vec![(QUIET, text)];
            notes.extend(
                untried
                    .iter()
                    .map(|(plugin, why)| (WARNING, format!("Not provable for {plugin}: {why}."))),
            );
            notes
        }
    }
}
